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

/** Nobody waits for a report of traffic, and a statement for twenty reports costs little more than one for two. */
const reportDelayMs = 100;

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

/** Blocks that one request looks at first and at most at a time. */
const fewBlocks = 64;
const manyBlocks = 1_024;
/** Blocks that one request looks at, and blocks whose sums it reads because they may hold what is wanted. */
const mostLooked = 16_384;
const mostOpened = 2_048;
/** Blocks of so few devices are read for each of them; those of more are picked from all blocks of the organization. */
const fewDevices = 256;
/** No block is of a longer time, also where reports of an hour are added up. */
const longestMs = 2 * 3_600_000;
/** Later than any time that is stored. */
const lastTime = '9999-12-31T00:00:00.000Z';
const firstTime = '1970-01-01T00:00:00.000Z';
const largestId = '9223372036854775807';

/** Where to begin: after a page, or at the newest block that can begin before the time asked for. */
function cursorOf({ after: text, until: before = lastTime }: FlowQuery): FlowCursor {
  if (text === undefined) {
    const newest = Math.min(Date.parse(before) + longestMs, Date.parse(lastTime));
    return { until: new Date(newest).toISOString(), id: largestId, place: 0 };
  }
  const cursor = readFlowCursor(text);
  if (cursor === undefined) throw new RangeError('no cursor of flows');
  return cursor;
}
const printCursor = ({ until, id, place }: FlowCursor): string => `${Date.parse(until)}.${id}.${place}`;

/** Whether blocks are read for each of these devices. */
const isOfFew = (devices: readonly DeviceId[] | undefined): devices is readonly DeviceId[] =>
  devices !== undefined && devices.length <= fewDevices;

/** A walk asks for the blocks of the same thousands of devices again and again: their array is written once. */
const arrays = new WeakMap<readonly DeviceId[], string>();

function arrayOf(devices: readonly DeviceId[]): string {
  let text = arrays.get(devices);
  if (text === undefined) arrays.set(devices, (text = `{${devices.join(',')}}`));
  return text;
}

const isBefore = (time: string, since: string | undefined): boolean =>
  since !== undefined && Date.parse(time) <= Date.parse(since);

/** Sums older than this are added up by the hour. */
const addUpAfterMs = 2 * 3_600_000;
/** Hours of devices that one call adds up: 24,000 in an hour, where a server calls it every five minutes. */
const hoursAtOnce = 2_000;

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
    delayMs: reportDelayMs,
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
  ): Promise<readonly sql.LookedRow[]> => {
    const { devices, since = firstTime, until = lastTime } = query;
    const [bits = null, otherBits = null] = wantedBits(query) ?? [];
    const read = isOfFew(devices) ? sql.blocksOfDevices : sql.blocksOfOrganization;
    const values = [
      org,
      since,
      until,
      from.until,
      bits,
      from.id,
      limit,
      otherBits,
      devices === undefined ? null : arrayOf(devices),
    ];
    return standbyReads.run(read, values);
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
      let from = cursorOf(query);
      const { devices } = query;
      if (devices?.length === 0) return { flows };
      // Lists that are read side by side.
      const lists = isOfFew(devices) ? devices.length : 1;
      let limit = Math.ceil(fewBlocks / lists);
      for (let seen = 0, opened = 0; seen < mostLooked && opened < mostOpened;) {
        const rows = await readBlocks(org, query, { from, limit });
        // The first in this order that is the last of its list: of what is older, blocks may be missing.
        const end = rows.findIndex(({ place }) => place === limit);
        for (const { id, device_id, since, until, block } of end < 0 ? rows : rows.slice(0, end + 1)) {
          if (block === null) continue;
          opened += 1;
          const first = id === from.id ? from.place : 0;
          for (const { place, sum } of readBlock(block, query)) {
            if (place < first) continue;
            if (flows.length === query.limit) return { flows, next: printCursor({ until, id, place }) };
            flows.push({ device_id: parseDeviceId(device_id), since, until, ...sum });
          }
        }
        const last = rows[end];
        if (last === undefined || isBefore(last.until, query.since)) return { flows };
        seen += lists * limit;
        limit = Math.ceil(Math.min(2 * limit, manyBlocks / lists));
        // The next read begins after the last block.
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
    const sums = addUp(these.map(({ block }) => block));
    for (const [part, block] of inBlocks(sums).entries()) {
      const values = [org_id, device_id, since, until, observedAll, part, block.length, blockFilter(block)];
      await tx.run(sql.insertHour, [...values, writeBlock(block)]);
    }
  }
}
