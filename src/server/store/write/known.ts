/**
 * Owns what this process knows of the organizations that it writes in, each as of one version of its head: the records that writes looked at, and who wrote. A
 * write that is decided from it needs no lock and no reading: it is appended only if the organization still has that version.
 */
import type { Caller } from '../../../organization/decide/caller.ts';
import type { OrganizationId } from '../../../policy/ids.ts';
import type { Head } from './append.ts';
import type { DeviceState, GroupState } from './records/states.ts';

/** Characters of the records of one organization, and of all together. */
const mostOfOne = 4 << 20;
const mostCharacters = 32 << 20;

/** Who writes. Where its right names an enrollment key: the key's user. */
export type CallerRow = Caller & { readonly key_user: string | null };

export class Known {
  head: Head;
  readonly groups = new Map<string, GroupState>();
  readonly devices = new Map<string, DeviceState>();
  /** By `callerKey`. */
  readonly callers = new Map<string, CallerRow>();
  /** How many address ranges all groups name. */
  ranges: number | undefined;
  #characters = 0;

  constructor(head: Head) {
    this.head = head;
  }

  get characters(): number {
    return this.#characters;
  }

  /** States as they are now; undefined: gone. */
  take<State extends GroupState | DeviceState>(
    known: Map<string, State>,
    states: Iterable<readonly [string, State | undefined]>,
  ): void {
    for (const [id, state] of states) {
      this.#characters += (state?.body.length ?? 0) - (known.get(id)?.body.length ?? 0);
      if (state === undefined) known.delete(id);
      else known.set(id, state);
    }
  }
}

export class KnownOrganizations {
  /** Those that were not used for longest come first. */
  readonly #known = new Map<OrganizationId, { readonly known: Known; readonly characters: number }>();
  /** Where another process wrote last: who decides there without the lock may do so in vain. */
  readonly #contested = new Set<OrganizationId>();
  #characters = 0;

  /** Undefined: nothing is known. */
  get(org: OrganizationId): Known | undefined {
    return this.#known.get(org)?.known;
  }

  isContested(org: OrganizationId): boolean {
    return this.#contested.has(org);
  }

  /** The head was found under the lock: whether this process wrote last says whether the next write goes without it. */
  found(org: OrganizationId, { version }: Head): void {
    const known = this.get(org);
    if (known === undefined) return;
    if (known.head.version === version) this.#contested.delete(org);
    else this.lost(org);
  }

  /** What was known is of another version. */
  lost(org: OrganizationId): void {
    this.forget(org);
    if (this.#contested.size > 10_000) this.#contested.clear();
    this.#contested.add(org);
  }

  set(org: OrganizationId, known: Known): void {
    this.forget(org);
    const { characters } = known;
    if (characters > mostOfOne) return;
    this.#known.set(org, { known, characters });
    this.#characters += characters;
    for (const other of this.#known.keys()) {
      if (this.#characters <= mostCharacters) break;
      this.forget(other);
    }
  }

  forget(org: OrganizationId): void {
    this.#characters -= this.#known.get(org)?.characters ?? 0;
    this.#known.delete(org);
  }
}
