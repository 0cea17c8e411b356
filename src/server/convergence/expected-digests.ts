/** Owns the digests that devices should report. Devices with the same policy share one digest. */
import type { DeviceIdentity } from '../../policy/fleet/identity.ts';
import type { GroupId, OrganizationId } from '../../policy/ids.ts';
import type { PolicyIsolation } from '../../policy/isolation/policy-isolation.ts';
import type { GroupRecord, Stored } from '../store/contract/records.ts';
import type { TimeSlices } from '../scheduling/time-slices.ts';
import type { DigestGroup } from './digest-job.ts';
import type { Digester } from './digest-thread.ts';
import type { Effect } from './policy-model.ts';

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
  readonly effect: Effect;
  /** The isolation that concerns the device. */
  readonly isolation?: PolicyIsolation | undefined;
  readonly at: number;
}

/** As much of the model as digests need. */
export interface DigestModel {
  readonly version: object;
  readonly devices: ReadonlyMap<string, { readonly identity: DeviceIdentity }>;
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
    const { version } = model;
    const work = this.#last.then(() => this.#workOut(wanted, model, version));
    this.#last = work.catch(() => {});
    return work;
  }

  async #workOut(wanted: ReadonlyMap<string, WantedDigest>, model: DigestModel, version: object): Promise<void> {
    const { digester, slices, monotonic } = this.#o;
    const until = monotonic() + timeoutMs;
    for (const [key, { effect, isolation, at }] of wanted) {
      if (this.#digests.has(key)) continue;
      if (monotonic() > until) return;
      const groups = await this.#read(effect);
      // Large policies may take long. Other requests of this process run between them.
      await slices.next();
      // The devices that rules name are known for this moment only.
      if (model.version !== version) return;
      if (groups === undefined) continue;
      const names = effect.some(({ peers }) => peers.size > 0) || (isolation?.own?.allow ?? []).length > 0;
      const devices = names ? [...model.devices.values()].map(({ identity }) => identity) : [];
      const digest = await digester.digest({ groups, isolation, devices, fleet: version, at });
      if (digest === undefined) continue;
      this.#digests.set(key, digest);
      const [oldest] = this.#digests.keys();
      if (this.#digests.size > mostKept && oldest !== undefined) this.#digests.delete(oldest);
    }
  }

  /** Their rules are held against the hashes where they are parsed. */
  async #read(effect: Effect): Promise<readonly DigestGroup[] | undefined> {
    const groups: DigestGroup[] = [];
    for (let from = 0; from < effect.length; from += mostRead) {
      const part = effect.slice(from, from + mostRead);
      const found = await this.#o.findGroups(
        this.#o.org,
        part.map(({ id }) => id),
      );
      for (const { id, hash } of part) {
        const stored = found.find((group) => group.id === id);
        if (stored === undefined) return undefined;
        groups.push({ json: stored.json, hash });
      }
    }
    return groups;
  }
}
