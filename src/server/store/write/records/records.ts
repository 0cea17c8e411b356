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
import { appendOrganization, appends, loadDevices, loadGroups, loadKeys, moveHead, type Place } from '../append.ts';
import { insertAudit } from '../audit-entry.ts';
import type { WrittenHead } from '../../schema/history-guard.ts';
import { deviceContent, identityContent } from './device-text.ts';
import { groupContent } from './group-text.ts';
import { isKnownRecord } from './newer.ts';
import { DeviceState, GroupState } from './states.ts';

export type { DeviceState, GroupState };

/** What makes a public key unique within its organization. */
export const keyDigest = (org: string, key: string): string =>
  createHash('sha256').update(`${org}\n${key}`).digest('hex');

/** An organization's head as it was locked. */
export interface HeadBefore {
  readonly revision: number;
  readonly devices: number;
  readonly groups: number;
  /** Without policy tests, writes pay nothing for them. */
  readonly has_tests: boolean;
}

/** One entry that was not appended yet. `columns`: what its row says, as JSON text without braces. */
interface Written {
  readonly kind: WatchKind | 'organization';
  readonly id: string;
  readonly entry: Entry;
  readonly columns: string;
  readonly body: string;
  readonly identity?: string | undefined;
}

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

type Send = (statement: Statement<unknown>, values: readonly Value[]) => void;

/** The audit and the head were sent already. */
const none: readonly Value[] = [null, null, null, null, null];

export class Records implements Draft {
  readonly #tx: Runner;
  readonly #org: string;
  readonly #model: ModelInTransaction | undefined;
  /** The records that are known; undefined where there is none. */
  readonly #groups = new Map<string, GroupState | undefined>();
  readonly #devices = new Map<string, DeviceState | undefined>();
  readonly #keys = new Map<string, string | undefined>();
  /** What takes back what was done since the last flush, in the order in which it was done. */
  #undo: (() => void)[] = [];
  #flushes = 0;
  /** As the database has it. */
  #head: HeadBefore = { revision: 0, devices: 0, groups: 0, has_tests: false };
  /** With what was not flushed yet. */
  #counts: HeadBefore = this.#head;
  #written: Written[] = [];
  #entries: Entry[] = [];
  #notes: object[] = [];
  #besides: { readonly statement: Statement<unknown>; readonly values: readonly Value[] }[] = [];
  /** Since the last flush: which records the database has. */
  readonly #stored = new Map<string, boolean>();
  #era: string | undefined;

  constructor(place: { readonly tx: Runner; readonly org: string; readonly model?: ModelInTransaction | undefined }) {
    this.#tx = place.tx;
    this.#org = place.org;
    this.#model = place.model;
  }

  /** The head is locked. */
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

  /** Reads what is not known yet. */
  async load({ groups = [], devices = [], keys = [] }: Wanted): Promise<void> {
    const unknown = (ids: Iterable<string>, known: ReadonlyMap<string, unknown>): string[] =>
      [...new Set(ids)].filter((id) => !known.has(id));
    const [groupIds, deviceIds] = [unknown(groups, this.#groups), unknown(devices, this.#devices)];
    const digests = unknown(keys, this.#keys);
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

  /** An entry for the audit. */
  note(row: object): void {
    this.#notes.push(row);
  }

  /** A statement that comes after the records are written. */
  also(statement: Statement<unknown>, values: readonly Value[]): void {
    this.#besides.push({ statement, values });
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

  get isEmpty(): boolean {
    return this.#written.length + this.#notes.length + this.#besides.length === 0;
  }

  /** Appends what was written since the last flush. */
  async flush(): Promise<void> {
    if (this.isEmpty) return;
    const written = this.#written;
    const sent: Promise<unknown>[] = [];
    const send: Send = (statement, values) => void sent.push(this.#tx.run(statement, values));
    let moving: Promise<readonly WrittenHead[]> | undefined;
    /** The head moves with the first entries, and the audit is written with them. */
    let first: readonly Value[] | undefined = this.#headValues(written);
    const append = (statement: Statement<WrittenHead>, values: readonly Value[]): void => {
      const sending = this.#tx.run(statement, [...values, ...(first ?? none)]);
      if (first !== undefined) moving = sending;
      first = undefined;
      sent.push(sending);
    };
    if (written.length > 0) this.#sendRecords(written, append, send);
    if (first !== undefined && written.length > 0) {
      const [audit = null, ...head] = first;
      moving = this.#tx.run(moveHead, [this.#org, ...head]);
      sent.push(moving);
      if (audit !== null) send(insertAudit, [audit]);
    } else if (first !== undefined && this.#notes.length > 0) send(insertAudit, [JSON.stringify(this.#notes)]);
    for (const { statement, values } of this.#besides) send(statement, values);
    this.#written = [];
    this.#notes = [];
    this.#besides = [];
    this.#undo = [];
    this.#stored.clear();
    this.#flushes += 1;
    this.#head = this.#counts;
    await Promise.all(sent);
    const [reached] = (await moving) ?? [];
    if (moving !== undefined && reached === undefined) throw new Error('the head is another one under the lock');
    const era = reached?.era;
    if (era !== undefined) {
      this.#era = era;
      const known = this.#entries.length - written.length;
      this.#entries = this.#entries.map((entry, index) => (index < known ? entry : { ...entry, era }));
    }
    this.#model?.flushed();
  }

  /** The entries of the audit, and how the head moves. */
  #headValues({ length }: readonly Written[]): readonly Value[] {
    const { revision, devices, groups } = this.#counts;
    const head = this.#head;
    if (revision !== head.revision + length) throw new Error('revisions have gaps');
    const audit = this.#notes.length === 0 ? null : JSON.stringify(this.#notes);
    return [audit, head.revision, length, devices - head.devices, groups - head.groups];
  }

  /** Groups before the devices that list them; what goes, the other way round. */
  #sendRecords(
    written: readonly Written[],
    sendEntries: (statement: Statement<WrittenHead>, values: readonly Value[]) => void,
    send: Send,
  ): void {
    const lastOf = new Map<string, Written>();
    const lastIdentityOf = new Map<string, Written>();
    for (const one of written) {
      lastOf.set(`${one.kind} ${one.id}`, one);
      if (one.identity !== undefined && one.entry.type === 'change') lastIdentityOf.set(one.id, one);
    }
    const placeOf = ({ kind, id }: Written): Place => {
      const isThere = this.#stored.get(`${kind} ${id}`) === true;
      const stays = lastOf.get(`${kind} ${id}`)?.entry.type === 'change';
      return isThere ? (stays ? 'changed' : 'gone') : stays ? 'new' : 'changed';
    };
    const append = (kind: WatchKind, place: Place): void => {
      const rows = written.filter((one) => one.kind === kind && placeOf(one) === place);
      if (rows.length === 0) return;
      const texts = rows.map((one) => {
        const isLast = lastOf.get(`${kind} ${one.id}`) === one && (place !== 'changed' || one.entry.type === 'change');
        const identity =
          one.identity === undefined
            ? ''
            : `,"identity":${one.identity}},"is_identity":${String(lastIdentityOf.get(one.id) === one && lastOf.get(`${kind} ${one.id}`)?.entry.type === 'change')}`;
        return `{${one.columns},"is_last":${String(isLast)}${identity},"record":${one.body}}}`;
      });
      sendEntries(appends[kind][place], [this.#org, `[${texts.join(',')}]`]);
    };
    for (const place of ['new', 'changed'] as const) append('security-groups', place);
    for (const place of ['new', 'changed'] as const) append('device', place);
    append('device', 'gone');
    append('security-groups', 'gone');
    for (const { kind, entry } of written)
      if (kind === 'organization') send(appendOrganization, [this.#org, entry.revision]);
  }

  #next({ devices = 0, groups = 0 }: { readonly devices?: number; readonly groups?: number }): number {
    const { revision, ...counts } = this.#counts;
    this.#counts = {
      ...counts,
      revision: revision + 1,
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
    const key = `${kind} ${id}`;
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
