/** Owns what happens to sums as they age: added up by the hour, and removed by number. */
import type { ShortSteps } from '../data/short-steps.ts';
import type { Runner } from '../postgres/connection.ts';
import type { Context } from '../write/context.ts';
import * as sql from './statements.ts';
import { addUp, blockFilter, inBlocks, writeBlock } from './sum-block.ts';

export interface FlowOptions {
  readonly slices: ShortSteps;
  readonly keepMs: number;
  /** Sums that an organization may have. */
  readonly most: number;
}

const hourMs = 3_600_000;
/** Hours that ended so long ago are added up. No report is taken for them any more. */
export const addUpAfterMs = 2 * hourMs;
/** Hours of devices that one call adds up: 24,000 in an hour, where one server of all calls it every five minutes. */
const hoursAtOnce = 2_000;
/** Sums that are added up at a time, some 40 MB. An hour with more stays as it was reported. */
const mostAddedUp = 262_144;

export async function forgetFlows(context: Context, { keepMs, most, slices }: FlowOptions): Promise<void> {
  const { writes, transactions, clock } = context;
  await writes.run(sql.cutOldCoverage, [new Date(clock() - keepMs).toISOString()]);
  for (const { org_id } of await writes.run(sql.findFull, [most])) await writes.run(sql.removeMost, [org_id, most]);
  // Whole hours: the count of their sums is that of what is added up.
  const before = new Date(Math.floor((clock() - addUpAfterMs) / hourMs) * hourMs).toISOString();
  for (const hour of await writes.run(sql.findHours, [before, hoursAtOnce])) {
    if (hour.sums > mostAddedUp) await writes.run(sql.keepHour, [hour.device_id, hour.hour, hour.last]);
    else await transactions.run((tx) => addUpHour(tx, hour, slices));
  }
}

/** The reports of one hour become one, apart for what was observed. */
async function addUpHour(
  tx: Runner,
  { org_id, device_id, hour, last }: sql.HourRow,
  slices: ShortSteps,
): Promise<void> {
  const rows = await tx.run(sql.takeHour, [device_id, hour, last]);
  for (const observedAll of [false, true]) {
    const these = rows.filter(({ observed_all }) => observed_all === observedAll);
    if (these.length === 0) continue;
    const since = these.map((row) => row.since).reduce((a, b) => (a < b ? a : b));
    const until = these.map((row) => row.until).reduce((a, b) => (a > b ? a : b));
    const sums = await slices.run(addUp(these.map(({ block }) => block)));
    for (const [part, block] of inBlocks(sums).entries()) {
      const values = [org_id, device_id, since, until, observedAll, part, block.length, blockFilter(block)];
      await tx.run(sql.insertHour, [...values, writeBlock(block)]);
    }
  }
}
