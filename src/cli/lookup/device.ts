/** Owns devices as commands name and show them: their lookup by host name, public key, tunnel address or id, which are isolated, and what their agents reported. */
import type { Device, DeviceReport, DeviceStatus } from '../../api/device.ts';
import { devicesNamed } from '../../organization/of-records.ts';
import { wordsFor, type NamedThing } from '../../client/words/naming.ts';
import { findOne } from '../session/find-one.ts';
import type { Session } from '../session/session.ts';
import { CliError } from '../terminal/exit.ts';
import { printable } from '../../policy/names/printable.ts';
import type { PastQuery } from './past.ts';
import { shortTime } from '../terminal/time.ts';

export async function allDevices(session: Session, past: PastQuery = {}): Promise<readonly Device[]> {
  const client = await session.client();
  return client.devices.list(await session.organization(), past);
}

export const namesOfDevice = ({ id, hostname, public_key, tunnel_ip, user_id }: Device): NamedThing => ({
  id,
  names: [hostname, public_key, tunnel_ip],
  note: `device of user ${user_id}`,
});

export const pickDevice = (devices: readonly Device[], text: string): Device =>
  findOne('device', text, devices, namesOfDevice);

/**
 * Returns the word by which commands and files find a device: its host name where that is unambiguous, otherwise its
 * id.
 */
export const deviceWords = (devices: readonly Device[]): ((device: Device) => string) =>
  wordsFor(devices, namesOfDevice);

export async function findDevice(session: Session, text: string): Promise<Device> {
  return pickDevice(await allDevices(session), text);
}

/** The devices that a command is about. */
export interface Devices {
  readonly devices: readonly Device[];
  /** Whether the person meant several, however many there are. */
  readonly isMany: boolean;
}

/** One device by any of its names, or all whose host name matches a pattern such as `web-*`. */
export function pickDevices(devices: readonly Device[], text: string): Devices {
  if (!isPattern(text)) return { devices: [pickDevice(devices, text)], isMany: false };
  const found = devices.filter(({ hostname }) => matchesPattern(text, hostname));
  if (found.length === 0) throw new CliError('notFound', `no device has a host name like ${printable(text)}`);
  return { devices: found, isMany: true };
}

export const withLabels = (devices: readonly Device[], wanted: readonly string[]): readonly Device[] =>
  devicesNamed([{ labels: wanted }], devices);

/** Every device that carries all of these labels. */
export function pickLabelled(devices: readonly Device[], wanted: readonly string[]): Devices {
  const found = withLabels(devices, wanted);
  if (found.length === 0) throw new CliError('notFound', `no device has the ${labelWords(wanted)}`);
  return { devices: found, isMany: true };
}

const labelWords = (labels: readonly string[]): string =>
  labels.length === 1 ? `label ${labels.join()}` : `labels ${labels.join(' and ')}`;

export const deviceName = ({ hostname, id }: { readonly hostname: string; readonly id: string }): string =>
  hostname || id;

export const isPattern = (text: string): boolean => /[*?]/.test(text);

/** Whether the name matches; in one walk, going back to the last star only, so that no pattern takes long. */
export function matchesPattern(pattern: string, name: string): boolean {
  const [wanted, given] = [[...pattern], [...name]];
  let [at, here] = [0, 0];
  let star: { readonly pattern: number; name: number } | undefined;
  while (here < given.length) {
    if (wanted[at] === '*') {
      star = { pattern: at, name: here };
      at += 1;
    } else if (wanted[at] === '?' || (at < wanted.length && wanted[at] === given[here])) {
      at += 1;
      here += 1;
    } else if (star === undefined) return false;
    else {
      star.name += 1;
      at = star.pattern + 1;
      here = star.name;
    }
  }
  while (wanted[at] === '*') at += 1;
  return at === wanted.length;
}

/** More devices than these nobody reads. */
const shownDevices = 10;

/** `Device web-7 is isolated until 2026-11-18T10:14:05Z: suspicious logins`, one line for each. */
export function isolatedLines(devices: readonly Device[]): readonly string[] {
  const lines = devices.flatMap((device) => {
    const { isolated } = device;
    if (isolated === undefined) return [];
    const end = isolated.until === undefined ? '' : ` until ${shortTime(isolated.until)}`;
    return [`Device ${deviceName(device)} is isolated${end}: ${isolated.reason}`];
  });
  const more = lines.length - shownDevices;
  return more <= 0 ? lines : [...lines.slice(0, shownDevices), `and ${more} more isolated: ringfence device list`];
}

/** By the device's id. */
export async function allStatuses(session: Session): Promise<ReadonlyMap<string, DeviceStatus>> {
  const client = await session.client();
  const statuses = await client.statuses.list(await session.organization());
  return new Map(statuses.map((status) => [status.device_id, status]));
}

/** What agents said last, by the device's id; a device whose agent never reported is not among them. */
export async function allReports(session: Session): Promise<ReadonlyMap<string, DeviceReport>> {
  const statuses = await allStatuses(session);
  return new Map([...statuses].flatMap(([id, { status }]) => (status === undefined ? [] : [[id, status]])));
}
