/** Owns observed traffic in the store: reports written together, pages read from the newest block on, old sums added up and removed. */
import { parseDeviceId, type DeviceId, type OrganizationId } from '../../../policy/ids.ts';
import { Coalescer } from '../../scheduling/coalescer.ts';
import type { Right } from '../contract/actor.ts';
import { StoreError, type StoreProblem } from '../contract/errors.ts';
import {
  readFlowCursor,
  type FlowBatch,
  type FlowCursor,
  type FlowPage,
  type FlowQuery,
  type Flows,
  type FlowSum,
  type StoredFlow,
} from '../contract/flows/flows.ts';
import type { Runner } from '../postgres/connection.ts';
import type { Value } from '../postgres/sql.ts';
import type { Context } from '../write/context.ts';
import { checkTime, rightItem } from '../write/right.ts';
import { now } from '../write/stamp.ts';
import * as sql from './statements.ts';
import { addUp, blockFilter, inBlocks, readBlock, wantedBits, writeBlock } from './sum-block.ts';

export interface FlowOptions {
  readonly keepMs: number;
  /** Sums that an organization may have. */
  readonly most: number;
}

interface Report {
  readonly org: OrganizationId;
  readonly id: DeviceId;
  readonly batch: FlowBatch;
  readonly right: Right;
}

const bytea = (bytes: Buffer): string => `\\x${bytes.toString('hex')}`;

function reportValues(asked: readonly Report[]): Value[] {
  const rights = asked.map(({ right }) => rightItem(right));
  return [
    asked.map(({ org }) => org),
    asked.map(({ id }) => id),
    asked.map(({ batch }) => batch.since),
    asked.map(({ batch }) => batch.until),
    asked.map(({ batch }) => String(batch.observed === 'all')),
    asked.map(({ batch }) => String(batch.not_recorded)),
    asked.map(({ batch }) => String(batch.sums.length)),
    rights.map(({ may }) => String(may)),
    rights.map(({ token }) => token),
    rights.map(({ session }) => session),
    asked.map(({ right }) => right.user_id ?? null),
  ];
}

function blockValues(asked: readonly Report[]): Value[] {
  const blocks = asked.flatMap(({ batch }, index) =>
    inBlocks(batch.sums).map((sums, part) => ({ place: index + 1, part, sums })),
  );
  return [
    blocks.map(({ place }) => String(place)),
    blocks.map(({ part }) => String(part)),
    blocks.map(({ sums }) => String(sums.length)),
    blocks.map(({ sums }) => blockFilter(sums)),
    blocks.map(({ sums }) => bytea(writeBlock(sums))),
  ];
}

function refusedPerMinute({ sums, since, until }: FlowBatch): number {
  const packets = sums.reduce((all, sum) => (sum.verdict === 'refused' ? all + sum.packets : all), 0);
  return packets / Math.max(1, (Date.parse(until) - Date.parse(since)) / 60_000);
}

/** Each device once in a turn, because a statement writes a row once. */
function inTurns(asked: readonly Report[]): readonly (readonly Report[])[] {
  const turns: Report[][] = [];
  const counts = new Map<DeviceId, number>();
  for (const report of asked) {
    const turn = counts.get(report.id) ?? 0;
    counts.set(report.id, turn + 1);
    (turns[turn] ??= []).push(report);
  }
  return turns;
}

/** Blocks that one request reads first and at most at a time, and looks at in all. */
const fewBlocks = 64;
const manyBlocks = 1_024;
const mostBlocks = 4_096;
/** Later than any time that is stored. */
const lastTime = '9999-12-31T00:00:00.000Z';
const firstTime = '1970-01-01T00:00:00.000Z';
const largestId = '9223372036854775807';

function cursorOf(text: string | undefined): FlowCursor {
  if (text === undefined) return { until: lastTime, id: largestId, place: 0 };
  const cursor = readFlowCursor(text);
  if (cursor === undefined) throw new RangeError('no cursor of flows');
  return cursor;
}
const printCursor = ({ until, id, place }: FlowCursor): string => `${Date.parse(until)}.${id}.${place}`;

/** Sums older than this are added up by the hour. */
const addUpAfterMs = 2 * 3_600_000;
const hoursAtOnce = 500;

export function flowsIn(context: Context, { keepMs, most }: FlowOptions): Flows {
  const { reads, standbyReads, writes, transactions, clock } = context;

  const writeOnce = async (asked: readonly Report[]): Promise<ReadonlyMap<Report, StoreProblem>> => {
    // In one order, as every process writes them, so that no two wait for each other.
    const ordered = asked.toSorted((a, b) => (a.id < b.id ? -1 : 1));
    const rates = ordered.map(({ batch }) => String(refusedPerMinute(batch)));
    const rows = await writes.run(sql.insertFlows, [...reportValues(ordered), ...blockValues(ordered), rates]);
    const taken = new Set(rows.map(({ id }) => id));
    const missing = ordered.filter(({ id }) => !taken.has(id));
    if (missing.length === 0) return new Map();
    const refusals = new Map(
      (await reads.run(sql.findFlowRefusals, reportValues(missing))).map(({ id, refusal }) => [id, refusal]),
    );
    const problemOf = ({ id }: Report): StoreProblem => {
      const code = refusals.get(id) ?? 'not_found';
      return code === 'not_found' ? { code, what: 'device' } : { code };
    };
    return new Map(missing.map((report) => [report, problemOf(report)]));
  };

  const writing = new Coalescer<Report, StoreProblem | undefined>({
    nameOf: ({ id, batch, right: { credential } }) =>
      `${id} ${batch.until} ${credential.kind === 'token' ? credential.digest : ''}`,
    read: async (all) => {
      const problems = new Map<Report, StoreProblem>();
      for (const turn of inTurns(all))
        for (const [report, problem] of await writeOnce(turn)) problems.set(report, problem);
      return all.map((report) => problems.get(report));
    },
  });

  const readBlocks = (
    org: OrganizationId,
    query: FlowQuery,
    { from, limit }: { readonly from: FlowCursor; readonly limit: number },
  ): Promise<readonly sql.BlockRow[]> => {
    const { devices, since = firstTime, until = lastTime } = query;
    const [bits = null, otherBits = bits] = wantedBits(query) ?? [];
    const values = [org, since, until, from.until, bits, from.id, limit, otherBits];
    if (devices === undefined) return standbyReads.run(sql.blocksOfOrganization, values);
    const [first, second] = devices;
    if (first === undefined) return Promise.resolve([]);
    return second === undefined
      ? standbyReads.run(sql.blocksOfDevice, [...values, first])
      : standbyReads.run(sql.blocksOfDevices, [...values, devices]);
  };

  return {
    keptMs: keepMs,

    async report(org, id, batch, { right }) {
      checkTime(right, now(context));
      const problem = await writing.batched.get({ org, id, batch, right });
      if (problem !== undefined) throw new StoreError(problem);
    },

    async mayReport(org, id, { right }) {
      checkTime(right, now(context));
      const batch: FlowBatch = { since: firstTime, until: firstTime, observed: 'refused', sums: [], not_recorded: 0 };
      const [row] = await reads.run(sql.findFlowRefusals, reportValues([{ org, id, batch, right }]));
      if (row?.refusal !== null && row?.refusal !== undefined) throw new StoreError({ code: row.refusal });
    },

    async page(org, query): Promise<FlowPage> {
      const flows: StoredFlow[] = [];
      let from = cursorOf(query.after);
      for (let seen = 0, limit = fewBlocks; seen < mostBlocks; limit = Math.min(2 * limit, manyBlocks)) {
        const rows = await readBlocks(org, query, { from, limit });
        for (const { id, device_id, since, until, block } of rows) {
          const first = id === from.id ? from.place : 0;
          for (const { place, sum } of readBlock(block, query)) {
            if (place < first) continue;
            if (flows.length === query.limit) return { flows, next: printCursor({ until, id, place }) };
            flows.push({ device_id: parseDeviceId(device_id), since, until, ...sum });
          }
        }
        const last = rows.at(-1);
        if (last === undefined || rows.length < limit) return { flows };
        seen += rows.length;
        // The next read begins after the last block. A place beyond its sums skips it where ids do not tell.
        from = { until: last.until, id: (BigInt(last.id) - 1n).toString(), place: 0 };
      }
      return { flows, next: printCursor(from) };
    },

    async coverage(org, since, devices) {
      const rows = await standbyReads.run(sql.readCoverage, [org, since, devices ?? null]);
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

    async forget() {
      const oldest = new Date(clock() - keepMs).toISOString();
      await writes.run(sql.removeOld, [oldest]);
      await writes.run(sql.removeOldCoverage, [oldest]);
      await writes.run(sql.removeOldLevels, [oldest]);
      for (const { org_id } of await writes.run(sql.findFull, [most])) {
        await writes.run(sql.removeOldest, [org_id, most]);
        await writes.run(sql.removeCoverageOfRemoved, [org_id]);
      }
      const before = new Date(clock() - addUpAfterMs).toISOString();
      for (const hour of await writes.run(sql.findHours, [before, hoursAtOnce])) {
        await transactions.run((tx) => addUpHour(tx, hour));
      }
    },
  };
}

/** The reports of one hour become one, apart for what was observed. */
async function addUpHour(tx: Runner, { org_id, device_id, hour }: sql.HourRow): Promise<void> {
  const rows = await tx.run(sql.takeHour, [device_id, hour]);
  for (const observedAll of [false, true]) {
    const these = rows.filter(({ observed_all }) => observed_all === observedAll);
    if (these.length === 0) continue;
    const since = these.map((row) => row.since).reduce((a, b) => (a < b ? a : b));
    const until = these.map((row) => row.until).reduce((a, b) => (a > b ? a : b));
    const sums = addUp(sumsOf(these.map(({ block }) => block)));
    for (const [part, block] of inBlocks(sums).entries()) {
      const values = [org_id, device_id, since, until, observedAll, part, block.length, blockFilter(block)];
      await tx.run(sql.insertHour, [...values, writeBlock(block)]);
    }
  }
}

function* sumsOf(blocks: readonly Buffer[]): Generator<FlowSum, void, undefined> {
  for (const block of blocks) for (const { sum } of readBlock(block)) yield sum;
}
