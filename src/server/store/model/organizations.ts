/**
 * Owns the models of organizations: each loads once, follows the log, and is shared by all that read or decide in this process.
 *
 *     const now = await models.read(org);             // the organization at its head
 *     const before = await models.atLeast(org, 41);   // for a reader that found the head at 41
 *     const next = await models.follow(org, last);    // with what happened since
 *     const seen = await models.inTransaction(org).read(tx); // as a transaction sees it that holds the organization's head
 */
import { loggedChange } from '../../../organization/read-records.ts';
import {
  emptyOrganization,
  overlay,
  type Organization,
  type OrganizationChange,
  type OrganizationStep,
} from '../../../organization/organization.ts';
import type { OrganizationId } from '../../../policy/ids.ts';
import type { Entry } from '../data/change-log.ts';
import { StoreError } from '../../problems.ts';
import type { ShortSteps } from '../data/short-steps.ts';
import type { Runner } from '../postgres/connection.ts';
import { statement, withinBytes, withRevision } from '../postgres/sql.ts';
import { readState, type LogReader } from './read-state.ts';
import { Trail, type LoggedStep } from './trail.ts';

/** An organization, and how it came to what it is. */
export interface FollowedOrganization {
  readonly organization: Organization;
  /** Every step since what was given, in the order of revisions; undefined where not all of them are known. */
  readonly steps: readonly OrganizationStep[] | undefined;
}

export interface ModelsOptions {
  readonly log: LogReader;
  readonly slices: ShortSteps;
  /** Milliseconds that only ever go forward. */
  readonly monotonic: () => number;
  /** The time of day, in milliseconds since 1970. */
  readonly clock: () => number;
}

/** An unused model is dropped after this long. */
const lingerMs = 60_000;
/** Characters of records that all models together may be made of; beyond, those that were not used for longest go first. */
const mostCharacters = 128 * 1024 * 1024;
const entriesAtOnce = 64;
/** Records of groups may have some megabytes: what is read at once has no more than this, and one record. */
const bytesAtOnce = 4 * 1024 * 1024;

export interface Kept {
  readonly model: Organization;
  /** The log's version when the model was loaded: another one means that the history may be another. */
  readonly version: string;
  readonly characters: number;
  readonly trail: Trail;
  /** When the head was read that the model shows. */
  readonly readAt: number;
  usedAt: number;
}

/** The change of a model by a current record. */
function changeOf({ kind, id, json }: Pick<Entry, 'kind' | 'id' | 'json'>): OrganizationChange | undefined {
  return kind === 'organization' ? undefined : loggedChange(kind, id, json);
}

/** The same by an entry of the log; undefined where it changes nothing of the model, such as a device's endpoint. */
function loggedIn({
  kind,
  type,
  id,
  json,
  identity,
}: Pick<Entry, 'kind' | 'type' | 'id' | 'json' | 'identity'>): OrganizationChange | undefined {
  if (kind === 'organization') return undefined;
  if (type === 'delete') return loggedChange(kind, id, undefined);
  if (kind === 'device') return identity === undefined ? undefined : loggedChange(kind, id, identity);
  return loggedChange(kind, id, json);
}

function stepOf(entry: Pick<Entry, 'revision' | 'kind' | 'type' | 'id' | 'json' | 'identity'>): LoggedStep {
  const change = loggedIn(entry);
  return { revision: entry.revision, change, characters: change === undefined ? 0 : entry.json.length };
}

type Model = Pick<Kept, 'model' | 'characters' | 'trail'>;

function advanced({ model, characters, trail }: Model, steps: readonly LoggedStep[], revision: number): Model {
  return {
    model: overlay(model, changesIn(steps), { revision }),
    characters: steps.reduce((sum, step) => sum + step.characters, characters),
    trail: trail.with(steps),
  };
}

const changesIn = (steps: readonly OrganizationStep[]): readonly OrganizationChange[] =>
  steps.flatMap(({ change }) => change ?? []);

type LoggedRow = Pick<Entry, 'revision' | 'kind' | 'type' | 'id'> & {
  readonly body: string;
  readonly identity: string | null;
  /** Of the head alone, which is one of the rows: which history the log is of. */
  readonly version: string | null;
};

/** What a transaction sees that holds the head. Values: organization, after this revision, bytes. */
const readLogged = statement<LoggedRow>(
  'read_logged_in_transaction',
  `SELECT revision, kind, type, id, body, identity, NULL AS version FROM (${withinBytes(
    'SELECT revision, kind, type, id, body, identity FROM changes WHERE org_id = $1 AND revision > $2',
    { bytes: '$3', length: 'octet_length(p.body)', order: 'p.revision' },
  )}) AS c
   UNION ALL SELECT h.revision, 'organization', 'change', h.org_id, '', NULL,
     concat(h.gaps, ' ', h.purged, ' ', (SELECT id FROM eras ORDER BY serial DESC LIMIT 1)) FROM heads h WHERE h.org_id = $1
   ORDER BY revision`,
);

/** The models of organizations. A model that it gives never changes: a later state is another one. */
export class OrganizationModels {
  readonly #o: ModelsOptions;
  /** Those that were not used for longest come first. */
  readonly #kept = new Map<OrganizationId, Kept>();
  /** Of all of them together. */
  #characters = 0;
  /** Of which model answers to `follow` came. */
  readonly #origins = new WeakMap<FollowedOrganization, object>();
  /** By organization, the last of the readings that wait for each other. */
  readonly #reading = new Map<OrganizationId, Promise<Kept>>();

  constructor(options: ModelsOptions) {
    this.#o = options;
  }

  /** The organization with everything that was written before this call. */
  async read(org: OrganizationId): Promise<Organization> {
    return this.#asOfNow(org, await this.#readInTurn(org));
  }

  /** The organization with everything that was written before this call, and how it came to that since `last`, which is an earlier answer. */
  async follow(org: OrganizationId, last?: FollowedOrganization): Promise<FollowedOrganization> {
    const kept = await this.#readInTurn(org);
    const origin = last && this.#origins.get(last);
    const steps = last && origin && kept.trail.since(origin, last.organization.revision);
    const followed = { organization: this.#asOfNow(org, kept), steps };
    this.#origins.set(followed, kept.trail.origin);
    return followed;
  }

  /** The organization as it was at most so many milliseconds ago; undefined where it is not known here. */
  recent(org: OrganizationId, withinMs: number): Organization | undefined {
    const kept = this.#kept.get(org);
    return kept === undefined || this.#o.monotonic() - kept.readAt > withinMs ? undefined : this.#asOfNow(org, kept);
  }

  /** The organization at this revision or a later one: without a question to the database where it is known here. */
  async atLeast(org: OrganizationId, revision: number): Promise<Organization> {
    const kept = this.#kept.get(org);
    return kept === undefined || kept.model.revision < revision ? this.read(org) : this.#asOfNow(org, kept);
  }

  /** Does work that grows with an organization in short steps. */
  run<T>(steps: Generator<void, T>): Promise<T> {
    return this.#o.slices.run(steps);
  }

  /** For a transaction that holds the organization's head. */
  inTransaction(org: OrganizationId, { hasTurn = false }: { readonly hasTurn?: boolean } = {}): ModelInTransaction {
    return new ModelInTransaction(this, this.#o, { org, hasTurn });
  }

  /** What is known of the organization, which may be behind; it is loaded where nothing is. */
  async known(org: OrganizationId): Promise<Kept> {
    return this.#kept.get(org) ?? this.#readInTurn(org);
  }

  /** Loads the model where it is not known, before a write that needs it takes the lock and a connection that others wait for. */
  async warm(org: OrganizationId): Promise<void> {
    await this.known(org);
  }

  /** Takes the model over from a transaction that is committed. */
  remember(org: OrganizationId, kept: Kept): void {
    const known = this.#kept.get(org);
    if (known !== undefined && known.version === kept.version && known.model.revision >= kept.model.revision) return;
    this.#keep(org, kept);
    this.#letGo(org);
  }

  keeps(org: OrganizationId): boolean {
    return this.#kept.has(org);
  }

  forget(org: OrganizationId): void {
    this.#characters -= this.#kept.get(org)?.characters ?? 0;
    this.#kept.delete(org);
  }

  #keep(org: OrganizationId, kept: Kept): void {
    this.forget(org);
    this.#kept.set(org, kept);
    this.#characters += kept.characters;
  }

  #asOfNow(org: OrganizationId, kept: Kept): Organization {
    kept.usedAt = this.#o.monotonic();
    if (this.#kept.get(org) === kept) this.#keep(org, kept);
    return { ...kept.model, at: this.#o.clock() };
  }

  #readInTurn(org: OrganizationId): Promise<Kept> {
    const before = this.#reading.get(org) ?? Promise.resolve();
    const reading = before.catch(() => {}).then(() => this.#read(org));
    this.#reading.set(org, reading);
    const forget = (): void => {
      if (this.#reading.get(org) === reading) this.#reading.delete(org);
    };
    reading.then(forget, forget);
    return reading;
  }

  async #read(org: OrganizationId): Promise<Kept> {
    const { log, monotonic } = this.#o;
    const readAt = monotonic();
    const { organizations } = await log.heads([org]);
    const head = organizations.get(org);
    if (head === undefined) throw new StoreError({ code: 'not_found', what: 'organization' });
    const known = this.#kept.get(org);
    const isSameHistory = known?.version === head.version && known.model.revision <= head.revision;
    const found =
      (isSameHistory ? await this.#follow(org, known, head.revision) : undefined) ?? (await this.#load(org, head));
    // A transaction may have taken the model further meanwhile.
    const newest = this.#kept.get(org);
    const isOvertaken = newest?.version === found.version && newest.model.revision > found.model.revision;
    const kept = { ...(isOvertaken ? newest : found), readAt, usedAt: monotonic() };
    this.#keep(org, kept);
    this.#letGo(org);
    return kept;
  }

  /** Undefined where the log no longer reaches back that far. */
  async #follow(org: OrganizationId, kept: Kept, head: number): Promise<Kept | undefined> {
    let { model, characters, trail } = kept;
    while (model.revision < head) {
      const entries = await this.#o.log.readChanges(org, model.revision, entriesAtOnce, bytesAtOnce);
      if (entries === undefined) return undefined;
      const last = entries.at(-1);
      if (last === undefined) break;
      const steps: LoggedStep[] = [];
      for (const entry of entries) {
        await this.#o.slices.next();
        steps.push(stepOf(entry));
      }
      ({ model, characters, trail } = advanced({ model, characters, trail }, steps, last.revision));
    }
    return { ...kept, model, characters, trail };
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
    const model = overlay(emptyOrganization, changes, { revision });
    const { organizations } = await this.#o.log.heads([org]);
    const head = organizations.get(org);
    if (head === undefined) throw new StoreError({ code: 'not_found', what: 'organization' });
    const loaded = { model, version, characters, trail: Trail.begin(revision), readAt: 0, usedAt: 0 };
    const followed = await this.#follow(org, loaded, head.revision);
    if (followed === undefined) throw new StoreError({ code: 'unavailable' });
    return followed;
  }

  #letGo(used: OrganizationId): void {
    const now = this.#o.monotonic();
    for (const [org, kept] of this.#kept) {
      if (now - kept.usedAt <= lingerMs && this.#characters <= mostCharacters) break;
      if (org !== used) this.forget(org);
    }
    // Changes from the log count too: a model that grew beyond the limit is loaded again next time.
    if ((this.#kept.get(used)?.characters ?? 0) > mostCharacters) this.forget(used);
  }
}

/**
 * The organization as one transaction sees it, which holds the organization's head: what was committed, and what the transaction has written so far. Nothing is
 * read before somebody asks.
 */
export class ModelInTransaction {
  readonly #models: OrganizationModels;
  readonly #o: ModelsOptions;
  readonly #org: OrganizationId;
  /** Whether what is worked out in the transaction may take long. */
  readonly hasTurn: boolean;
  #known: Kept | undefined;
  /** What the transaction has written since, and nobody has looked at yet. */
  #changes: Entry[] = [];

  constructor(
    models: OrganizationModels,
    options: ModelsOptions,
    { org, hasTurn }: { readonly org: OrganizationId; readonly hasTurn: boolean },
  ) {
    this.hasTurn = hasTurn;
    this.#models = models;
    this.#o = options;
    this.#org = org;
  }

  /** The transaction writes this. */
  changed(entry: Entry): void {
    this.#changes.push(entry);
  }

  /** The database shows the transaction what it has written so far. */
  flushed(): void {
    if (this.#known === undefined) this.#changes = [];
  }

  mark() {
    return { known: this.#known, changes: this.#changes, length: this.#changes.length };
  }

  /** A part of the transaction was taken back, to where `mark` was given. */
  reset({ known, changes, length }: ReturnType<ModelInTransaction['mark']>): void {
    this.#known = known;
    this.#changes = changes;
    this.#changes.length = length;
  }

  /** Does work that grows with the organization in short steps. */
  run<T>(steps: Generator<void, T>): Promise<T> {
    return this.#o.slices.run(steps);
  }

  async read(tx: Runner): Promise<Organization> {
    this.#known ??= await this.#begin(tx);
    this.#known = this.#folded(this.#known);
    return { ...this.#known.model, at: this.#o.clock() };
  }

  /** As the database shows it to the transaction. */
  async #begin(tx: Runner): Promise<Kept> {
    for (const isLast of [false, true]) {
      const reached = await this.#follow(tx, await this.#models.known(this.#org));
      if (reached !== undefined) return reached;
      if (isLast) break;
      // Another history, or the log no longer reaches back to what is known.
      this.#models.forget(this.#org);
    }
    throw new StoreError({ code: 'unavailable' }, { message: 'the change log does not reach back far enough' });
  }

  /** At the head, in parts; undefined where the log does not lead there. */
  async #follow(tx: Runner, known: Kept): Promise<Kept | undefined> {
    const rows = await tx.run(readLogged, [this.#org, known.model.revision, bytesAtOnce]);
    const head = rows.find(({ version }) => version !== null);
    if (head === undefined) throw new StoreError({ code: 'not_found', what: 'organization' });
    if (head.version !== known.version || head.revision < known.model.revision) return undefined;
    if (head.revision === known.model.revision) return known;
    const next = await this.#followed(known, rows);
    return next === undefined || next.model.revision === head.revision ? next : this.#follow(tx, next);
  }

  /** Undefined where the log has a hole. */
  async #followed(known: Kept, rows: readonly LoggedRow[]): Promise<Kept | undefined> {
    const steps: LoggedStep[] = [];
    await this.#o.slices.each(rows, (row) => {
      const { body, identity } = row;
      if (row.version !== null) return;
      const json = withRevision(body, row.revision);
      steps.push(
        stepOf({ ...row, json, identity: identity === null ? undefined : withRevision(identity, row.revision) }),
      );
    });
    const { version, readAt } = known;
    const revision = known.model.revision + steps.length;
    if (steps.length === 0 || steps.at(-1)?.revision !== revision) return undefined;
    return { ...advanced(known, steps, revision), version, readAt, usedAt: this.#o.monotonic() };
  }

  /** With what the transaction has written. */
  #folded(known: Kept): Kept {
    const entries = this.#changes;
    const revision = entries.at(-1)?.revision;
    if (revision === undefined) return known;
    this.#changes = [];
    return { ...known, ...advanced(known, entries.map(stepOf), revision) };
  }

  /** The transaction is committed: what it saw may be known to others. */
  committed(): void {
    if (this.#known !== undefined) this.#models.remember(this.#org, this.#folded(this.#known));
  }
}
