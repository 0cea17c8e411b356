/** Owns what the agent of a device said last, for looks at what its policy does there. */
import type { DeviceReport } from '../../api/device.ts';
import type { Session } from '../session/session.ts';

/** By the device's id; a device whose agent never reported is not among them. */
export async function allReports(session: Session): Promise<ReadonlyMap<string, DeviceReport>> {
  const client = await session.client();
  const statuses = await client.statuses.list(await session.organization(), { signal: session.signal });
  return new Map(statuses.map(({ device_id, status }) => [device_id, status]));
}
