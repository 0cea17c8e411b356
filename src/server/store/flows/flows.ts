/** Owns observed traffic in the store: reports written together, pages read from the newest block on, old sums added up and removed. */
import type { Timestamp } from '../../../organization/decide/records.ts';
import { parseDeviceId, type OrganizationId, type DeviceId } from '../../../policy/ids.ts';
import { StoreError } from '../../problems.ts';
import type { FlowBatch, KeptFlows, FlowQuery, FlowPage, FlowCoverage, RefusalSurge } from '../data/flows.ts';
import type { Context } from '../write/context.ts';
import { checkTime } from '../write/right.ts';
import { now } from '../write/stamp.ts';
import { blocksOf, reportValues, reportWriter } from './reports.ts';
import * as sql from './statements.ts';
import { addUpAfterMs, forgetFlows, type FlowOptions } from './upkeep.ts';
import { readPage } from './walk.ts';
import type { Authority } from '../data/actor.ts';

/** Of a report that is not written. */
const noTime = '1970-01-01T00:00:00.000Z';

export function flowsIn(context: Context, options: FlowOptions) {
  const { reads } = context;

  const write = reportWriter(context);

  return {
    /** No report may have ended longer ago: its hour may be added up already. In milliseconds. */
    takenMs: addUpAfterMs,

    /**
     * Keeps what a device observed; no revision, no event. Reports that come together are one write. The right is checked in the statement that writes. A
     * report that a device sends again is kept and counted once. Of a minute a device has no more sums than one report may hold: the packets of the rest count as not recorded.
     */
    async report(org: OrganizationId, id: DeviceId, batch: FlowBatch, { right }: Authority): Promise<KeptFlows> {
      checkTime(right, now(context));
      const blocks = await options.slices.run(blocksOf(batch.sums), { atOnce: 2 });
      return write({ org, id, batch, blocks, right });
    },

    /** Checks the right to report, where there is nothing to keep. */
    async mayReport(org: OrganizationId, id: DeviceId, { right }: Authority): Promise<void> {
      checkTime(right, now(context));
      const batch: FlowBatch = { since: noTime, until: noTime, observed: 'refused', sums: [], not_recorded: 0 };
      const [row] = await reads.run(sql.findFlowRefusals, reportValues([{ org, id, batch, right }]));
      if (row?.refusal !== null && row?.refusal !== undefined) throw new StoreError({ code: row.refusal });
    },

    page: (org: OrganizationId, query: FlowQuery): Promise<FlowPage> => readPage(reads, org, query),

    /** The days since this time on which devices reported. */
    async coverage(
      org: OrganizationId,
      since: Timestamp,
      devices?: readonly DeviceId[],
    ): Promise<readonly FlowCoverage[]> {
      const rows = await reads.run(sql.readCoverage, [org, since, devices ?? null]);
      return rows.map(({ device_id, ...row }) => ({ device_id: parseDeviceId(device_id), ...row }));
    },

    /** The devices whose refusals are far above their usual level now. */
    async surges(org: OrganizationId): Promise<readonly RefusalSurge[]> {
      const rows = await reads.run(sql.readSurges, [org, now(context)]);
      return rows.map(({ device_id, newest, usual, ...row }) => ({
        device_id: parseDeviceId(device_id),
        ...row,
        refused_per_minute: Math.round(newest),
        usual_per_minute: Math.round(usual),
      }));
    },

    /** Removes what is too old, and of organizations that have too much the oldest of the devices that have the most, with the coverage of its days; adds up what is older than two hours by the hour. */
    forget: (): Promise<void> => forgetFlows(context, options),
  };
}
