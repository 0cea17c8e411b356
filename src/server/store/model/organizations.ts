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
import type { Entry, LogSource, StatePage } from '../data/change-log.ts';
import { StoreError } from '../../problems.ts';
import type { ShortSteps } from '../data/short-steps.ts';
import type { FollowedLog } from '../follow/followed-log.ts';
import type { FollowedLogs } from '../follow/followed-logs.ts';
import { maskOf, type Frame } from '../follow/frame.ts';
import type { Runner } from '../postgres/connection.ts';
import { statement, withinBytes, withRevision } from '../postgres/sql.ts';
import { RecordTexts } from './record-texts.ts';

/** An organization, and how it came to what it is. */
export interface FollowedOrganization {
  readonly organization: Organization;
  /** Every step since what was given, in the order of revisions; undefined where not all of them are known. */
  readonly steps: readonly OrganizationStep[] | undefined;
}

export interface ModelsOptions {
  readonly logs: FollowedLogs;
  /** Of current records; what changes afterwards is in the log. */
  readonly source: Pick<LogSource, 'readState'>;
  readonly slices: ShortSteps;
  /** Milliseconds that only ever go forward. */
  readonly monotonic: () => number;
  /** The time of day, in milliseconds since 1970. */
  readonly clock: () => number;
}

/** An unused model is dropped after this long. */
const lingerMs = 60_000;
/** Characters of records that all models together may hold in memory; beyond, those that were not used for longest go first. */
const mostCharacters = 128 * 1024 * 1024;
/** Bytes of the file of one model: what was replaced counts too, until the model is loaded again. */
const mostInFile = 1024 * 1024 * 1024;
/** Of one read of current records: some hundred devices. */
const pageBytes = 262_144;
/** Records of groups may have some megabytes: what a transaction reads at once has no more than this, and one record. */
const bytesAtOnce = 4 * 1024 * 1024;

export interface Kept {
  readonly model: Organization;
  /** The log that the model follows, and the history that it is of. */
  readonly log: FollowedLog;
  readonly history: object;
  readonly characters: number;
  readonly texts: RecordTexts;
  /** When the newest head was read that the model shows. */
  readAt: number;
  usedAt: number;
}

type Logged = Pick<Entry, 'kind' | 'type' | 'id' | 'json' | 'identity'>;

/** What an entry changes of the model; undefined where that is nothing, such as with a device's endpoint. */
function changeIn({ kind, type, id, json, identity }: Logged, texts: RecordTexts): OrganizationChange | undefined {
  if (kind === 'organization') return undefined;
  if (type === 'delete') return loggedChange(kind, id, undefined);
  if (kind === 'device') return identity === undefined ? undefined : texts.changeOf(kind, id, identity);
  return texts.changeOf(kind, id, json);
}

const identityMask = maskOf(['device-identity']);

/** The same of what streams are sent: devices by identity, and groups as their owners see them. */
function changeInFrame(frame: Frame, texts: RecordTexts): OrganizationChange | undefined {
  const isOfModel = frame.kind === 'device' ? frame.mask === identityMask : frame.owner === undefined || frame.forOwner;
  return isOfModel ? changeIn({ ...frame, identity: frame.json }, texts) : undefined;
}

/** With the record of the model where that is the same: who follows the model does not hold it twice. */
function sharedWith({ devices, groups }: Organization, change: OrganizationChange): OrganizationChange {
  if (change.kind === 'device') {
    const device = devices.get(change.id);
    return device?.revision === change.device?.revision ? { ...change, device } : change;
  }
  const group = groups.get(change.id);
  return group?.revision === change.group?.revision ? { ...change, group } : change;
}

type Model = Pick<Kept, 'model' | 'characters' | 'texts'>;

function advanced({ model, texts }: Omit<Model, 'characters'>, logged: readonly Logged[], revision: number): Model {
  const changes: OrganizationChange[] = [];
  for (const entry of logged) {
    const change = changeIn(entry, texts);
    if (change !== undefined) changes.push(change);
  }
  return { model: overlay(model, changes, { revision }), characters: texts.characters, texts };
}

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

/** A model, and the version of the heads that have its history. */
interface KeptAtVersion extends Kept {
  readonly version: string | undefined;
}

/** The models of organizations. A model that it gives never changes: a later state is another one. */
export class OrganizationModels {
  readonly #o: ModelsOptions;
  /** Those that were not used for longest come first. */
  readonly #kept = new Map<OrganizationId, Kept>();
  /** Of all of them together. */
  #characters = 0;
  /** Of which history answers to `follow` are. */
  readonly #histories = new WeakMap<FollowedOrganization, object>();
  /** The models that are being brought to the heads of their logs. */
  readonly #moving = new Map<FollowedLog, Promise<Kept>>();

  constructor(options: ModelsOptions) {
    this.#o = options;
    options.logs.isNeeded = (org) => this.keeps(org);
  }

  /** The organization with everything that was written before this call. */
  async read(org: OrganizationId): Promise<Organization> {
    return this.#asOfNow(org, await this.current(org));
  }

  /** The organization with everything that was written before this call, and how it came to that since `last`, which is an earlier answer. */
  async follow(org: OrganizationId, last?: FollowedOrganization): Promise<FollowedOrganization> {
    let kept = await this.current(org);
    // Where a transaction took the model further than its log, the log is read up to there.
    for (let tries = 0; tries < 8 && kept.model.revision > kept.log.ring.head; tries += 1)
      kept = await this.current(org);
    const isSame = last !== undefined && this.#histories.get(last) === kept.history;
    const steps = isSame ? await this.#stepsSince(last.organization.revision, kept) : undefined;
    const followed = { organization: this.#asOfNow(org, kept), steps };
    this.#histories.set(followed, kept.history);
    return followed;
  }

  /** The organization as it was at most so many milliseconds ago; undefined where it is not known here. */
  recent(org: OrganizationId, withinMs: number): Organization | undefined {
    const kept = this.#known(org);
    return kept === undefined || this.#o.monotonic() - kept.readAt > withinMs ? undefined : this.#asOfNow(org, kept);
  }

  /** The organization at this revision or a later one: without a question to the database where it is known here. */
  async atLeast(org: OrganizationId, revision: number): Promise<Organization> {
    const kept = this.#known(org);
    return kept === undefined || kept.model.revision < revision ? this.read(org) : this.#asOfNow(org, kept);
  }

  /** Does work that grows with an organization in short steps. */
  run<T>(steps: Generator<void, T>): Promise<T> {
    return this.#o.slices.run(steps);
  }

  /** For a model of somebody else, such as of a past time. */
  texts(): RecordTexts {
    return new RecordTexts();
  }

  /** For a transaction that holds the organization's head. */
  inTransaction(org: OrganizationId, turn: TransactionTurn = {}): ModelInTransaction {
    return new ModelInTransaction(this, this.#o, { org, ...turn });
  }

  /** What is known of the organization, which may be behind; it is loaded where nothing is. */
  async known(org: OrganizationId): Promise<Kept> {
    return this.#known(org) ?? this.current(org);
  }

  /** Loads the model where it is not known, before a write that needs it takes the lock and a connection that others wait for. */
  async warm(org: OrganizationId): Promise<void> {
    await this.known(org);
  }

  /** The model with everything that was written before this call. */
  async current(org: OrganizationId): Promise<Kept> {
    const readAt = this.#o.monotonic();
    const current = await this.#o.logs.current(org);
    if (current === undefined) throw new StoreError({ code: 'not_found', what: 'organization' });
    const kept = await this.#reach(current.log, current.head.revision);
    kept.readAt = Math.max(kept.readAt, readAt);
    return kept;
  }

  /** Takes the model over from a transaction that is committed. */
  remember(kept: Kept): void {
    const { org } = kept.log;
    kept.usedAt = this.#o.monotonic();
    if (!this.#isCurrent(kept)) return;
    kept.log.sawCommitted(kept.model.revision);
    if ((this.#known(org)?.model.revision ?? 0) >= kept.model.revision) return;
    this.#keep(org, kept);
    this.#letGo(org);
  }

  keeps(org: OrganizationId): boolean {
    return this.#kept.has(org);
  }

  #forget(org: OrganizationId): void {
    this.#characters -= this.#kept.get(org)?.characters ?? 0;
    this.#kept.delete(org);
  }

  #keep(org: OrganizationId, kept: Kept): void {
    this.#forget(org);
    this.#kept.set(org, kept);
    this.#characters += kept.characters;
  }

  #asOfNow(org: OrganizationId, kept: Kept): Organization {
    kept.usedAt = this.#o.monotonic();
    if (this.#kept.get(org) === kept) this.#keep(org, kept);
    return { ...kept.model, at: this.#o.clock() };
  }

  #isCurrent({ log, history }: Kept): boolean {
    return this.#o.logs.get(log.org) === log && log.ring.history === history;
  }

  #known(org: OrganizationId): Kept | undefined {
    const kept = this.#kept.get(org);
    return kept !== undefined && this.#isCurrent(kept) ? kept : undefined;
  }

  /** At this revision of the log or a later one. Callers that come together share the work. */
  async #reach(log: FollowedLog, revision: number): Promise<Kept> {
    const { ring } = log;
    // Where the log starts over at an earlier revision, there is no more than that.
    const suffices = (kept: Kept): boolean =>
      kept.history === ring.history && kept.model.revision >= Math.min(revision, ring.head);
    for (let known = this.#kept.get(log.org); ; known = await this.#moveInTurn(log)) {
      if (known !== undefined && suffices(known)) return known;
    }
  }

  #moveInTurn(log: FollowedLog): Promise<Kept> {
    const under = this.#moving.get(log);
    if (under !== undefined) return under;
    const moving = this.#move(log).finally(() => this.#moving.delete(log));
    this.#moving.set(log, moving);
    return moving;
  }

  /** To the head of the log. */
  async #move(log: FollowedLog): Promise<Kept> {
    const { org, ring } = log;
    const known = this.#kept.get(org);
    const canFollow = known?.history === ring.history && ring.covers(known.model.revision);
    const found = canFollow ? await this.#folded(known) : await this.#load(log);
    // A transaction may have taken the model further meanwhile.
    const newest = this.#known(org);
    if (newest !== undefined && newest.model.revision >= found.model.revision) return newest;
    found.usedAt = this.#o.monotonic();
    this.#keep(org, found);
    this.#letGo(org);
    return found;
  }

  /** With what its log, which covers it, has since. */
  async #folded(kept: Kept): Promise<Kept> {
    const { model, log } = kept;
    const revision = Math.max(model.revision, log.ring.head);
    const changes: OrganizationChange[] = [];
    await this.#o.slices.each(log.ring.after(model.revision), (frame) => {
      const change = changeInFrame(frame, kept.texts);
      if (change !== undefined) changes.push(change);
    });
    return { ...kept, model: overlay(model, changes, { revision }), characters: kept.texts.characters };
  }

  /** What a reader that saw the model at this revision has missed; undefined where the log no longer reaches back that far. */
  async #stepsSince(revision: number, kept: Kept): Promise<readonly OrganizationStep[] | undefined> {
    const { model, log } = kept;
    if (revision >= model.revision) return [];
    if (!this.#isCurrent(kept) || !log.ring.covers(revision) || log.ring.head < model.revision) return undefined;
    const steps: OrganizationStep[] = [];
    // What the model has as well is let go at once.
    const texts = new RecordTexts();
    await this.#o.slices.each(log.ring.after(revision), (frame) => {
      const change = frame.revision > model.revision ? undefined : changeInFrame(frame, texts);
      if (change !== undefined) steps.push({ revision: frame.revision, change: sharedWith(model, change) });
    });
    return steps;
  }

  /** A record that changes during the read is read in its new state. The log repeats the change afterwards. */
  async #load(log: FollowedLog): Promise<Kept> {
    const { logs, source, slices, monotonic } = this.#o;
    const { org, ring } = log;
    for (let tries = 0; tries < 3; tries += 1) {
      const { head: revision, history } = ring;
      const readAt = monotonic();
      const changes: OrganizationChange[] = [];
      const texts = new RecordTexts();
      for (const projection of ['device', 'security-groups'] as const) {
        for (let after: number | undefined = 0; after !== undefined;) {
          const asked = { projection, after, bytes: pageBytes, deletions: false } as const;
          const { entries, through }: StatePage = await source.readState(org, asked);
          await slices.each(entries, ({ kind, id, json }) => {
            if (kind !== 'organization') changes.push(texts.changeOf(kind, id, json));
          });
          after = through;
        }
      }
      if ((await logs.current(org))?.log !== log) break;
      if (ring.history !== history || !ring.covers(revision)) continue;
      const model = overlay(emptyOrganization, changes, { revision });
      return this.#folded({ model, log, history, characters: texts.characters, texts, readAt, usedAt: readAt });
    }
    throw new StoreError({ code: 'unavailable' });
  }

  #letGo(used: OrganizationId): void {
    const now = this.#o.monotonic();
    for (const [org, kept] of this.#kept) {
      if (now - kept.usedAt <= lingerMs && this.#characters <= mostCharacters) break;
      if (org !== used) this.#forget(org);
    }
    // Changes from the log count too: a model that grew beyond the limit is loaded again next time.
    const { characters = 0, texts } = this.#kept.get(used) ?? {};
    if (characters > mostCharacters || (texts?.size ?? 0) > mostInFile) this.#forget(used);
  }
}

/** Milliseconds of work with the model that a transaction does without a turn. */
const briefMs = 25;

/** Whether what is worked out in a transaction may take long: it has a connection, of which there are few. */
interface TransactionTurn {
  readonly hasTurn?: boolean;
  /** What ends work that takes long without a turn; absent where it may. */
  readonly needsTurn?: () => Error;
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
  readonly #needsTurn: TransactionTurn['needsTurn'];
  #workedMs = 0;
  #known: KeptAtVersion | undefined;
  #head: { readonly revision: number; readonly era: string } | undefined;
  /** What the transaction has written since, and nobody has looked at yet. */
  #changes: Entry[] = [];

  constructor(
    models: OrganizationModels,
    options: ModelsOptions,
    { org, hasTurn = false, needsTurn }: TransactionTurn & { readonly org: OrganizationId },
  ) {
    this.hasTurn = hasTurn;
    this.#needsTurn = needsTurn;
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
    if (this.#known !== undefined) return;
    this.#changes = [];
    this.#head = undefined;
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

  /** Does work that grows with the organization in short steps. Where that takes long, the transaction needs a turn. */
  run<T>(steps: Generator<void, T>): Promise<T> {
    return this.#o.slices.run(
      this.hasTurn || this.#needsTurn === undefined ? steps : this.#briefly(steps, this.#needsTurn),
    );
  }

  *#briefly<T>(steps: Generator<void, T>, needsTurn: () => Error): Generator<void, T> {
    const { monotonic } = this.#o;
    for (;;) {
      const begun = monotonic();
      const step = steps.next();
      this.#workedMs += monotonic() - begun;
      if (step.done === true) return step.value;
      if (this.#workedMs > briefMs) throw needsTurn();
      yield;
    }
  }

  /** The head that the transaction found is known: a model that shows it needs no look at the log. */
  startsAt(head: { readonly revision: number; readonly era: string }): void {
    this.#head = head;
  }

  async read(tx: Runner): Promise<Organization> {
    this.#known ??= await this.#begin(tx);
    this.#known = this.#folded(this.#known);
    return { ...this.#known.model, at: this.#o.clock() };
  }

  /** As the database shows it to the transaction. */
  async #begin(tx: Runner): Promise<KeptAtVersion> {
    for (let kept = await this.#models.known(this.#org), isLast = false; ; isLast = true) {
      const known = { ...kept, version: kept.log.versionOf(kept.history) };
      const { revision, era = '-' } = this.#head ?? {};
      if (known.model.revision === revision && known.version?.endsWith(era) === true) return known;
      const reached = await this.#follow(tx, known);
      if (reached !== undefined) return reached;
      if (isLast) throw new StoreError({ code: 'unavailable' }, { message: 'the change log has moved on too far' });
      // Perhaps another history, or the log no longer reaches back to what is known.
      kept = await this.#models.current(this.#org);
    }
  }

  /** At the head, in parts; undefined where the log does not lead there. */
  async #follow(tx: Runner, known: KeptAtVersion): Promise<KeptAtVersion | undefined> {
    const rows = await tx.run(readLogged, [this.#org, known.model.revision, bytesAtOnce]);
    const head = rows.find(({ version }) => version !== null);
    if (head === undefined) throw new StoreError({ code: 'not_found', what: 'organization' });
    if (head.version !== known.version || head.revision < known.model.revision) return undefined;
    if (head.revision === known.model.revision) return known;
    const next = await this.#followed(known, rows);
    return next === undefined || next.model.revision === head.revision ? next : this.#follow(tx, next);
  }

  /** Undefined where the log has a hole. */
  async #followed(known: KeptAtVersion, rows: readonly LoggedRow[]): Promise<KeptAtVersion | undefined> {
    const logged: Logged[] = [];
    let last = known.model.revision;
    await this.#o.slices.each(rows, (row) => {
      const { body, identity, revision } = row;
      if (row.version !== null) return;
      const json = withRevision(body, revision);
      logged.push({ ...row, json, identity: identity === null ? undefined : withRevision(identity, revision) });
      last = revision;
    });
    const revision = known.model.revision + logged.length;
    if (logged.length === 0 || last !== revision) return undefined;
    return { ...known, ...advanced(known, logged, revision) };
  }

  /** With what the transaction has written. */
  #folded(known: KeptAtVersion): KeptAtVersion {
    const entries = this.#changes;
    const revision = entries.at(-1)?.revision;
    if (revision === undefined) return known;
    this.#changes = [];
    return { ...known, ...advanced(known, entries, revision) };
  }

  /** The transaction is committed: what it saw may be known to others. */
  committed(): void {
    if (this.#known !== undefined) this.#models.remember(this.#folded(this.#known));
  }
}
