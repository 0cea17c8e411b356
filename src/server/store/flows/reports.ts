/** Owns the writing of reports of traffic: those that come together are one statement, and each is counted once. */
import type { DeviceId, OrganizationId } from '../../../policy/ids.ts';
import { Coalescer } from '../../scheduling/coalescer.ts';
import type { Right } from '../data/actor.ts';
import { StoreError } from '../../problems.ts';
import type { FlowBatch, FlowSum, KeptFlows } from '../data/flows.ts';
import type { Value } from '../postgres/sql.ts';
import type { Context } from '../write/context.ts';
import { rightItem } from '../write/right.ts';
import * as sql from './statements.ts';
import { blockFilter, inBlocks, writeBlock } from './sum-block.ts';

/** Nobody waits for a report of traffic, and a statement for twenty reports costs little more than one for two. */
const reportDelayMs = 100;

export interface Report {
  readonly org: OrganizationId;
  readonly id: DeviceId;
  readonly batch: FlowBatch;
  readonly blocks: readonly ReportBlock[];
  readonly right: Right;
}

/** A block of sums as it is written. */
interface ReportBlock {
  readonly sums: number;
  readonly filter: string;
  readonly bytes: string;
  readonly packets: number;
  readonly refused: number;
}

const bytea = (bytes: Buffer): string => `\\x${bytes.toString('hex')}`;

export function reportValues(asked: readonly Omit<Report, 'blocks'>[]): Value[] {
  const rights = asked.map(({ right }) => rightItem(right));
  return [
    asked.map(({ org }) => org),
    asked.map(({ id }) => id),
    asked.map(({ batch }) => batch.since),
    asked.map(({ batch }) => batch.until),
    asked.map(({ batch }) => String(batch.observed === 'all')),
    asked.map(({ batch }) => String(batch.not_recorded)),
    asked.map(({ batch }) => batch.reported ?? batch.until),
    rights.map(({ may }) => String(may)),
    rights.map(({ token }) => token),
    rights.map(({ session }) => session),
    asked.map(({ right }) => right.user_id ?? null),
  ];
}

const packetsOf = (sums: readonly FlowSum[]): number => sums.reduce((all, { packets }) => all + packets, 0);
const refusedOf = (sums: readonly FlowSum[]): number =>
  sums.reduce((all, { verdict, packets }) => (verdict === 'refused' ? all + packets : all), 0);

/** The sums of a report as they are written, a block in each step. */
export function* blocksOf(sums: readonly FlowSum[]): Generator<void, readonly ReportBlock[]> {
  const blocks: ReportBlock[] = [];
  for (const some of inBlocks(sums)) {
    const counts = { sums: some.length, packets: packetsOf(some), refused: refusedOf(some) };
    blocks.push({ ...counts, filter: blockFilter(some), bytes: bytea(writeBlock(some)) });
    yield;
  }
  return blocks;
}

function blockValues(asked: readonly Report[]): Value[] {
  const all = asked.flatMap(({ blocks }, index) => blocks.map((block, part) => ({ place: index + 1, part, ...block })));
  return [
    all.map(({ place }) => String(place)),
    all.map(({ part }) => String(part)),
    all.map(({ sums }) => String(sums)),
    all.map(({ filter }) => filter),
    all.map(({ bytes }) => bytes),
    all.map(({ packets }) => String(packets)),
  ];
}

/** Since when each group has been in force, as far as this report knows. */
const rulesSinceOf = ({ since, rules }: FlowBatch): string =>
  JSON.stringify(Object.fromEntries((rules?.groups ?? []).map((id) => [id, since])));

function ruleValues(asked: readonly Report[]): Value[] {
  const used = asked.flatMap(({ batch: { rules } }, index) =>
    (rules?.rules ?? []).map((rule) => ({ place: index + 1, ...rule })),
  );
  return [
    asked.map(({ batch }) => rulesSinceOf(batch)),
    asked.map(({ batch: { rules } }) => String(rules?.unknown ?? 0)),
    used.map(({ place }) => String(place)),
    used.map(({ group }) => group),
    used.map(({ rule }) => rule),
    used.map(({ packets }) => String(packets)),
  ];
}

const refusedIn = (blocks: readonly ReportBlock[]): number => blocks.reduce((all, { refused }) => all + refused, 0);
const refusedPerMinute = ({ blocks, batch: { since, until } }: Report): number =>
  refusedIn(blocks) / Math.max(1, (Date.parse(until) - Date.parse(since)) / 60_000);

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

function keptOf({ batch: { sums }, blocks }: Report, { is_again, stored, beyond }: sql.WrittenRow): KeptFlows {
  if (is_again) return { received: sums.length, refused: 0 };
  const parts = new Set(stored.split(','));
  return { received: sums.length - beyond, refused: refusedIn(blocks.filter((_, part) => parts.has(String(part)))) };
}

/** An error is that of its own report. */
type Outcome = KeptFlows | Error;

export function reportWriter({ reads, writes }: Context): (report: Report) => Promise<KeptFlows> {
  const writeOnce = async (asked: readonly Report[]): Promise<ReadonlyMap<Report, Outcome>> => {
    // In one order, as every process writes them, so that no two wait for each other.
    const ordered = asked.toSorted((a, b) => (a.id < b.id ? -1 : 1));
    const rates = ordered.map((report) => String(refusedPerMinute(report)));
    const rows = await writes.run(sql.insertFlows, [
      ...reportValues(ordered),
      ...blockValues(ordered),
      rates,
      ...ruleValues(ordered),
    ]);
    const taken = new Map(rows.map((row) => [row.id, row]));
    const missing = ordered.filter(({ id }) => !taken.has(id));
    const refusals = new Map(
      missing.length === 0
        ? []
        : (await reads.run(sql.findFlowRefusals, reportValues(missing))).map(({ id, refusal }) => [id, refusal]),
    );
    const outcomeOf = (report: Report): Outcome => {
      const row = taken.get(report.id);
      if (row !== undefined) return keptOf(report, row);
      const code = refusals.get(report.id) ?? 'not_found';
      return new StoreError(code === 'not_found' ? { code, what: 'device' } : { code });
    };
    return new Map(ordered.map((report) => [report, outcomeOf(report)]));
  };

  /** What fails for one organization, such as one that is being deleted, fails for no other. */
  const write = async (asked: readonly Report[]): Promise<ReadonlyMap<Report, Outcome>> => {
    try {
      return await writeOnce(asked);
    } catch (cause) {
      const organizations = [...new Set(asked.map(({ org }) => org))];
      const error = cause instanceof Error ? cause : new Error(String(cause));
      if (organizations.length < 2) return new Map(asked.map((report) => [report, error]));
      const apart = await Promise.all(organizations.map((own) => write(asked.filter(({ org }) => org === own))));
      return new Map(apart.flatMap((outcomes) => [...outcomes]));
    }
  };

  let serial = 0;
  const names = new WeakMap<Report, string>();
  const writing = new Coalescer<Report, Outcome | undefined>({
    delayMs: reportDelayMs,
    // A report that comes twice at a time is written twice, one after the other: it counts for the first.
    nameOf: (report) => {
      const name = names.get(report) ?? String((serial += 1));
      names.set(report, name);
      return name;
    },
    read: async (all) => {
      const outcomes = new Map<Report, Outcome>();
      for (const turn of inTurns(all)) for (const [report, outcome] of await write(turn)) outcomes.set(report, outcome);
      return all.map((report) => outcomes.get(report));
    },
  });

  return async (report) => {
    const outcome = await writing.batched.get(report);
    if (outcome === undefined || outcome instanceof Error) throw outcome ?? new Error('a report without an outcome');
    return outcome;
  };
}
