/** Owns the finding of devices by what people call them: host name, public key, tunnel address or id. */
import type { Device } from '../../api/device.ts';
import { findOne } from '../session/find-one.ts';
import type { Session } from '../session/session.ts';

export async function allDevices(session: Session): Promise<readonly Device[]> {
  const client = await session.client();
  return client.devices.list(await session.organization(), { signal: session.signal });
}

export const pickDevice = (devices: readonly Device[], text: string): Device =>
  findOne('device', text, devices, ({ id, hostname, public_key, tunnel_ip }) => ({
    id,
    names: [hostname, public_key, tunnel_ip].filter((name) => name !== ''),
  }));

export async function findDevice(session: Session, text: string): Promise<Device> {
  return pickDevice(await allDevices(session), text);
}

export const deviceName = ({ hostname, id }: { readonly hostname: string; readonly id: string }): string =>
  hostname || id;
