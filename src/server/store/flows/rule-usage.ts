/** Owns the usage of rules in the store: traffic is counted block by block, each once, and read by day and rule. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { EffectivePolicy } from '../../../policy/effective.ts';
import { parseDeviceId, parseGroupId, parseOrganizationId, type OrganizationId } from '../../../policy/ids.ts';
import type { DecidingRule, FlowHorizon, RuleUsageCounts, UsageJudge } from '../contract/flows/rule-usage.ts';
import { eachSum, sumNamed } from './sum-block.ts';
import type { Value } from '../postgres/sql.ts';
import type { Context } from '../write/context.ts';
import * as sql from './rule-usage-statements.ts';

/** Blocks of one step, some megabyte. */
const blocksAtOnce = 512;
/** What is remembered of different traffic: some 50 MB of names, or 16 MB of rules. */
const mostRemembered = 2_097_152;
const nameWeight = 8;
/** Rules that are added between two pauses. */
const rulesAtOnce = 4_096;
const pollMs = 10;
/** So long the counting waits for reports that are being written; then it leaves all for the next time. */
const patienceMs = 2_000;
const none: readonly DecidingRule[] = [];

/** The same traffic of devices with one policy is judged once. */
class Verdicts {
  readonly #judge: UsageJudge;
  #known = new Map<EffectivePolicy, Map<string, readonly DecidingRule[]>>();
  #remembered = 0;

  constructor(judge: UsageJudge) {
    this.#judge = judge;
  }

  *of(policy: EffectivePolicy, name: string): Generator<void, readonly DecidingRule[]> {
    const known = this.#known.get(policy)?.get(name);
    if (known !== undefined) return known;
    const rules = yield* this.#judge.rulesOf(policy, sumNamed(name));
    this.#remember(policy, name, rules.length === 0 ? none : rules);
    return rules;
  }

  #remember(policy: EffectivePolicy, name: string, rules: readonly DecidingRule[]): void {
    if (this.#remembered >= mostRemembered) {
      this.#known = new Map();
      this.#remembered = 0;
    }
    let ofPolicy = this.#known.get(policy);
    if (ofPolicy === undefined) this.#known.set(policy, (ofPolicy = new Map()));
    ofPolicy.set(name, rules);
    this.#remembered += nameWeight + rules.length;
  }
}

interface DayCount extends DecidingRule {
  readonly day: string;
  packets: number;
  last: string;
}

const addPackets = (a: number, b: number): number => Math.min(a + b, Number.MAX_SAFE_INTEGER);

/** What a step adds, by day, group and rule. */
class DayCounts {
  readonly #counts = new Map<string, DayCount>();

  /** What the rules decided in traffic of one time. */
  *add(packetsOf: ReadonlyMap<DecidingRule, number>, until: string): Generator<void, void> {
    const day = until.slice(0, 10);
    let added = 0;
    for (const [{ group, rule }, packets] of packetsOf) {
      const key = `${group} ${day} ${rule}`;
      const known = this.#counts.get(key);
      if (known === undefined) this.#counts.set(key, { group, rule, day, packets, last: until });
      else {
        known.packets = addPackets(known.packets, packets);
        if (until > known.last) known.last = until;
      }
      if (++added % rulesAtOnce === 0) yield;
    }
  }

  /** In one order, as every process writes them. */
  get sorted(): readonly DayCount[] {
    return [...this.#counts].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, count]) => count);
  }
}

/** The packets that each rule decided in a block. */
function* judgeBlock(
  policy: EffectivePolicy,
  block: Buffer,
  verdicts: Verdicts,
): Generator<void, ReadonlyMap<DecidingRule, number>> {
  const sums: (readonly [name: string, packets: number])[] = [];
  eachSum(block, (name, packets) => sums.push([name, packets]));
  const found = new Map<DecidingRule, number>();
  for (const [name, packets] of sums) {
    const rules = yield* verdicts.of(policy, name);
    for (let from = 0; from < rules.length; from += rulesAtOnce) {
      for (const rule of rules.slice(from, from + rulesAtOnce))
        found.set(rule, addPackets(found.get(rule) ?? 0, packets));
      if (rules.length > rulesAtOnce) yield;
    }
  }
  return found;
}

/** Passes on each pause of the steps, and gives the milliseconds that they took; or undefined where they were broken off because they took longer. */
function* within<T>(
  steps: Generator<void, T>,
  mostMs: number,
): Generator<void, { readonly value: T; readonly tookMs: number } | undefined> {
  let tookMs = 0;
  for (;;) {
    const begun = performance.now();
    const { done, value } = steps.next();
    tookMs += performance.now() - begun;
    if (done === true) return { value, tookMs };
    if (tookMs > mostMs) return undefined;
    yield;
  }
}

const countValues = (counts: readonly DayCount[]): Value[] => [
  counts.map(({ group }) => group),
  counts.map(({ day }) => day),
  counts.map(({ rule }) => rule),
  counts.map(({ packets }) => String(packets)),
  counts.map(({ last }) => last),
];

export interface RuleUsageOptions {
  readonly keepMs: number;
}

export function ruleUsageIn(context: Context, { keepMs }: RuleUsageOptions): RuleUsageCounts {
  const { reads, writes, clock } = context;

  /** Judges by this state from now on. False where another process judges by a later one, or has just come to this one. */
  const moveTo = async (org: OrganizationId, judge: UsageJudge, { at }: FlowHorizon): Promise<boolean> => {
    const [position] = await reads.run(sql.readPosition, [org]);
    if (position === undefined || Number(position.revision) > judge.revision) return false;
    const from = [org, position.revision, position.synced, at];
    if (Number(position.revision) === judge.revision) return (await writes.run(sql.moveTime, from)).length > 0;
    const pairs = [judge.pairs.map(({ group }) => group), judge.pairs.map(({ device }) => device)];
    return (await writes.run(sql.moveState, [...from, String(judge.revision), ...pairs])).length > 0;
  };

  return {
    keptMs: keepMs,

    async uncounted(among) {
      const rows = await reads.run(sql.findUncounted, [among ?? null]);
      return rows.map(({ org_id }) => parseOrganizationId(org_id));
    },

    async claim(org, at, leaseMs) {
      return (await writes.run(sql.claimCounting, [org, at, leaseMs])).length > 0;
    },

    async horizon() {
      const [last] = await reads.run(sql.readLastId, []);
      const at = new Date(clock()).toISOString();
      let writers: readonly string[] | null = null;
      for (const until = performance.now() + patienceMs; ; await sleep(pollMs)) {
        const rows: readonly { writer: string }[] = await reads.run(sql.readWriters, [writers]);
        if (last === undefined || performance.now() > until) return undefined;
        if (rows.length === 0) return { ...last, at };
        writers = rows.map(({ writer }) => writer);
      }
    },

    async count(org, judge, { horizon, blocks, workMs, leastBlocks = 0 }, work) {
      const revision = String(judge.revision);
      await writes.run(sql.insertPosition, [org, horizon.id, horizon.timeline]);
      if (!(await moveTo(org, judge, horizon))) return 'elsewhere';
      const verdicts = new Verdicts(judge);
      let leftMs = workMs;
      let judged = 0;
      while (judged < blocks) {
        const limit = Math.min(blocks - judged, blocksAtOnce);
        const [position] = await reads.run(sql.readPosition, [org]);
        if (position?.revision !== revision) return 'elsewhere';
        const { counted, hourly_through } = position;
        if (BigInt(counted) >= BigInt(horizon.id)) return 'all';
        const rows = await reads.run(sql.readUncounted, [org, counted, horizon.id, hourly_through, limit]);
        const counts = new DayCounts();
        let done = 0;
        for (const { device_id, until, block } of rows) {
          const mostMs = judged + done < leastBlocks ? Infinity : leftMs;
          if (mostMs <= 0) break;
          const policy = judge.policies.get(parseDeviceId(device_id));
          const steps = policy === undefined ? undefined : judgeBlock(policy, block, verdicts);
          const found = steps && (await work.run(within(steps, mostMs)));
          if (steps !== undefined && found === undefined) break;
          leftMs -= found?.tookMs ?? 0;
          if (found !== undefined) await work.run(counts.add(found.value, until));
          done += 1;
        }
        judged += done;
        if (done === 0 && rows.length > 0) return 'more';
        const isEnd = done === rows.length && rows.length < limit;
        const through = isEnd ? horizon.id : (rows[done - 1]?.id ?? counted);
        const moved = await writes.run(sql.addCounts, [
          org,
          revision,
          counted,
          through,
          ...countValues(counts.sorted),
          horizon.timeline,
        ]);
        if (moved.length === 0) return 'elsewhere';
        if (isEnd) return 'all';
        if (done < rows.length) return 'more';
      }
      return 'more';
    },

    async coverage(org, since, devices) {
      const rows = await reads.run(sql.readUsageCoverage, [org, since, devices]);
      return rows.map(({ device_id, ...row }) => ({ device_id: parseDeviceId(device_id), ...row }));
    },

    async uncountedTime(org) {
      const rows = await reads.run(sql.readUncountedTime, [org]);
      return rows.map(({ device_id, ...row }) => ({ device_id: parseDeviceId(device_id), ...row }));
    },

    async judgedSince(org, group) {
      const pairs = await reads.run(sql.readPairs, [org, group ?? null]);
      const [position] = await reads.run(sql.readSynced, [org]);
      return {
        pairs: pairs.map(({ group_id, device_id, since }) => ({
          group: parseGroupId(group_id),
          device: parseDeviceId(device_id),
          since,
        })),
        otherwise: position?.synced ?? new Date(0).toISOString(),
      };
    },

    async counts(org, since, group) {
      const rows = await reads.run(sql.readCounts, [org, since, group ?? null]);
      return rows.map(({ group_id, rule, packets, last_hit }) => ({
        group: parseGroupId(group_id),
        rule,
        packets: Number(packets),
        last_hit,
      }));
    },

    async forget() {
      await writes.run(sql.removeOldUsage, [new Date(clock() - keepMs).toISOString()]);
    },
  };
}
