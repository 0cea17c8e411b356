/** Owns the digests that devices should have: worked out once for each policy, however many devices have it. */
import { canonicalize } from '../../policy/canonicalize.ts';
import { policyDigest } from '../../policy/digest/digest.ts';
import { readGroupRecord } from '../../policy/fleet/group-record.ts';
import { resolvePolicy } from '../../policy/fleet/resolve.ts';
import type { GroupId, OrganizationId } from '../../policy/ids.ts';
import type { PolicyGroup } from '../../policy/rule.ts';
import type { TimeSlices } from '../time-slices.ts';
import type { GroupRecord, Stored } from '../store/contract/records.ts';
import { contentHash } from './group-content.ts';
import type { Effect, PolicyModel } from './policy-model.ts';

export interface ExpectedDigestsOptions {
  readonly org: OrganizationId;
  /** The groups as they stand, whoever may see them; those that are gone are absent. */
  readonly findGroups: (org: OrganizationId, ids: readonly GroupId[]) => Promise<readonly Stored<GroupRecord>[]>;
  readonly slices: TimeSlices;
}

/** Policies that are remembered; those asked for longest ago go first. */
const mostKept = 20_000;
/** Groups that are read from the database at a time: each may be large. */
const mostRead = 64;

export class ExpectedDigests {
  readonly #o: ExpectedDigestsOptions;
  readonly #digests = new Map<string, string>();

  constructor(options: ExpectedDigestsOptions) {
    this.#o = options;
  }

  get(key: string): string | undefined {
    return this.#digests.get(key);
  }

  /** Works out those that are not known. One that has changed meanwhile stays unknown: the model will ask for the new one. */
  async workOut(wanted: ReadonlyMap<string, Effect>, model: Pick<PolicyModel, 'version' | 'fleet'>): Promise<void> {
    const { version } = model;
    for (const [key, effect] of wanted) {
      if (this.#digests.has(key)) continue;
      const groups = await this.#read(effect);
      // A policy within all limits may take long: whoever else is served by this process does not wait for all of them.
      await this.#o.slices.next();
      // Whom the rules name is known for this moment only.
      if (model.version !== version) return;
      if (groups === undefined) continue;
      this.#digests.set(key, digestOf(groups, model));
      const [oldest] = this.#digests.keys();
      if (this.#digests.size > mostKept && oldest !== undefined) this.#digests.delete(oldest);
    }
  }

  async #read(effect: Effect): Promise<readonly PolicyGroup[] | undefined> {
    const groups: PolicyGroup[] = [];
    for (let from = 0; from < effect.length; from += mostRead) {
      const part = effect.slice(from, from + mostRead);
      const found = await this.#o.findGroups(
        this.#o.org,
        part.map(({ id }) => id),
      );
      for (const { id, hash } of part) {
        const stored = found.find((group) => group.id === id);
        if (stored === undefined || contentHash(stored.record) !== hash) return undefined;
        groups.push(readGroupRecord(stored.record));
      }
    }
    return groups;
  }
}

function digestOf(all: readonly PolicyGroup[], { fleet }: Pick<PolicyModel, 'fleet'>): string {
  const of = (kind: PolicyGroup['guardrail']): readonly PolicyGroup[] =>
    all.filter(({ guardrail }) => guardrail === kind);
  const [groups, forbid, require] = [of(undefined), of('forbid'), of('require')];
  const guardrails = forbid.length + require.length === 0 ? {} : { guardrails: { forbid, require } };
  return policyDigest(canonicalize(resolvePolicy({ source: 'list', groups, ...guardrails }, fleet)));
}
