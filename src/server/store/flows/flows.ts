/** Owns observed traffic in the store: reports written together, pages read from the newest block on, old sums added up and removed. */
import { parseDeviceId } from '../../../policy/ids.ts';
import { StoreError } from '../../problems.ts';
import type { FlowBatch, Flows } from '../contract/flows/flows.ts';
import type { Context } from '../write/context.ts';
import { checkTime } from '../write/right.ts';
import { now } from '../write/stamp.ts';
import { blocksOf, reportValues, reportWriter } from './reports.ts';
import * as sql from './statements.ts';
import { addUpAfterMs, forgetFlows, type FlowOptions } from './upkeep.ts';
import { readPage } from './walk.ts';

/** Of a report that is not written. */
const noTime = '1970-01-01T00:00:00.000Z';

export function flowsIn(context: Context, options: FlowOptions): Flows {
  const { reads } = context;

  const write = reportWriter(context);

  return {
    takenMs: addUpAfterMs,

    async report(org, id, batch, { right }) {
      checkTime(right, now(context));
      const blocks = await options.slices.run(blocksOf(batch.sums), { atOnce: 2 });
      return write({ org, id, batch, blocks, right });
    },

    async mayReport(org, id, { right }) {
      checkTime(right, now(context));
      const batch: FlowBatch = { since: noTime, until: noTime, observed: 'refused', sums: [], not_recorded: 0 };
      const [row] = await reads.run(sql.findFlowRefusals, reportValues([{ org, id, batch, right }]));
      if (row?.refusal !== null && row?.refusal !== undefined) throw new StoreError({ code: row.refusal });
    },

    page: (org, query) => readPage(reads, org, query),

    async coverage(org, since, devices) {
      const rows = await reads.run(sql.readCoverage, [org, since, devices ?? null]);
      return rows.map(({ device_id, ...row }) => ({ device_id: parseDeviceId(device_id), ...row }));
    },

    async surges(org) {
      const rows = await reads.run(sql.readSurges, [org, now(context)]);
      return rows.map(({ device_id, newest, usual, ...row }) => ({
        device_id: parseDeviceId(device_id),
        ...row,
        refused_per_minute: Math.round(newest),
        usual_per_minute: Math.round(usual),
      }));
    },

    forget: () => forgetFlows(context, options),
  };
}
