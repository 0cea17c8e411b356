/**
 * Owns writes that take no lock: decided from what this process knows of the organization, and appended by one statement only if the organization
 * still has that version and every credential still holds. Where that does not do, nothing has happened, and the writes run again under the lock:
 * so no refusal is given by what is known alone.
 */
import type { OrganizationId } from '../../../policy/ids.ts';
import type { ModelInTransaction } from '../model/organizations.ts';
import type { Runner } from '../postgres/connection.ts';
import { isPassing } from '../postgres/failure.ts';
import { readHead } from './append.ts';
import { callerKey, callersOf, credentialsOf } from './caller.ts';
import { Known, type KnownOrganizations } from './known.ts';
import { Records } from './records/records.ts';
import {
  askedBy,
  decideAll,
  NeedsLock,
  needsRanges,
  rangesOfAll,
  runInMemory,
  wantedBy,
  type DecidingContext,
  type Outcome,
  type RecordWrite,
  type Write,
} from './run-transaction.ts';
import { now } from './stamp.ts';
import type { WriteCheckSession } from './write-check.ts';

interface Place {
  /** One connection, whose statements see what those before them saw, and maybe more. */
  readonly connection: Runner;
  readonly org: OrganizationId;
  readonly organizations: KnownOrganizations;
  readonly context: DecidingContext;
  readonly model: ModelInTransaction;
  readonly check: WriteCheckSession;
}

const reads = /^\s*SELECT\b(?!.*\bFOR (?:NO KEY )?(?:UPDATE|SHARE|KEY SHARE)\b)/s;

/** Only reads: what else writes than the append needs a transaction. */
const onlyReading = (connection: Runner): Runner => ({
  run: (statement, values) =>
    reads.test(statement.text) ? connection.run(statement, values) : Promise.reject(new NeedsLock()),
});

/** What the writes look at: what is known, and in one message what is not. Undefined: another process has written. */
async function look(
  { connection, org, organizations, context }: Place,
  writes: readonly RecordWrite<unknown>[],
  records: Records,
): Promise<Known | undefined> {
  const before = organizations.get(org);
  const wanted = wantedBy(writes);
  const asked = new Map(writes.map((write) => [callerKey(askedBy(write)), askedBy(write)]));
  for (const key of before?.callers.keys() ?? []) asked.delete(key);
  const ranges = before?.ranges === undefined && needsRanges(writes);
  if (before !== undefined && asked.size === 0 && !ranges && records.has(wanted)) return before;
  const [[head], callers, all] = await Promise.all([
    connection.run(readHead, [org]),
    callersOf(connection, org, now(context), [...asked.values()]),
    ranges ? rangesOfAll(connection, org) : undefined,
    records.load(wanted),
  ]);
  if (head === undefined || (before !== undefined && before.head.version !== head.version)) return undefined;
  if (before === undefined) records.begin(head);
  const known = before ?? new Known(head);
  [...asked.keys()].forEach((key, index) => {
    const caller = callers[index];
    if (caller !== undefined) known.callers.set(key, { ...caller, has_ended: false });
  });
  known.ranges ??= all;
  return known;
}

interface Decided {
  readonly outcomes: readonly Outcome[];
  readonly records: Records;
  readonly known: Known;
}

/** The same order as under the lock. */
async function decide(place: Place, writes: readonly Write<unknown>[]): Promise<Decided | undefined> {
  const { connection, org, organizations, context, model, check } = place;
  const tx = onlyReading(connection);
  const records = new Records({ tx, org, model, known: organizations.get(org) });
  const decisions = writes.filter((write): write is RecordWrite<unknown> => write.kind === 'record');
  const known = await look(place, decisions, records);
  if (known === undefined) return undefined;
  model.startsAt(known.head);
  const locked = { tx, org, records, context, model, check, known };
  const outcomes = new Map<Write<unknown>, Outcome>();
  for (const write of writes) if (write.kind === 'transaction') outcomes.set(write, await runInMemory(locked, write));
  const callers = decisions.map((write) => known.callers.get(callerKey(askedBy(write))));
  const ranges = { all: known.ranges ?? 0 };
  const decided = await decideAll(locked, decisions, { callers, ranges });
  decisions.forEach((write, index) => outcomes.set(write, decided[index] as Outcome));
  // A bound: exact where it is read again. What more than records decides may give devices groups that were not counted.
  const isCounted = ranges.all > 0 && decisions.length === writes.length;
  known.ranges = isCounted ? ranges.all : undefined;
  const forbids = records.entries.some(({ json, kind }) => kind === 'security-groups' && json.includes('"guardrail":'));
  if (forbids) known.callers.clear();
  return { outcomes: writes.map((write) => outcomes.get(write) as Outcome), records, known };
}

/** Gives the outcomes with the records as they were appended; undefined: the writes need the lock. */
export async function writeWithoutLock(
  place: Place,
  writes: readonly Write<unknown>[],
): Promise<Omit<Decided, 'known'> | undefined> {
  const { connection, org, organizations, model, check } = place;
  // Nothing was written: what is wrong shows under the lock.
  const decided = await decide(place, writes).catch(() => undefined);
  if (decided === undefined) return undefined;
  const { outcomes, records, known } = decided;
  try {
    const given = { credentials: credentialsOf(writes), era: known.head.era };
    if (!(await records.appendIf(connection, given))) return undefined;
  } catch (cause) {
    organizations.forget(org);
    if (isPassing(cause)) throw cause;
    // An SQL error: under the lock, each write meets its own.
    return undefined;
  }
  records.teach(known);
  organizations.set(org, known);
  check.committed();
  model.committed();
  return { outcomes, records };
}
