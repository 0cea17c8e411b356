/**
 * Owns the policy snapshots of organizations: each loads once, follows the log, and is shared by all requests.
 *
 *     const now = await snapshots.read(org);             // the organization at its head
 *     const before = await snapshots.atLeast(org, 41);   // for a transaction that found the head at 41
 */
import type { OrganizationId } from '../../policy/ids.ts';
import { loggedChange } from '../../organization/read-records.ts';
import {
  emptyOrganization,
  overlay,
  type Organization,
  type OrganizationChange,
} from '../../organization/organization.ts';
import type { TimeSlices } from '../scheduling/time-slices.ts';
import type { Entry } from '../store/contract/change-log.ts';
import { StoreError } from '../problems.ts';
import type { Store } from '../store/contract/store.ts';
import { readState } from '../convergence/read-state.ts';

export interface SnapshotsOptions {
  readonly log: Pick<Store['log'], 'heads' | 'readState' | 'readChanges'>;
  readonly slices: TimeSlices;
  /** Milliseconds that only ever go forward. */
  readonly monotonic: () => number;
  /** The time of day, in milliseconds since 1970. */
  readonly clock: () => number;
}

/** An unused snapshot is dropped after this long. */
const lingerMs = 60_000;
/** Characters of records that all snapshots together may be made of; beyond, those that were not used for longest go first. */
const mostCharacters = 64 * 1024 * 1024;
const entriesAtOnce = 64;

interface Kept {
  snapshot: Organization;
  /** The log's version when the snapshot was loaded: another one means that the history may be another. */
  version: string;
  characters: number;
  readAt: number;
  usedAt: number;
}

/** The change of a snapshot by a log entry; undefined when the entry does not affect policy. */
function changeOf({ kind, type, id, json, hidden_from }: Entry): OrganizationChange | undefined {
  // A group that left somebody's view is what it was.
  if (hidden_from !== undefined || kind === 'organization') return undefined;
  return loggedChange(kind, id, type === 'delete' ? undefined : json);
}

/** A snapshot that it gives never changes. */
export class Snapshots {
  readonly #o: SnapshotsOptions;
  readonly #kept = new Map<OrganizationId, Kept>();
  /** By organization, the last of the readings that wait for each other. */
  readonly #reading = new Map<OrganizationId, Promise<Organization>>();

  constructor(options: SnapshotsOptions) {
    this.#o = options;
  }

  /** The organization with everything that was written before this call. */
  read(org: OrganizationId): Promise<Organization> {
    const before = this.#reading.get(org) ?? Promise.resolve();
    const reading = before.catch(() => {}).then(() => this.#read(org));
    this.#reading.set(org, reading);
    const forget = (): void => {
      if (this.#reading.get(org) === reading) this.#reading.delete(org);
    };
    reading.then(forget, forget);
    return reading;
  }

  /** The organization as it was at most so many milliseconds ago; undefined where it is not known here. */
  recent(org: OrganizationId, withinMs: number): Organization | undefined {
    const { monotonic, clock } = this.#o;
    const kept = this.#kept.get(org);
    if (kept === undefined || monotonic() - kept.readAt > withinMs) return undefined;
    kept.usedAt = monotonic();
    return { ...kept.snapshot, at: clock() };
  }

  /** The organization at this revision or a later one: without a question to the database where it is known here. */
  async atLeast(org: OrganizationId, revision: number): Promise<Organization> {
    const kept = this.#kept.get(org);
    if (kept === undefined || kept.snapshot.revision < revision) return this.read(org);
    kept.usedAt = this.#o.monotonic();
    return { ...kept.snapshot, at: this.#o.clock() };
  }

  async #read(org: OrganizationId): Promise<Organization> {
    const { log, monotonic, clock } = this.#o;
    const readAt = monotonic();
    const { organizations } = await log.heads([org]);
    const head = organizations.get(org);
    if (head === undefined) throw new StoreError({ code: 'not_found', what: 'organization' });
    const known = this.#kept.get(org);
    const isSameHistory = known?.version === head.version && known.snapshot.revision <= head.revision;
    const kept =
      (isSameHistory ? await this.#follow(org, known, head.revision) : undefined) ?? (await this.#load(org, head));
    kept.readAt = readAt;
    kept.usedAt = monotonic();
    this.#kept.set(org, kept);
    this.#letGo(org);
    return { ...kept.snapshot, at: clock() };
  }

  /** Undefined where the log no longer reaches back that far. */
  async #follow(org: OrganizationId, kept: Kept, head: number): Promise<Kept | undefined> {
    while (kept.snapshot.revision < head) {
      const entries = await this.#o.log.readChanges(org, kept.snapshot.revision, entriesAtOnce);
      if (entries === undefined) return undefined;
      const last = entries.at(-1);
      if (last === undefined) return kept;
      const changes: OrganizationChange[] = [];
      for (const entry of entries) {
        await this.#o.slices.next();
        const change = changeOf(entry);
        if (change !== undefined) changes.push(change);
        kept.characters += entry.json.length;
      }
      kept.snapshot = overlay(kept.snapshot, changes, { revision: last.revision });
    }
    return kept;
  }

  async #load(org: OrganizationId, { revision, version }: { revision: number; version: string }): Promise<Kept> {
    const changes: OrganizationChange[] = [];
    let characters = 0;
    // A record that changes during the read is read in its new state. The log repeats the change afterwards.
    await readState(this.#o.log, org, this.#o.slices, (entry) => {
      const change = changeOf(entry);
      if (change !== undefined) changes.push(change);
      characters += entry.json.length;
    });
    const kept = {
      snapshot: overlay(emptyOrganization, changes, { revision }),
      version,
      characters,
      readAt: 0,
      usedAt: 0,
    };
    const { organizations } = await this.#o.log.heads([org]);
    const head = organizations.get(org);
    if (head === undefined) throw new StoreError({ code: 'not_found', what: 'organization' });
    const followed = await this.#follow(org, kept, head.revision);
    if (followed === undefined) throw new StoreError({ code: 'unavailable' });
    return followed;
  }

  #letGo(used: OrganizationId): void {
    const now = this.#o.monotonic();
    const oldest = [...this.#kept].filter(([org]) => org !== used).toSorted(([, a], [, b]) => a.usedAt - b.usedAt);
    let characters = [...this.#kept.values()].reduce((sum, kept) => sum + kept.characters, 0);
    for (const [org, kept] of oldest) {
      if (now - kept.usedAt <= lingerMs && characters <= mostCharacters) continue;
      this.#kept.delete(org);
      characters -= kept.characters;
    }
    // Changes from the log count too: a snapshot that grew beyond the limit is loaded again next time.
    if ((this.#kept.get(used)?.characters ?? 0) > mostCharacters) this.#kept.delete(used);
  }
}
