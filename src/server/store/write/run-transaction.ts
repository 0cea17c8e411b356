/**
 * Owns how one write runs under the organization's lock: first the check of its right, then the write, with policy tests before and after.
 *
 * Two kinds of write:
 * - `record`: decided from the records that it names, in this process. What it writes is appended together with that of the writes beside it.
 * - `transaction`: several statements with decisions in between; beside others behind a savepoint. Its right is checked first.
 */
import type { Caller } from '../../../organization/decide/caller.ts';
import type { OrganizationId } from '../../../policy/ids.ts';
import type { Actor } from '../data/actor.ts';
import { refuse, StoreError } from '../../problems.ts';
import type { ModelInTransaction } from '../model/organizations.ts';
import type { Runner } from '../postgres/connection.ts';
import { isPassing } from '../postgres/failure.ts';
import { statement } from '../postgres/sql.ts';
import type { Deciding } from './records/deciding.ts';
import type { Records } from './records/records.ts';
import { callersOf, heldRight, type Asked } from './caller.ts';
import type { CallerRow, Known } from './known.ts';
import { acceptByWriting } from './members.ts';
import { checkTime } from './right.ts';
import { now } from './stamp.ts';
import { NeedsTurn } from './turns.ts';
import { isChecked, type WriteCheckSession } from './write-check.ts';

/** An organization whose head this transaction holds. */
export interface Locked {
  readonly org: OrganizationId;
  readonly tx: Runner;
  /** The head at the start of the write. */
  readonly head: number;
  /** Who writes, as it was before the write. */
  readonly caller: Caller;
  /** The organization as the transaction sees it. */
  readonly model: ModelInTransaction;
  readonly records: Records;
}

export interface TransactionWrite<T> {
  readonly kind: 'transaction';
  readonly by: Actor;
  /** Its own statements only read, as far as can be told: what it writes are records. Then it may do without the lock. */
  readonly onlyReads?: boolean;
  readonly run: (locked: Locked) => Promise<T>;
}

/** What a decision looks at. */
export interface Needs {
  readonly groups?: readonly string[];
  readonly devices?: readonly string[];
  /** Digests of public keys. */
  readonly keys?: readonly string[];
  /** Whom a new record is to belong to. */
  readonly whose?: string | undefined;
  /** How many address ranges all groups of the organization name. */
  readonly ranges?: boolean;
}

/** With how many address ranges all groups of the organization name, where it needs them. It counts on. */
export type DecidingAlone = Deciding & { readonly ranges: { all: number } };

export interface RecordWrite<T> {
  readonly kind: 'record';
  readonly by: Actor;
  readonly needs: Needs;
  /** Characters that it writes, about. */
  readonly size: number;
  readonly decide: (deciding: DecidingAlone) => T;
}

export type Write<T> = RecordWrite<T> | TransactionWrite<T>;

export type Outcome = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly cause: unknown };

export const gone = (): StoreError => new StoreError({ code: 'not_found', what: 'organization' });

/** Takes a dry run back once everything has judged it, with what it would have answered. */
export class DryRunResult extends StoreError {
  readonly value: unknown;

  constructor(value: unknown) {
    super({ code: 'unexpected' }, { message: 'a dry run was taken back' });
    this.value = value;
  }
}

/** Thrown where a write that was to be decided without the lock needs it. */
export class NeedsLock extends Error {
  constructor() {
    super('this write takes the lock');
    this.name = 'NeedsLock';
  }
}

export type DecidingContext = Deciding['context'];

/** Values: organization. */
const sumRanges = statement<{ ranges: number }>(
  'sum_ranges',
  'SELECT coalesce(sum(inbound_ranges + outbound_ranges), 0)::integer AS ranges FROM security_groups WHERE org_id = $1',
);

export const rangesOfAll = async (tx: Runner, org: string): Promise<number> =>
  (await tx.run(sumRanges, [org]))[0]?.ranges ?? 0;

/** A decision inside a transaction that does more. The right of the whole was judged before it, and so was that of the record. */
export async function decidingIn(
  context: DecidingContext,
  { tx, org, records, caller: writer }: Pick<Locked, 'tx' | 'org' | 'records' | 'caller'>,
  by: Actor,
  { whose }: Pick<Needs, 'whose'> = {},
): Promise<Deciding & { readonly accept: () => Promise<void> }> {
  const at = now(context);
  checkTime(by.right, at);
  const [caller] = whose === undefined ? [writer] : await callersOf(tx, org, at, [{ by, whose }]);
  if (caller === undefined) throw gone();
  let accepts = false;
  return {
    context,
    org,
    records,
    caller,
    by,
    at,
    onAccepting: () => (accepts = true),
    async accept() {
      if (accepts) await acceptByWriting(context, { tx, org, caller }, by);
    },
  };
}

/** The same write as one of several statements. */
export const asTransaction = <T>(
  context: DecidingContext,
  { by, needs, decide }: RecordWrite<T>,
): TransactionWrite<T> => ({
  kind: 'transaction',
  by,
  async run(locked) {
    await locked.records.load(needs);
    const deciding = await decidingIn(context, locked, by, needs);
    const all = needs.ranges === true ? await rangesOfAll(locked.tx, locked.org) : 0;
    const value = decide({ ...deciding, ranges: { all } });
    await deciding.accept();
    return value;
  },
});

const savepoint = statement<never>('savepoint', 'SAVEPOINT write');
const release = statement<never>('release', 'RELEASE SAVEPOINT write');
const undo = statement<never>('undo', 'ROLLBACK TO SAVEPOINT write');

export interface LockedTransaction extends Pick<Locked, 'tx' | 'org' | 'model' | 'records'> {
  readonly check: WriteCheckSession;
  readonly context: DecidingContext;
  /** Without the lock: what was known before. */
  readonly known?: Known;
}

/** Runs a transaction write, if its right holds now. */
async function opened(locked: LockedTransaction, write: TransactionWrite<unknown>): Promise<unknown> {
  const value = await judged(locked, write);
  if (write.by.isDryRun === true) throw new DryRunResult(value);
  await locked.records.flush();
  return value;
}

/** Only an owner skips policy tests. */
function holdSkip({ tests }: Actor, { role }: Caller): void {
  if (tests === 'skip' && role !== 'owner') refuse({ code: 'forbidden' });
}

async function judged(
  { tx, org, check, model, records, context, known }: LockedTransaction,
  write: TransactionWrite<unknown>,
): Promise<unknown> {
  const { run, by } = write;
  const { caller, accepts } = await heldRight(context, { tx, org, records, known }, by);
  holdSkip(by, caller);
  // Before the write, so that it is judged as by an owner who counts. A refusal takes both back.
  if (accepts || by.tests === 'skip') await acceptByWriting(context, { tx, org, caller }, by);
  const locked: Locked = { org, tx, head: records.revision, caller, model, records };
  if (!records.hasTests || !isChecked(by)) return run(locked);
  await check.before(tx);
  const value = await run(locked);
  await check.after(tx);
  return value;
}

/** Alone in its transaction, which is taken back where the write is refused or fails. */
export const runAlone = async (locked: LockedTransaction, write: TransactionWrite<unknown>): Promise<Outcome> => ({
  ok: true,
  value: await opened(locked, write),
});

/** Behind a savepoint: refused or failed, it leaves no trace in the transaction it shares. */
export async function runContained(locked: LockedTransaction, write: TransactionWrite<unknown>): Promise<Outcome> {
  const { tx, records } = locked;
  const mark = records.mark();
  await tx.run(savepoint, []);
  try {
    const value = await opened(locked, write);
    await tx.run(release, []);
    return { ok: true, value };
  } catch (cause) {
    // With a turn, all of them run again.
    if (isPassing(cause) || cause instanceof NeedsTurn) throw cause;
    await tx.run(undo, []);
    records.reset(mark);
    return { ok: false, cause };
  }
}

/** Without the lock: what it writes stays in memory, and nothing of it where it is refused. */
export async function runInMemory(locked: LockedTransaction, write: TransactionWrite<unknown>): Promise<Outcome> {
  const mark = locked.records.mark();
  try {
    const value = await judged(locked, write);
    if (write.by.isDryRun === true) throw new DryRunResult(value);
    return { ok: true, value };
  } catch (cause) {
    if (!(cause instanceof StoreError) || isPassing(cause)) throw cause;
    locked.records.reset(mark);
    return { ok: false, cause };
  }
}

export const askedBy = ({ by, needs }: RecordWrite<unknown>): Asked => ({ by, whose: needs.whose });

export const wantedBy = (writes: readonly RecordWrite<unknown>[]): Parameters<Records['load']>[0] => ({
  groups: writes.flatMap(({ needs }) => needs.groups ?? []),
  devices: writes.flatMap(({ needs }) => needs.devices ?? []),
  keys: writes.flatMap(({ needs }) => needs.keys ?? []),
});

export const needsRanges = (writes: readonly RecordWrite<unknown>[]): boolean =>
  writes.some(({ needs }) => needs.ranges === true);

/** What all writes of a transaction look at, besides records. */
interface Looked {
  readonly callers: readonly (CallerRow | undefined)[];
  readonly ranges: DecidingAlone['ranges'];
}

/** Reads what the writes look at, under the lock. */
export async function look(
  { tx, org, records, context }: LockedTransaction,
  writes: readonly RecordWrite<unknown>[],
): Promise<Looked> {
  const [callers, all] = await Promise.all([
    callersOf(tx, org, now(context), writes.map(askedBy)),
    needsRanges(writes) ? rangesOfAll(tx, org) : 0,
    records.load(wantedBy(writes)),
  ]);
  return { callers, ranges: { all } };
}

/** Decides writes one after the other. What one is refused, or a dry run, leaves no trace; what they leave is not flushed. */
export async function decideAll(
  locked: Omit<LockedTransaction, 'model'>,
  writes: readonly RecordWrite<unknown>[],
  { callers, ranges }: Looked,
): Promise<readonly Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const [index, write] of writes.entries()) {
    const caller = callers[index];
    if (caller === undefined) throw gone();
    outcomes.push(await decideOne(locked, write, { caller, ranges }));
  }
  return outcomes;
}

interface Facts {
  readonly caller: Caller;
  readonly ranges: DecidingAlone['ranges'];
}

async function decideOne(
  { tx, org, records, check, context }: Omit<LockedTransaction, 'model'>,
  { by, decide }: RecordWrite<unknown>,
  { caller, ranges }: Facts,
): Promise<Outcome> {
  const mark = records.mark();
  let accepts = false;
  const attempt = (): unknown =>
    decide({
      context,
      org,
      records,
      caller,
      by,
      at: now(context),
      onAccepting: () => (accepts = true),
      ranges,
    });
  try {
    checkTime(by.right, now(context));
    let value = attempt();
    const isPolicy = (): boolean =>
      records.entries
        .slice(mark.entries)
        .some(({ kind, identity }) => kind === 'security-groups' || identity !== undefined);
    if (records.hasTests && isPolicy()) {
      if (by.tests === 'skip') {
        holdSkip(by, caller);
        accepts = true;
      } else if (isChecked(by)) {
        records.reset(mark);
        await check.before(tx);
        value = attempt();
        await check.after(tx);
      }
    }
    if (by.isDryRun === true) throw new DryRunResult(value);
    if (accepts) await acceptByWriting(context, { tx, org, caller }, by);
    return { ok: true, value };
  } catch (cause) {
    if (isPassing(cause) || cause instanceof NeedsTurn || cause instanceof NeedsLock) throw cause;
    records.reset(mark);
    return { ok: false, cause };
  }
}
