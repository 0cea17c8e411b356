/**
 * Owns the records of one transaction that holds the organization's head: what it looks at, and what it leaves. A write puts and removes records here, each with
 * the next revision; `flush` appends all of it to the database. What was not flushed is taken back without asking anybody.
 *
 *     await records.load({ groups: [id] });
 *     const group = records.group(id);
 *     records.putGroup({ ...group.record, group_name: 'web' }, { by, at });
 *     await records.flush();
 */
import { createHash } from 'node:crypto';
import { differIn, identityFields, listedBy, policyFields } from '../../../../organization/decide/device.ts';
import type { DeviceContent, Draft, GroupContent, Made } from '../../../../organization/decide/records.ts';
import { countNamed } from '../../../../organization/read-records.ts';
import type { WatchKind } from '../../../../api/kinds.ts';
import type { Entry } from '../../data/change-log.ts';
import { refuse } from '../../../problems.ts';
import type { ModelInTransaction } from '../../model/organizations.ts';
import type { Runner } from '../../postgres/connection.ts';
import { withRevision, type Statement, type Value } from '../../postgres/sql.ts';
import {
  appendOrganization,
  appends,
  inOrder,
  loadDevices,
  loadGroups,
  loadKeys,
  moveHead,
  type Head,
  type Place,
} from '../append.ts';
import { auditRows, insertAudit } from '../audit-entry.ts';
import type { Known } from '../known.ts';
import type { WrittenHead } from '../../schema/history-guard.ts';
import { deviceContent, identityContent } from './device-text.ts';
import { groupContent } from './group-text.ts';
import { isKnownRecord } from './newer.ts';
import { DeviceState, GroupState } from './states.ts';

export type { DeviceState, GroupState };

/** What makes a public key unique within its organization. */
export const keyDigest = (org: string, key: string): string =>
  createHash('sha256').update(`${org}\n${key}`).digest('hex');

/** An organization's head: as it was locked, or as it must still be when what is written is appended. */
export type HeadBefore = Omit<Head, 'era'>;

/** One entry that was not appended yet. `columns`: what its row says, as JSON text without braces. */
interface Written {
  readonly kind: WatchKind | 'organization';
  readonly id: string;
  readonly entry: Entry;
  readonly columns: string;
  readonly body: string;
  readonly identity?: string | undefined;
}

/** A record of one kind may have the id of a record of another. */
const keyOf = ({ kind, id }: Pick<Written, 'kind' | 'id'>): string => `${kind} ${id}`;

export interface Mark {
  readonly undo: number;
  readonly flushes: number;
  readonly head: HeadBefore;
  readonly counts: HeadBefore;
  readonly written: number;
  readonly entries: number;
  readonly notes: number;
  readonly besides: number;
  readonly model: ReturnType<ModelInTransaction['mark']> | undefined;
}

interface Wanted {
  readonly groups?: Iterable<string>;
  readonly devices?: Iterable<string>;
  /** Digests of public keys. */
  readonly keys?: Iterable<string>;
}

const bodyOf = (content: object): string => JSON.stringify(content).slice(0, -1);

const sumOf = (...lists: readonly (readonly unknown[] | undefined)[]): number =>
  lists.reduce((sum, list) => sum + (list?.length ?? 0), 0);

interface Sent<Row> {
  readonly statement: Statement<Row>;
  readonly values: readonly Value[];
}

/** The audit and the head were sent already. */
const none: readonly Value[] = [null, null, null, null, null, null, null];

export class Records implements Draft {
  readonly #tx: Runner;
  readonly #org: string;
  readonly #model: ModelInTransaction | undefined;
  /** What was known before, of the same version of the head. */
  readonly #known: Known | undefined;
  /** The records that are known; undefined where there is none. */
  readonly #groups = new Map<string, GroupState | undefined>();
  readonly #devices = new Map<string, DeviceState | undefined>();
  readonly #keys = new Map<string, string | undefined>();
  /** What takes back what was done since the last flush, in the order in which it was done. */
  #undo: (() => void)[] = [];
  #flushes = 0;
  /** As the database has it. */
  #head: HeadBefore = { revision: 0, version: 0, devices: 0, groups: 0, has_tests: false };
  /** With what was not flushed yet. */
  #counts: HeadBefore = this.#head;
  #written: Written[] = [];
  #entries: Entry[] = [];
  #notes: string[] = [];
  #besides: Sent<unknown>[] = [];
  /** Since the last flush: which records the database has. */
  readonly #stored = new Map<string, boolean>();
  #era: string | undefined;

  constructor(place: {
    readonly tx: Runner;
    readonly org: string;
    readonly model?: ModelInTransaction | undefined;
    readonly known?: Known | undefined;
  }) {
    this.#tx = place.tx;
    this.#org = place.org;
    this.#model = place.model;
    this.#known = place.known;
    if (place.known !== undefined) this.begin(place.known.head);
  }

  /** The head as it is: locked, or as it must still be when what is written here is appended. */
  begin(head: HeadBefore): void {
    this.#head = head;
    this.#counts = head;
  }

  /** Statements that do not go through here have written: what was read is to be read again. */
  forget(): void {
    for (const known of [this.#groups, this.#devices, this.#keys]) known.clear();
  }

  /** The newest revision, with what was not flushed yet. */
  get revision(): number {
    return this.#counts.revision;
  }

  countOf(what: 'devices' | 'groups'): number {
    return this.#counts[what];
  }

  get hasTests(): boolean {
    return this.#counts.has_tests;
  }

  /** The policy tests were replaced, by a statement of the transaction. */
  setTests(has_tests: boolean): void {
    this.#head = { ...this.#head, has_tests };
    this.#counts = { ...this.#counts, has_tests };
  }

  /** What was written so far, in the order of revisions. */
  get entries(): readonly Entry[] {
    return this.#entries;
  }

  /** The head that was reached, where anything was written. */
  get reached(): WrittenHead | undefined {
    return this.#flushes === 0 ? undefined : { revision: this.#head.revision, era: this.#era };
  }

  /** Whether all of it is known, so that nothing is to be read. */
  has(wanted: Wanted): boolean {
    return Object.values(this.#unknown(wanted)).every((ids) => ids.length === 0);
  }

  #unknown({ groups = [], devices = [], keys = [] }: Wanted) {
    const unknown = <T>(ids: Iterable<string>, here: Map<string, T>, before?: ReadonlyMap<string, T>): string[] => {
      const asked = new Set<string>();
      for (const id of ids) {
        if (here.has(id)) continue;
        const state = before?.get(id);
        if (state === undefined) asked.add(id);
        else here.set(id, state);
      }
      return [...asked];
    };
    return {
      groupIds: unknown(groups, this.#groups, this.#known?.groups),
      deviceIds: unknown(devices, this.#devices, this.#known?.devices),
      digests: unknown(keys, this.#keys),
    };
  }

  /** Reads what is not known yet. */
  async load(wanted: Wanted): Promise<void> {
    const { groupIds, deviceIds, digests } = this.#unknown(wanted);
    const [groupRows, deviceRows, keyRows] = await Promise.all([
      groupIds.length === 0 ? [] : this.#tx.run(loadGroups, [this.#org, groupIds]),
      deviceIds.length === 0 ? [] : this.#tx.run(loadDevices, [this.#org, deviceIds]),
      digests.length === 0 ? [] : this.#tx.run(loadKeys, [digests]),
    ]);
    for (const id of groupIds) this.#groups.set(id, undefined);
    for (const { is_applied, left_at, ...row } of groupRows)
      this.#groups.set(row.id, new GroupState({ ...row, isApplied: is_applied, leftAt: left_at }));
    for (const id of deviceIds) this.#devices.set(id, undefined);
    for (const row of deviceRows) this.#devices.set(row.id, new DeviceState(row));
    for (const digest of digests) this.#keys.set(digest, undefined);
    for (const { id, digest } of keyRows) this.#keys.set(digest, id);
  }

  /** One that was loaded; undefined where the organization has none. */
  group(id: string): GroupState | undefined {
    if (!this.#groups.has(id)) throw new Error(`the group ${id} was not loaded`);
    return this.#groups.get(id);
  }

  device(id: string): DeviceState | undefined {
    if (!this.#devices.has(id)) throw new Error(`the device ${id} was not loaded`);
    return this.#devices.get(id);
  }

  /** The digest of the key was loaded. */
  hasKey(publicKey: string, except?: string): boolean {
    const digest = keyDigest(this.#org, publicKey);
    if (!this.#keys.has(digest)) throw new Error('the public key was not loaded');
    const holder = this.#keys.get(digest);
    return holder !== undefined && holder !== except;
  }

  isKnown(what: 'device' | 'group', record: object): boolean {
    return isKnownRecord(what, record);
  }

  /** A state of a group, new or changed. `isApplied` and `leftAt` as before where they are not given. */
  putGroup(
    given: GroupContent,
    { by, at }: Made,
    view: { readonly isApplied?: boolean; readonly leaves?: boolean } = {},
  ): GroupState {
    const record = groupContent(given);
    const { id } = record;
    const before = this.#groups.get(id);
    const revision = this.#next(before === undefined ? { groups: 1 } : {});
    const state = new GroupState({
      id,
      revision,
      body: bodyOf(record),
      record,
      born: before?.born ?? revision,
      isApplied: view.isApplied ?? before?.isApplied ?? false,
      leftAt: view.leaves === true ? revision : (before?.leftAt ?? 0),
    });
    this.#set(this.#groups, id, state);
    this.#write('security-groups', before, state, {
      ...this.#common(state, 'change', { by, at, isKept: true }),
      ...this.#groupColumns(state),
    });
    return state;
  }

  removeGroup(id: string, made: Made): GroupState {
    const before = this.group(id);
    if (before === undefined) return refuse({ code: 'not_found', what: 'group' });
    const revision = this.#next({ groups: -1 });
    const { body, record, born, isApplied, leftAt } = before;
    const last = new GroupState({ id, revision, body, record, born, isApplied, leftAt });
    this.#set(this.#groups, id, undefined);
    this.#write('security-groups', before, last, {
      ...this.#common(last, 'delete', { ...made, isKept: true }),
      ...this.#groupColumns(last),
    });
    return last;
  }

  /** `isKept`, `isIdentity`: history and view take it in any case. */
  putDevice(
    given: DeviceContent,
    { by, at }: Made,
    always: { readonly isKept?: boolean; readonly isIdentity?: boolean } = {},
  ): DeviceState {
    const record = deviceContent(given);
    const { id } = record;
    const before = this.#devices.get(id);
    const isKept = always.isKept === true || before === undefined || differIn(record, before.record, policyFields);
    const isIdentity =
      always.isIdentity === true || before === undefined || differIn(record, before.record, identityFields);
    const revision = this.#next(before === undefined ? { devices: 1 } : {});
    const state = new DeviceState({ id, revision, body: bodyOf(record), record, born: before?.born ?? revision });
    this.#set(this.#devices, id, state);
    const oldKey = before?.record.public_key;
    const digest = oldKey === record.public_key ? undefined : keyDigest(this.#org, record.public_key);
    if (digest !== undefined) {
      if (oldKey !== undefined) this.#set(this.#keys, keyDigest(this.#org, oldKey), undefined);
      this.#set(this.#keys, digest, id);
    }
    this.#write(
      'device',
      before,
      state,
      {
        ...this.#common(state, 'change', { by, at, isKept }),
        ...this.#deviceColumns(record),
        ...(digest !== undefined && { key_digest: `\\x${digest}` }),
      },
      isIdentity ? bodyOf(identityContent(record)) : undefined,
    );
    return state;
  }

  removeDevice(id: string, made: Made): DeviceState {
    const before = this.device(id);
    if (before === undefined) return refuse({ code: 'not_found', what: 'device' });
    const revision = this.#next({ devices: -1 });
    const { body, record, born } = before;
    const last = new DeviceState({ id, revision, body, record, born });
    this.#set(this.#devices, id, undefined);
    this.#set(this.#keys, keyDigest(this.#org, record.public_key), undefined);
    const columns = this.#common(last, 'delete', { ...made, isKept: true });
    this.#write('device', before, last, columns, bodyOf(identityContent(record)));
    return last;
  }

  /** The organization itself has changed. */
  logOrganization(): number {
    const revision = this.#next({});
    const [kind, id] = ['organization', this.#org] as const;
    const body = `{"id":"${id}"`;
    const entry: Entry = {
      revision,
      kind,
      type: 'change',
      id,
      json: withRevision(body, revision),
      only_for: undefined,
      left_at: 0,
    };
    this.#written.push({ kind, id, entry, columns: '', body });
    this.#entries.push(entry);
    this.#model?.changed(entry);
    return revision;
  }

  /** An entry for the audit, of `auditRow`. */
  note(row: string): void {
    this.#notes.push(row);
  }

  /** A statement that comes after the records are written. */
  also(statement: Statement<unknown>, values: readonly Value[]): void {
    this.#besides.push({ statement, values });
  }

  /** Gives what is known of the organization to who decides next: as of the version that was reached. */
  teach(known: Known): void {
    known.take(known.groups, this.#groups);
    known.take(known.devices, this.#devices);
    known.head = { ...known.head, ...this.#head, ...(this.#era !== undefined && { era: this.#era }) };
  }

  /** Where to `reset` to. Behind a savepoint everything is to be flushed before. */
  mark(): Mark {
    return {
      undo: this.#undo.length,
      flushes: this.#flushes,
      head: this.#head,
      counts: this.#counts,
      written: this.#written.length,
      entries: this.#entries.length,
      notes: this.#notes.length,
      besides: this.#besides.length,
      model: this.#model?.mark(),
    };
  }

  /** Takes back what came after the mark: what was flushed since, the transaction has taken back. */
  reset(mark: Mark): void {
    if (mark.flushes === this.#flushes) {
      for (const undo of this.#undo.splice(mark.undo).toReversed()) undo();
      this.#written.length = mark.written;
      this.#notes.length = mark.notes;
      this.#besides.length = mark.besides;
    } else {
      for (const known of [this.#groups, this.#devices, this.#keys, this.#stored]) known.clear();
      this.#undo = [];
      this.#written = [];
      this.#notes = [];
      this.#besides = [];
      this.#flushes = mark.flushes;
    }
    this.#head = mark.head;
    this.#counts = mark.counts;
    this.#entries.length = mark.entries;
    if (mark.model !== undefined) this.#model?.reset(mark.model);
  }

  /** Appends what was written since the last flush. */
  flush(): Promise<void> {
    return this.send().done;
  }

  /** The same, with how many statements are under way. */
  send(): { readonly statements: number; readonly done: Promise<void> } {
    const statements = this.#statements({ credentials: null });
    if (statements.length === 0) return { statements: 0, done: Promise.resolve() };
    const sent = statements.map(({ statement, values }) => this.#tx.run(statement, values));
    const isMoved = this.#written.length > 0;
    this.#flushed(isMoved);
    const done = Promise.all(sent).then(([first]) => {
      if (isMoved) this.#reach(first?.[0] as WrittenHead | undefined);
      this.#model?.flushed();
    });
    return { statements: statements.length, done };
  }

  /**
   * Appends it by one statement without a lock: only if the organization still is as it was when this began, and these credentials still hold.
   * False: nothing was appended. It may be that one statement does not do, or that there is nothing.
   */
  async appendIf(
    connection: Runner,
    { credentials, era }: { readonly credentials: string; readonly era: string },
  ): Promise<boolean> {
    if (this.#written.length === 0) return false;
    const [one, ...others] = this.#statements({ credentials, era });
    if (one === undefined || others.length > 0) return false;
    const [moved] = await connection.run(one.statement, one.values);
    if (moved === undefined) return false;
    this.#flushed(true);
    this.#reach(moved as WrittenHead);
    return true;
  }

  /** What was written is to be appended in this order. */
  #statements({
    credentials,
    era = null,
  }: {
    readonly credentials: string | null;
    readonly era?: string | null;
  }): Sent<unknown>[] {
    const written = this.#written;
    const audit = this.#notes.length === 0 ? null : auditRows(this.#notes);
    const { revision, devices, groups } = this.#counts;
    const head = this.#head;
    if (revision !== head.revision + written.length) throw new Error('revisions have gaps');
    const move = [head.version, era, credentials, written.length, devices - head.devices, groups - head.groups];
    const records = this.#appends(written);
    // The head moves with the first entries, and the audit is written with them.
    const sent: Sent<unknown>[] = records.map(({ statement, values }, index) => ({
      statement,
      values: [...values, ...(index === 0 ? [audit, ...move] : none)],
    }));
    if (records.length === 0 && written.length > 0) sent.push({ statement: moveHead, values: [this.#org, ...move] });
    if (records.length === 0 && audit !== null) sent.push({ statement: insertAudit, values: [audit] });
    for (const { kind, entry } of written)
      if (kind === 'organization') sent.push({ statement: appendOrganization, values: [this.#org, entry.revision] });
    return [...sent, ...this.#besides];
  }

  /** What was written is sent. */
  #flushed(isMoved: boolean): void {
    this.#written = [];
    this.#notes = [];
    this.#besides = [];
    this.#undo = [];
    this.#stored.clear();
    this.#flushes += 1;
    this.#counts = { ...this.#counts, version: this.#head.version + (isMoved ? 1 : 0) };
    this.#head = this.#counts;
  }

  #reach(moved: WrittenHead | undefined): void {
    if (moved === undefined) throw new Error('the head is another one under the lock');
    const { era } = moved;
    if (era === undefined) return;
    this.#era = era;
    for (let index = this.#entries.length - 1; index >= 0 && this.#entries[index]?.era === undefined; index -= 1)
      this.#entries[index] = { ...(this.#entries[index] as Entry), era };
  }

  /** Groups before the devices that list them; what goes, the other way round. */
  #appends(written: readonly Written[]): Sent<WrittenHead>[] {
    const lastOf = new Map<string, Written>();
    const lastIdentityOf = new Map<string, Written>();
    for (const one of written) {
      lastOf.set(keyOf(one), one);
      if (one.identity !== undefined && one.entry.type === 'change') lastIdentityOf.set(one.id, one);
    }
    const stays = (one: Written): boolean => lastOf.get(keyOf(one))?.entry.type === 'change';
    const placeOf = (one: Written): Place => {
      const isThere = this.#stored.get(keyOf(one)) === true;
      return isThere ? (stays(one) ? 'changed' : 'gone') : stays(one) ? 'new' : 'changed';
    };
    const textOf = (one: Written, place: Place): string => {
      const isLast = lastOf.get(keyOf(one)) === one && (place !== 'changed' || one.entry.type === 'change');
      const isIdentity = lastIdentityOf.get(one.id) === one && stays(one);
      const identity =
        one.identity === undefined ? '' : `,"identity":${one.identity}},"is_identity":${String(isIdentity)}`;
      return `{${one.columns},"is_last":${String(isLast)}${identity},"record":${one.body}}}`;
    };
    const rows = new Map<Statement<WrittenHead>, string[]>();
    for (const one of written) {
      if (one.kind === 'organization') continue;
      const place = placeOf(one);
      const statement = appends[one.kind][place];
      const texts = rows.get(statement);
      if (texts === undefined) rows.set(statement, [textOf(one, place)]);
      else texts.push(textOf(one, place));
    }
    return inOrder.flatMap((statement) => {
      const texts = rows.get(statement);
      return texts === undefined ? [] : [{ statement, values: [this.#org, `[${texts.join(',')}]`] }];
    });
  }

  #next({ devices = 0, groups = 0 }: { readonly devices?: number; readonly groups?: number }): number {
    const counts = this.#counts;
    this.#counts = {
      ...counts,
      revision: counts.revision + 1,
      devices: counts.devices + devices,
      groups: counts.groups + groups,
    };
    return this.#counts.revision;
  }

  #set<T>(map: Map<string, T>, key: string, value: T): void {
    const had = map.has(key);
    const before = map.get(key);
    map.set(key, value);
    this.#undo.push(() => {
      if (had) map.set(key, before as T);
      else map.delete(key);
    });
  }

  #common(
    { id, revision, born, record }: GroupState | DeviceState,
    type: 'change' | 'delete',
    { by, at, isKept }: Made & { readonly isKept: boolean },
  ): object {
    return { id, user_id: record.user_id, revision, type, is_kept: isKept, born, actor: by, at };
  }

  #groupColumns({ onlyFor, leftAt, isApplied, record }: GroupState): object {
    const { inbound_rules = [], outbound_rules = [], applies_to = [], trial } = record;
    const before = trial?.before;
    return {
      only_for: onlyFor,
      left_at: leftAt,
      is_applied: isApplied,
      is_default: record.is_default === true,
      group_name: record.group_name,
      guardrail: record.guardrail,
      mode: record.mode ?? 'enforce',
      inbound_ranges: countNamed(inbound_rules),
      outbound_ranges: countNamed(outbound_rules),
      // What a trial replaced counts too, so that its end never grows.
      rules: sumOf(inbound_rules, outbound_rules, before?.inbound_rules, before?.outbound_rules),
      selectors: sumOf(applies_to, before?.applies_to),
    };
  }

  #deviceColumns(record: DeviceContent): object {
    const { isolated } = record;
    return { listed: listedBy(record), isolated: isolated === undefined ? '' : JSON.stringify(isolated) };
  }

  #write(
    kind: WatchKind,
    before: GroupState | DeviceState | undefined,
    state: GroupState | DeviceState,
    columns: object,
    identity?: string,
  ): void {
    const { id, revision, body } = state;
    const { type } = columns as { readonly type: Entry['type'] };
    const key = keyOf({ kind, id });
    if (!this.#stored.has(key)) this.#stored.set(key, before !== undefined);
    const view =
      state instanceof GroupState
        ? { only_for: (state.onlyFor ?? undefined) as Entry['only_for'], left_at: state.leftAt }
        : { only_for: undefined, left_at: 0 };
    const entry: Entry = {
      revision,
      kind,
      type,
      id,
      json: withRevision(body, revision),
      ...view,
      ...(identity !== undefined && { identity: withRevision(identity, revision) }),
    };
    const given = JSON.stringify(kind === 'device' ? { left_at: 0, ...columns } : columns).slice(1, -1);
    this.#written.push({ kind, id, entry, columns: given, body, identity });
    this.#entries.push(entry);
    this.#model?.changed(entry);
  }
}
