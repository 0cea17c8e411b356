/** Owns the agents' latest reports on devices, for commands that show what a policy does there. */
import type { DeviceReport, DeviceStatus } from '../../api/device.ts';
import type { Session } from '../session/session.ts';

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
