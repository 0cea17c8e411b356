/**
 * Owns the counting of rules: traffic that was reported since the last time is judged by the present state of its organization. The upkeep does it, in one
 * process for each organization, and those who ask for usage.
 */
import { sha256Hex } from '#sha256';
import { decide, decidingRules, rulesOf } from '../../policy/decide.ts';
import { packetOf } from '../../policy/flow/protocol.ts';
import type { OrganizationId } from '../../policy/ids.ts';
import { ruleIdentity } from '../../policy/rule-identity/rule-identity.ts';
import type { Direction, PolicyGroup, SecurityRule } from '../../policy/rule.ts';
import type { PolicySnapshot } from '../../policy/snapshot/snapshot.ts';
import type { SlicedWork } from '../scheduling/time-slices.ts';
import type { DecidingRule, UsageJudge } from '../store/contract/flows/rule-usage.ts';
import type { Store } from '../store/contract/store.ts';
import { groupsIn, policiesWith } from './group-policies.ts';

/** Blocks that one request counts, some 400,000 sums: what is left counts as not observed. */
const mostOnRequest = 4_096;
/** So long the upkeep of other processes leaves an organization alone: a little less than the time from one upkeep to the next. */
const leaseMs = 240_000;

/** Identifies a rule within its group by its content. */
export const ruleIdOf = (direction: Direction, rule: SecurityRule): string =>
  sha256Hex(`${direction} ${ruleIdentity(rule)}`).slice(0, 32);

/** The rules of a group by their places, each hashed once. */
class RuleIds {
  readonly #known = new WeakMap<PolicyGroup, Map<string, string>>();

  of(group: PolicyGroup, direction: Direction, index: number): string {
    let ofGroup = this.#known.get(group);
    if (ofGroup === undefined) this.#known.set(group, (ofGroup = new Map()));
    const place = `${direction} ${index}`;
    let id = ofGroup.get(place);
    if (id === undefined) {
      const rule = rulesOf(group, direction)[index];
      ofGroup.set(place, (id = rule === undefined ? '' : ruleIdOf(direction, rule)));
    }
    return id;
  }
}

async function usageJudge(snapshot: PolicySnapshot, slices: SlicedWork): Promise<UsageJudge> {
  const policies = await policiesWith(snapshot, undefined, slices);
  const pairs: UsageJudge['pairs'][number][] = [];
  await slices.each(policies, ([device, policy]) => {
    for (const { id } of groupsIn(policy)) pairs.push({ group: id, device });
  });
  const ids = new RuleIds();
  return {
    revision: snapshot.revision,
    policies,
    pairs,
    rulesOf(policy, sum) {
      const packet = packetOf(sum);
      const decision = decide(policy, packet);
      // The kernel had another policy: this one says nothing of it.
      if ((decision.verdict === 'accept') !== (sum.verdict === 'admitted')) return [];
      const found = new Map<string, DecidingRule>();
      for (const { group, direction, index } of decidingRules(policy, packet, decision)) {
        const rule = ids.of(group, direction, index);
        found.set(`${group.id} ${rule}`, { group: group.id, rule });
      }
      return [...found.values()];
    },
  };
}

interface RuleCounterOptions {
  readonly store: Pick<Store, 'ruleUsage'>;
  readonly snapshots: {
    read(org: OrganizationId, options: { readonly keeps: boolean }): Promise<PolicySnapshot>;
  };
  readonly slices: SlicedWork;
  /** The time of day, in milliseconds since 1970. */
  readonly clock: () => number;
}

interface Counting {
  readonly blocks: number;
  readonly keepsSnapshot: boolean;
}

export class RuleCounter {
  readonly #o: RuleCounterOptions;
  /** By organization, the last of the countings that wait for each other. */
  readonly #counting = new Map<OrganizationId, Promise<void>>();
  /** The organizations that the upkeep counts here, or waits for. */
  readonly #inUpkeep = new Set<OrganizationId>();

  constructor(options: RuleCounterOptions) {
    this.#o = options;
  }

  /** Counts what was reported before this call, as far as one request may. While the upkeep counts, which may take long, it leaves all to that. */
  async count(org: OrganizationId): Promise<void> {
    if (this.#inUpkeep.has(org)) return;
    await this.#inTurn(org, async () => {
      const { ruleUsage } = this.#o.store;
      if ((await ruleUsage.uncounted([org])).length > 0)
        await this.#count(org, { blocks: mostOnRequest, keepsSnapshot: true });
    });
  }

  /** Counts what all organizations reported, apart from those that another process counts. What fails for one of them fails for no other; the first error is thrown at the end. */
  async countAll(): Promise<void> {
    const { ruleUsage } = this.#o.store;
    const at = new Date(this.#o.clock()).toISOString();
    const errors: unknown[] = [];
    for (const org of await ruleUsage.uncounted()) {
      try {
        if (!this.#inUpkeep.has(org) && (await ruleUsage.claim(org, at, leaseMs))) await this.#countInUpkeep(org);
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw errors[0];
  }

  async #countInUpkeep(org: OrganizationId): Promise<void> {
    this.#inUpkeep.add(org);
    try {
      await this.#inTurn(org, () => this.#count(org, { blocks: Infinity, keepsSnapshot: false }));
    } finally {
      this.#inUpkeep.delete(org);
    }
  }

  async #count(org: OrganizationId, { blocks, keepsSnapshot }: Counting): Promise<void> {
    const { store, snapshots, slices } = this.#o;
    const horizon = await store.ruleUsage.horizon();
    if (horizon === undefined) return;
    const judge = await usageJudge(await snapshots.read(org, { keeps: keepsSnapshot }), slices);
    await store.ruleUsage.count(org, judge, { horizon, blocks });
  }

  #inTurn(org: OrganizationId, work: () => Promise<void>): Promise<void> {
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
