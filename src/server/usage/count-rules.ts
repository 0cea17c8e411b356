/** Owns the counting of rules: traffic that was reported since the last time is judged by the present state of its organization. Upkeep does it, and those who ask for usage. */
import { sha256Hex } from '#sha256';
import { decide, decidingRules, rulesOf } from '../../policy/decide.ts';
import { packetOf } from '../../policy/flow/protocol.ts';
import type { OrganizationId } from '../../policy/ids.ts';
import { ruleIdentity } from '../../policy/rule-identity/rule-identity.ts';
import type { Direction, PolicyGroup, SecurityRule } from '../../policy/rule.ts';
import type { PolicySnapshot } from '../../policy/snapshot/snapshot.ts';
import type { TimeSlices } from '../scheduling/time-slices.ts';
import type { DecidingRule, UsageJudge } from '../store/contract/flows/rule-usage.ts';
import type { Store } from '../store/contract/store.ts';
import { groupsIn, policiesWith } from './group-policies.ts';

/** Blocks that one request counts, some 400,000 sums: what is left counts as not observed. */
const mostOnRequest = 4_096;

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

async function usageJudge(snapshot: PolicySnapshot, slices: TimeSlices): Promise<UsageJudge> {
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
  readonly snapshots: { read(org: OrganizationId): Promise<PolicySnapshot> };
  readonly slices: TimeSlices;
}

export class RuleCounter {
  readonly #o: RuleCounterOptions;
  /** By organization, the last of the countings that wait for each other. */
  readonly #counting = new Map<OrganizationId, Promise<void>>();

  constructor(options: RuleCounterOptions) {
    this.#o = options;
  }

  /** Counts what was reported before this call, as far as one request may. */
  count(org: OrganizationId): Promise<void> {
    return this.#inTurn(org, async () => {
      const { ruleUsage } = this.#o.store;
      if ((await ruleUsage.uncounted([org])).length > 0) await this.#count(org, mostOnRequest);
    });
  }

  /** Counts what all organizations reported. What fails for one of them fails for no other; the first error is thrown at the end. */
  async countAll(): Promise<void> {
    const errors: unknown[] = [];
    for (const org of await this.#o.store.ruleUsage.uncounted())
      await this.#inTurn(org, () => this.#count(org, Infinity)).catch((error: unknown) => errors.push(error));
    if (errors.length > 0) throw errors[0];
  }

  async #count(org: OrganizationId, blocks: number): Promise<void> {
    const { store, snapshots, slices } = this.#o;
    const horizon = await store.ruleUsage.horizon();
    if (horizon === undefined) return;
    const judge = await usageJudge(await snapshots.read(org), slices);
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
