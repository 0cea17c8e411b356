/** Owns the digests that devices should report. Devices with the same policy share one digest. */
import type { GroupState, Organization } from '../../organization/organization.ts';
import type { GroupId, OrganizationId } from '../../policy/ids.ts';
import type { PolicyIsolation } from '../../policy/isolation/policy-isolation.ts';
import type { GroupRecord, Stored } from '../store/data/records.ts';
import type { TimeSlices } from '../scheduling/time-slices.ts';
import type { DigestGroup } from './digest-job.ts';
import type { Digester } from './digest-thread.ts';

export interface ExpectedDigestsOptions {
  readonly org: OrganizationId;
  /** The current groups, regardless of who may see them. Deleted groups are absent. */
  readonly findGroups: (org: OrganizationId, ids: readonly GroupId[]) => Promise<readonly Stored<GroupRecord>[]>;
  readonly digester: Digester;
  readonly slices: TimeSlices;
  /** Milliseconds that only ever go forward. */
  readonly monotonic: () => number;
}

/** A phase of a policy, by what the policy is made of. */
export interface WantedDigest {
  readonly groups: readonly GroupState[];
  /** The isolation that concerns the device. */
  readonly isolation?: PolicyIsolation | undefined;
  readonly at: number;
}

/** Whose digests are worked out. */
export interface DigestModel {
  /** What it is now: another object whenever something changed, and undefined while a change is being taken in. */
  readonly organization: Organization | undefined;
}

/** Policies that are remembered; those asked for longest ago go first. */
const mostKept = 20_000;
/** Groups that are read from the database at a time: each may be large. */
const mostRead = 4;
/**
 * The time limit for computing digests for one request. A digest that is still unknown counts as not in force; the next
 * request continues.
 */
const timeoutMs = 20_000;

export class ExpectedDigests {
  readonly #o: ExpectedDigestsOptions;
  readonly #digests = new Map<string, string>();
  /** Those of an organization are worked out one after the other: many who ask together cost as much as one. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: ExpectedDigestsOptions) {
    this.#o = options;
  }

  get(key: string): string | undefined {
    return this.#digests.get(key);
  }

  /** Works out those that are not known, by the keys of their phases. One that has changed meanwhile stays unknown: the model will ask for the new one. */
  workOut(wanted: ReadonlyMap<string, WantedDigest>, model: DigestModel): Promise<void> {
    const { organization } = model;
    const work = this.#last.then(() => organization && this.#workOut(wanted, model, organization));
    this.#last = work.catch(() => {});
    return work;
  }

  async #workOut(
    wanted: ReadonlyMap<string, WantedDigest>,
    model: DigestModel,
    organization: Organization,
  ): Promise<void> {
    const { digester, slices, monotonic } = this.#o;
    const until = monotonic() + timeoutMs;
    const { devices: all } = organization;
    for (const [key, { groups: states, isolation, at }] of wanted) {
      if (this.#digests.has(key)) continue;
      if (monotonic() > until) return;
      const groups = await this.#read(states);
      // Large policies may take long. Other requests of this process run between them.
      await slices.next();
      // The devices that rules name are known for this moment only.
      if (model.organization !== organization) return;
      if (groups === undefined) continue;
      const names = states.some(({ rules }) => rules.peers.size > 0) || (isolation?.own?.allow ?? []).length > 0;
      const devices = names ? [...all.values()].map(({ identity }) => identity) : [];
      const digest = await digester.digest({ groups, isolation, devices, fleet: all, at });
      if (digest === undefined) continue;
      this.#digests.set(key, digest);
      const [oldest] = this.#digests.keys();
      if (this.#digests.size > mostKept && oldest !== undefined) this.#digests.delete(oldest);
    }
  }

  /** Their rules are held against the hashes where they are parsed. */
  async #read(states: readonly GroupState[]): Promise<readonly DigestGroup[] | undefined> {
    const groups: DigestGroup[] = [];
    for (let from = 0; from < states.length; from += mostRead) {
      const part = states.slice(from, from + mostRead);
      const found = await this.#o.findGroups(
        this.#o.org,
        part.map(({ id }) => id),
      );
      for (const { id, rules } of part) {
        const stored = found.find((group) => group.id === id);
        if (stored === undefined) return undefined;
        groups.push({ json: stored.json, hash: rules.hash });
      }
    }
    return groups;
  }
}
