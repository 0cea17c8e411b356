/** Owns the reading of reports of traffic for the audit log: what each of them refused. */
import { parseDeviceId, parseOrganizationId } from '../../../policy/ids.ts';
import type { RefusedReport } from '../data/audit.ts';
import type { Context } from '../write/context.ts';
import { readReports } from './statements.ts';
import { readBlock } from './sum-block.ts';

/** By their places in the outbox, in this order; what was removed or added up meanwhile is missing. */
export const refusedReportsIn =
  ({ writes }: Context) =>
  async (places: readonly string[]): Promise<readonly RefusedReport[]> =>
    (await writes.run(readReports, [places])).map(
      ({ org_id, device_id, hostname, since, until, part, block }): RefusedReport => ({
        organization_id: parseOrganizationId(org_id),
        device_id: parseDeviceId(device_id),
        ...(hostname !== null && { hostname }),
        since,
        until,
        part,
        sums: [...readBlock(block, { verdict: 'refused' })],
      }),
    );
