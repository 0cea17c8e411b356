/**
 * Owns the counting of rules: traffic that was reported since the last time is judged by the present state of its organization. The upkeep does it, in one
 * process for each organization, and those who ask for usage.
 */
import { decidingRules } from '../../policy/decide.ts';
import { groupsIn } from '../../policy/effective.ts';
import { packetOf } from '../../policy/flow/protocol.ts';
import type { OrganizationId } from '../../policy/ids.ts';
import { ruleIdOf } from '../../policy/rule-identity/rule-id.ts';
import type { Direction, PolicyGroup, SecurityRule } from '../../policy/rule.ts';
import type { PolicySnapshot } from '../../policy/snapshot/snapshot.ts';
import type { SlicedWork } from '../scheduling/time-slices.ts';
import type { CountingEnd, CountingSpan, DecidingRule, UsageJudge } from '../store/contract/flows/rule-usage.ts';
import type { Store } from '../store/contract/store.ts';
import { policiesWith } from './group-policies.ts';

/** Blocks that one request counts, some 400,000 sums, and milliseconds of the event loop that it takes for that: what is left counts as not observed. */
const onRequest = { blocks: 4_096, workMs: 1_000 };
/** Milliseconds of the event loop that an organization gets in its first turn of an upkeep; then four times as many in each. */
const firstTurnMs = 2_000;
/** Rules that are looked up between two pauses. */
const rulesAtOnce = 64;
/** So long the upkeep of other processes leaves an organization alone: a little less than the time from one upkeep to the next. */
const leaseMs = 240_000;

/** The rules of a group by their places, each hashed once; rules with the same content are one object. */
class KnownRules {
  readonly #byPlace = new WeakMap<PolicyGroup, Map<string, DecidingRule>>();
  readonly #byContent = new Map<string, DecidingRule>();

  at(group: PolicyGroup, direction: Direction, index: number, rule: SecurityRule): DecidingRule {
    let ofGroup = this.#byPlace.get(group);
    if (ofGroup === undefined) this.#byPlace.set(group, (ofGroup = new Map()));
    const place = `${direction} ${index}`;
    let known = ofGroup.get(place);
    if (known === undefined) ofGroup.set(place, (known = this.#read(group, ruleIdOf(direction, rule))));
    return known;
  }

  #read({ id: group }: PolicyGroup, rule: string): DecidingRule {
    const key = `${group} ${rule}`;
    let known = this.#byContent.get(key);
    if (known === undefined) this.#byContent.set(key, (known = { group, rule }));
    return known;
  }
}

async function usageJudge(snapshot: PolicySnapshot, slices: SlicedWork): Promise<UsageJudge> {
  const policies = await policiesWith(snapshot, undefined, slices);
  const pairs: UsageJudge['pairs'][number][] = [];
  await slices.each(policies, ([device, policy]) => {
    for (const { id } of groupsIn(policy)) pairs.push({ group: id, device });
  });
  const known = new KnownRules();
  return {
    revision: snapshot.revision,
    policies,
    pairs,
    *rulesOf(policy, sum) {
      const { verdict, rules } = yield* decidingRules(policy, packetOf(sum));
      // The kernel had another policy: this one says nothing of it.
      if ((verdict === 'accept') !== (sum.verdict === 'admitted')) return [];
      const found = new Set<DecidingRule>();
      for (const [looked, { group, direction, index, rule }] of rules.entries()) {
        found.add(known.at(group, direction, index, rule));
        if (looked % rulesAtOnce === rulesAtOnce - 1) yield;
      }
      return [...found];
    },
  };
}

interface RuleCounterOptions {
  readonly store: Pick<Store, 'ruleUsage'>;
  readonly snapshots: {
    read(org: OrganizationId, options: { readonly keeps: boolean }): Promise<PolicySnapshot>;
  };
  readonly slices: SlicedWork;
  /** Lets an organization into memory. Gives what takes it out again. */
  readonly enter: (org: OrganizationId) => Promise<() => void>;
  /** The time of day, in milliseconds since 1970. */
  readonly clock: () => number;
}

interface Turn extends Pick<CountingSpan, 'blocks' | 'workMs' | 'leastBlocks'> {
  readonly keepsSnapshot: boolean;
  readonly work: SlicedWork;
}

export class RuleCounter {
  readonly #o: RuleCounterOptions;
  /** By organization, the last of the countings that wait for each other. */
  readonly #counting = new Map<OrganizationId, Promise<unknown>>();
  /** The organizations that the upkeep counts here, or waits for. */
  readonly #inUpkeep = new Set<OrganizationId>();

  constructor(options: RuleCounterOptions) {
    this.#o = options;
  }

  /** Counts what was reported before this call, as far as one request may. While the upkeep counts, which may take long, it leaves all to that. */
  async count(org: OrganizationId, work: SlicedWork): Promise<void> {
    await work.next();
    if (this.#inUpkeep.has(org)) return;
    await this.#inTurn(org, async () => {
      const { ruleUsage } = this.#o.store;
      if ((await ruleUsage.uncounted([org])).length > 0)
        await this.#count(org, { ...onRequest, keepsSnapshot: true, work });
    });
  }

  /**
   * Counts what all organizations reported, apart from those that another process counts: in turns, so that one with much traffic or many rules does not keep
   * the others waiting, until the next upkeep. What fails for one of them fails for no other; the first error is thrown at the end.
   */
  async countAll(): Promise<void> {
    const { clock, store } = this.#o;
    const { ruleUsage } = store;
    const begun = clock();
    const at = new Date(begun).toISOString();
    const errors: unknown[] = [];
    let left: OrganizationId[] = [];
    for (const org of await ruleUsage.uncounted()) if (!this.#inUpkeep.has(org)) left.push(org);
    for (let workMs = firstTurnMs; left.length > 0 && clock() - begun < leaseMs; workMs *= 4) {
      const unfinished: OrganizationId[] = [];
      for (const org of left) {
        try {
          const isOurs = workMs > firstTurnMs || (await ruleUsage.claim(org, at, leaseMs));
          if (isOurs && (await this.#countInUpkeep(org, workMs)) === 'more') unfinished.push(org);
        } catch (error) {
          errors.push(error);
        }
      }
      left = unfinished;
    }
    if (errors.length > 0) throw errors[0];
  }

  async #countInUpkeep(org: OrganizationId, workMs: number): Promise<CountingEnd> {
    const { slices: work } = this.#o;
    this.#inUpkeep.add(org);
    try {
      const turn = { blocks: Infinity, workMs, leastBlocks: 1, keepsSnapshot: false, work };
      return await this.#inTurn(org, () => this.#count(org, turn));
    } finally {
      this.#inUpkeep.delete(org);
    }
  }

  async #count(org: OrganizationId, { keepsSnapshot, work, ...span }: Turn): Promise<CountingEnd> {
    const { store, snapshots, enter } = this.#o;
    const horizon = await store.ruleUsage.horizon();
    // Reports are being written: the next upkeep counts.
    if (horizon === undefined) return 'elsewhere';
    const leave = await enter(org);
    try {
      const judge = await usageJudge(await snapshots.read(org, { keeps: keepsSnapshot }), work);
      return await store.ruleUsage.count(org, judge, { horizon, ...span }, work);
    } finally {
      leave();
    }
  }

  #inTurn<T>(org: OrganizationId, work: () => Promise<T>): Promise<T> {
    const before = this.#counting.get(org) ?? Promise.resolve();
    const counting = before.catch(() => {}).then(work);
    this.#counting.set(org, counting);
    const forget = (): void => {
      if (this.#counting.get(org) === counting) this.#counting.delete(org);
    };
    counting.then(forget, forget);
    return counting;
  }
}
