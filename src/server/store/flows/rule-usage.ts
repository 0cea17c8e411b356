/** Owns the usage of rules in the store: traffic is counted block by block, each once, and read by day and rule. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { EffectivePolicy } from '../../../policy/effective.ts';
import { parseDeviceId, parseGroupId, parseOrganizationId, type OrganizationId } from '../../../policy/ids.ts';
import { processSlices, type SlicedWork } from '../../scheduling/time-slices.ts';
import type { DecidingRule, FlowHorizon, RuleUsageCounts, UsageJudge } from '../contract/flows/rule-usage.ts';
import { eachSum, sumNamed } from './sum-block.ts';
import type { Value } from '../postgres/sql.ts';
import type { Context } from '../write/context.ts';
import * as sql from './rule-usage-statements.ts';

/** Blocks of one step, some megabyte. */
const blocksAtOnce = 512;
/** Different traffic that is remembered, some 50 MB. */
const mostVerdicts = 262_144;
const pollMs = 10;
/** So long the counting waits for reports that are being written; then it leaves all for the next time. */
const patienceMs = 2_000;
const none: readonly DecidingRule[] = [];

/** The same traffic of devices with one policy is judged once. */
class Verdicts {
  readonly #judge: UsageJudge;
  #known = new Map<EffectivePolicy, Map<string, readonly DecidingRule[]>>();
  #size = 0;

  constructor(judge: UsageJudge) {
    this.#judge = judge;
  }

  of(policy: EffectivePolicy, name: string): readonly DecidingRule[] {
    let ofPolicy = this.#known.get(policy);
    const known = ofPolicy?.get(name);
    if (known !== undefined) return known;
    if (this.#size >= mostVerdicts) {
      this.#known = new Map();
      this.#size = 0;
      ofPolicy = undefined;
    }
    if (ofPolicy === undefined) this.#known.set(policy, (ofPolicy = new Map()));
    const rules = this.#judge.rulesOf(policy, sumNamed(name));
    ofPolicy.set(name, rules.length === 0 ? none : rules);
    this.#size += 1;
    return rules;
  }
}

interface DayCount extends DecidingRule {
  readonly day: string;
  packets: number;
  last: string;
}

/** What a step adds, by day, group and rule. */
class DayCounts {
  readonly #counts = new Map<string, DayCount>();

  add({ group, rule }: DecidingRule, packets: number, until: string): void {
    const day = until.slice(0, 10);
    const key = `${group} ${day} ${rule}`;
    const known = this.#counts.get(key);
    if (known === undefined) this.#counts.set(key, { group, rule, day, packets, last: until });
    else {
      known.packets = Math.min(known.packets + packets, Number.MAX_SAFE_INTEGER);
      if (until > known.last) known.last = until;
    }
  }

  /** In one order, as every process writes them. */
  get sorted(): readonly DayCount[] {
    return [...this.#counts].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, count]) => count);
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

  const judgeBlocks = async (
    rows: readonly sql.UncountedRow[],
    {
      judge,
      verdicts,
      slices,
    }: { readonly judge: UsageJudge; readonly verdicts: Verdicts; readonly slices: SlicedWork },
  ): Promise<readonly DayCount[]> => {
    const counts = new DayCounts();
    // Where there are many rules, a sum takes long.
    await slices.each(rows, ({ device_id, until, block }) => {
      const policy = judge.policies.get(parseDeviceId(device_id));
      if (policy === undefined) return;
      eachSum(block, (name, packets) => {
        for (const rule of verdicts.of(policy, name)) counts.add(rule, packets, until);
      });
    });
    return counts.sorted;
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

    async count(org, judge, { horizon, blocks }) {
      const revision = String(judge.revision);
      await writes.run(sql.insertPosition, [org, horizon.id, horizon.timeline]);
      if (!(await moveTo(org, judge, horizon))) return false;
      const work = { judge, verdicts: new Verdicts(judge), slices: processSlices() };
      for (let left = blocks; left > 0; left -= blocksAtOnce) {
        const limit = Math.min(left, blocksAtOnce);
        const [position] = await reads.run(sql.readPosition, [org]);
        if (position?.revision !== revision) return false;
        const { counted, hourly_through } = position;
        if (BigInt(counted) >= BigInt(horizon.id)) return true;
        const rows = await reads.run(sql.readUncounted, [org, counted, horizon.id, hourly_through, limit]);
        const isEnd = rows.length < limit;
        const through = isEnd ? horizon.id : (rows.at(-1)?.id ?? counted);
        const counts = await judgeBlocks(rows, work);
        const moved = await writes.run(sql.addCounts, [
          org,
          revision,
          counted,
          through,
          ...countValues(counts),
          horizon.timeline,
        ]);
        if (moved.length === 0) return false;
        if (isEnd) return true;
      }
      return false;
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
