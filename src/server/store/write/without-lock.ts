/**
 * Owns writes that take no lock: decided from what this process knows of the organization, and appended by one statement only if the organization
 * still has that version and every credential still holds. Where that does not do, nothing has happened, and the writes run again under the lock:
 * so no refusal is given by what is known alone.
 */
import type { OrganizationId } from '../../../policy/ids.ts';
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
  wantedBy,
  type DecidingContext,
  type Outcome,
  type RecordWrite,
} from './run-transaction.ts';
import { now } from './stamp.ts';

interface Place {
  /** One connection, whose statements see what those before them saw, and maybe more. */
  readonly tx: Runner;
  readonly org: OrganizationId;
  readonly organizations: KnownOrganizations;
  readonly context: DecidingContext;
}

type Writes = readonly RecordWrite<unknown>[];

const needLock = (): Promise<never> => Promise.reject(new NeedsLock());
/** What only a transaction can do. */
const lockless = {
  tx: { run: needLock },
  check: { before: needLock, after: needLock, committed: () => {} },
};

/** What the writes look at: what is known, and in one message what is not. Undefined: another process has written. */
async function look(
  { tx, org, organizations, context }: Place,
  writes: Writes,
  records: Records,
): Promise<Known | undefined> {
  const before = organizations.get(org);
  const wanted = wantedBy(writes);
  const asked = new Map(writes.map((write) => [callerKey(askedBy(write)), askedBy(write)]));
  for (const key of before?.callers.keys() ?? []) asked.delete(key);
  const ranges = before?.ranges === undefined && needsRanges(writes);
  if (before !== undefined && asked.size === 0 && !ranges && records.has(wanted)) return before;
  const [[head], callers, all] = await Promise.all([
    tx.run(readHead, [org]),
    callersOf(tx, org, now(context), [...asked.values()]),
    ranges ? rangesOfAll(tx, org) : undefined,
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

/** Gives the outcomes with the records as they were appended; undefined: the writes need the lock. */
export async function writeWithoutLock(
  place: Place,
  writes: Writes,
): Promise<{ readonly outcomes: readonly Outcome[]; readonly records: Records } | undefined> {
  const { tx, org, organizations, context } = place;
  if (organizations.isContested(org)) return undefined;
  try {
    const records = new Records({ tx, org, known: organizations.get(org) });
    const known = await look(place, writes, records);
    if (known === undefined) return undefined;
    const callers = writes.map((write) => known.callers.get(callerKey(askedBy(write))));
    const ranges = { all: known.ranges ?? 0 };
    const locked = { ...lockless, org, records, context };
    const outcomes = await decideAll(locked, writes, { callers, ranges });
    const credentials = credentialsOf(writes);
    if (!(await records.appendIf({ credentials, era: known.head.era }))) return undefined;
    known.ranges = ranges.all === 0 ? undefined : ranges.all;
    records.teach(known);
    organizations.set(org, known);
    return { outcomes, records };
  } catch (cause) {
    if (cause instanceof NeedsLock) return undefined;
    organizations.forget(org);
    if (isPassing(cause)) throw cause;
    // An SQL error: under the lock, each write meets its own.
    return undefined;
  }
}
