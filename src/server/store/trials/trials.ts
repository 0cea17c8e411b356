/** Owns trials in the store: who may end or widen one, that exactly one end succeeds, and that a trial ends in time (docs/decisions/changes.md). */
import { rightRoles, theServer } from '../../../organization/decide/caller.ts';
import {
  holdTakeOut,
  holdTime,
  holdTrial,
  keptTrial,
  parted,
  takenBack,
  widened,
  widerScope,
  type Ender,
  type TriedRecords,
} from '../../../organization/decide/trial.ts';
import {
  parseDeviceId,
  parseGroupId,
  parseTrialId,
  parseUserId,
  type OrganizationId,
  type TrialId,
} from '../../../policy/ids.ts';
import type { Selector } from '../../../policy/rule.ts';

import { serverRight, type Actor } from '../data/actor.ts';
import type { AuditNote } from '../data/audit.ts';
import type { KeepTrialOptions, TrialRecord, RevertTrialOptions } from '../data/trials.ts';
import { refuse } from '../../problems.ts';
import { pageValues } from '../postgres/sql.ts';
import { auditValue, insertAudit } from '../write/audit-entry.ts';
import { refuseOpened } from '../devices/opening.ts';
import type { Context } from '../write/context.ts';
import { acceptByWriting } from '../write/members.ts';
import { now } from '../write/stamp.ts';
import { inOrganization, type Locked } from '../write/transaction.ts';
import { transactionWrite } from '../write/writer.ts';
import { triedRecords, writeOutcome } from './end.ts';
import { putTrial, type TrialRow } from '../write/trial.ts';
import type { Page } from '../data/page.ts';
import * as sql from './statements.ts';

const scopeOf = (text: string | null): readonly Selector[] | undefined =>
  text === null ? undefined : (JSON.parse(text) as readonly Selector[]);

function recordOf(row: TrialRow): TrialRecord {
  const scope = scopeOf(row.scope);
  return {
    id: parseTrialId(row.id),
    state: row.state,
    started_at: row.started_at,
    ends_at: row.ends_at,
    by: parseUserId(row.user_id),
    ...(scope && { scope }),
    security_groups: row.groups.map(parseGroupId),
    devices: row.devices.map(parseDeviceId),
    ...(row.ended_at === null ? {} : { ended_at: row.ended_at }),
    ...(row.ended_by === null ? {} : { ended_by: parseUserId(row.ended_by) }),
    revision: row.revision,
  };
}

/** A pending trial with the records that are still on it. */
interface PendingTrial {
  readonly trial: TrialRow;
  readonly tried: TriedRecords;
}

async function pendingTrial({ tx, org }: Locked, id: string): Promise<TrialRow> {
  const [trial] = await tx.run(sql.getTrial, [org, id]);
  if (trial === undefined) return refuse({ code: 'not_found', what: 'trial' });
  if (trial.state !== 'pending') return refuse({ code: 'trial_over', state: trial.state });
  return trial;
}

/** Who acts. The server may do everything. */
function callerOf({ caller }: Locked, { user_id, right }: Actor): Ender {
  const isServer = right.roles === rightRoles.server;
  return { user_id, isOwner: isServer || caller.role === 'owner', isServer };
}

/** After the check of the right: accepts an ownership that is pending, where the caller does this only as an owner. */
async function acceptIf(context: Context, locked: Locked, by: Actor, asOwner: boolean): Promise<void> {
  if (asOwner) await acceptByWriting(context, locked, by);
}

async function checkRight(
  context: Context,
  locked: Locked,
  by: Actor,
  { trial, tried }: PendingTrial,
  how: 'keep' | 'revert',
): Promise<void> {
  await acceptIf(context, locked, by, holdTrial(callerOf(locked, by), trial.user_id, tried, how));
}

/** Devices outside the scope take the change now: it leaves none of them with the default group unasked. */
async function judged<T>(
  locked: Locked,
  { scope, devices }: TrialRow,
  { detach = false }: KeepTrialOptions = {},
  write: () => Promise<T>,
): Promise<T> {
  if (scope === null || detach) return write();
  const before = await locked.model.read(locked.tx);
  const written = await write();
  // A list that is tried empty asks for it.
  const emptied = new Set(devices.filter((id) => before.devices.get(parseDeviceId(id))?.list.length === 0));
  await refuseOpened(locked, before, { emptied, cases: ['now'] });
  return written;
}

/** The row with what has changed. `revision`: the newest that was taken meanwhile. */
const advance = ({ tx }: Locked, trial: TrialRow, change: Partial<TrialRow>, revision: number): Promise<TrialRow> =>
  putTrial(tx, { ...trial, ...change, revision: Math.max(trial.revision, revision) });

type Ending = 'confirmed' | 'reverted' | 'expired';

async function end(
  context: Context,
  locked: Locked,
  by: Actor,
  { trial, tried }: PendingTrial,
  state: Ending,
): Promise<TrialRecord> {
  const outcome = (state === 'confirmed' ? keptTrial : takenBack)(tried);
  const revision = await writeOutcome(context, locked, by, outcome);
  const who = by.right.roles === rightRoles.server ? null : by.user_id;
  return recordOf(await advance(locked, trial, { state, ended_at: now(context), ended_by: who }, revision));
}

/** Makes these records what they were, with the lists that name a group which goes by that. The rest stays on trial; where nothing is left, the trial is reverted. */
async function takeOut(
  context: Context,
  locked: Locked,
  by: Actor,
  { trial, tried }: PendingTrial,
  asked: readonly string[],
): Promise<TrialRecord> {
  const { out, stay, ids } = parted(tried, asked);
  if (stay.groups.length + stay.devices.length === 0) return end(context, locked, by, { trial, tried }, 'reverted');
  const revision = await writeOutcome(context, locked, by, takenBack(out));
  const stays = (list: readonly string[]): readonly string[] => list.filter((id) => !ids.has(id));
  return recordOf(
    await advance(locked, trial, { groups: stays(trial.groups), devices: stays(trial.devices) }, revision),
  );
}

/** Before a member's devices and groups go, those that are being tried go back. The rest of such a trial stays pending. */
export async function takeOutOfMember(context: Context, locked: Locked, by: Actor, user: string): Promise<void> {
  const { tx, org } = locked;
  for (const trial of await tx.run(sql.listPending, [org, ...pageValues(undefined)])) {
    const tried = await triedRecords(locked, trial);
    const own = [...tried.groups, ...tried.devices].flatMap(({ id, user_id }) => (user_id === user ? [id] : []));
    if (own.length === 0) continue;
    const { revision } = await takeOut(context, locked, by, { trial, tried }, own);
    const audit = by.audit && { ...by.audit, operation: 'revertTrial', fields: ['records'] };
    if (audit !== undefined)
      await tx.run(insertAudit, [auditValue(context, audit, { org_id: org, subject_id: trial.id, revision })]);
  }
}

/** The audit note of an expiry: the server acts, for the user who started the trial. */
const expiryNote = (user: Actor['user_id']): AuditNote => ({
  operation: 'expireTrial',
  user_id: user,
  credential: { kind: 'server' },
  address: '',
  request_id: '',
});

/**
 * A user who may write all records of a trial may confirm and widen it. A user who may write one may take it out, and an
 * owner may revert any trial (`policy/trial/right.ts`). The writing transaction checks this (`forbidden`). When several callers end a trial at the same time, one succeeds and the others fail with `trial_over`.
 * A revert never fails because of the state that it restores.
 */
export function trialsIn(context: Context) {
  const { reads } = context;
  const inTrial = async (
    org: OrganizationId,
    by: Actor,
    id: TrialId,
    work: (locked: Locked, pending: PendingTrial) => Promise<TrialRecord>,
  ): Promise<TrialRecord> => {
    await context.models.warm(org);
    return inOrganization(
      context,
      org,
      by,
      async (locked) => {
        const trial = await pendingTrial(locked, id);
        return work(locked, { trial, tried: await triedRecords(locked, trial) });
      },
      ({ revision }) => ({ subject_id: id, revision }),
    );
  };
  const isOver = ({ ends_at }: TrialRow): boolean => context.clock() >= Date.parse(ends_at);
  return {
    /** Those that are pending. */
    async list(org: OrganizationId, page?: Page): Promise<readonly TrialRecord[]> {
      return (await reads.run(sql.listPending, [org, ...pageValues(page)])).map(recordOf);
    },

    /** Those that began or ended since then, in milliseconds since 1970; for alerts. */
    async recent(org: OrganizationId, since: number): Promise<readonly TrialRecord[]> {
      return (await reads.run(sql.listRecent, [org, new Date(since).toISOString()])).map(recordOf);
    },

    /** Also one that is over, while the history is kept. */
    async get(org: OrganizationId, id: TrialId): Promise<TrialRecord> {
      const [row] = await reads.run(sql.getTrial, [org, id]);
      return row === undefined ? refuse({ code: 'not_found', what: 'trial' }) : recordOf(row);
    },

    /** The change stays. `trial_over` from `ends_at` on, also where the server has not reverted it yet: agents have. */
    confirm: (org: OrganizationId, by: Actor, id: TrialId, options?: KeepTrialOptions): Promise<TrialRecord> =>
      inTrial(org, by, id, async (locked, pending) => {
        const { trial } = pending;
        await checkRight(context, locked, by, pending, 'keep');
        holdTime(trial, context.clock());
        return judged(locked, trial, options, () => end(context, locked, by, pending, 'confirmed'));
      }),

    // Policy tests show what a revert breaks, and never refuse it.
    /** Everything, or the given part of it, is as it was, with new revisions. */
    revert: (org: OrganizationId, by: Actor, id: TrialId, { records }: RevertTrialOptions = {}): Promise<TrialRecord> =>
      inTrial(org, { ...by, tests: 'report' }, id, async (locked, pending) => {
        if (records === undefined) {
          await checkRight(context, locked, by, pending, 'revert');
          return end(context, locked, by, pending, 'reverted');
        }
        const asOwner = holdTakeOut(callerOf(locked, by), pending.tried, records);
        await acceptIf(context, locked, by, asOwner);
        return takeOut(context, locked, by, pending, records);
      }),

    /** More devices try the change; absent: all. `not_wider` where one that tries it would no longer. */
    widen: (
      org: OrganizationId,
      by: Actor,
      id: TrialId,
      scope: readonly Selector[] | undefined,
      options?: KeepTrialOptions,
    ): Promise<TrialRecord> =>
      inTrial(org, by, id, async (locked, pending) => {
        const { trial, tried } = pending;
        await checkRight(context, locked, by, pending, 'keep');
        holdTime(trial, context.clock());
        const wider = widerScope(scopeOf(trial.scope), scope);
        const write = () => writeOutcome(context, locked, by, widened(tried, wider));
        const revision = await judged(locked, trial, options, write);
        const text = wider === undefined ? null : JSON.stringify(wider);
        return recordOf(await advance(locked, trial, { scope: text }, revision));
      }),

    /** Reverts a trial whose time is over. False where it is not pending any more, or not over. */
    async expire({ org, id }: { readonly org: OrganizationId; readonly id: TrialId }): Promise<boolean> {
      const [known] = await reads.run(sql.getTrial, [org, id]);
      if (known === undefined) return false;
      const by: Actor = { user_id: theServer, right: serverRight };
      const run = async (locked: Locked): Promise<boolean> => {
        const [trial] = await locked.tx.run(sql.getTrial, [org, id]);
        if (trial === undefined || trial.state !== 'pending' || !isOver(trial)) return false;
        const pending = { trial, tried: await triedRecords(locked, trial) };
        const { revision } = await end(context, locked, by, pending, 'expired');
        const entry = { org_id: org, subject_id: id, revision };
        await locked.tx.run(insertAudit, [auditValue(context, expiryNote(parseUserId(known.user_id)), entry)]);
        return true;
      };
      return context.writer.write(org, transactionWrite(by, run));
    },
  };
}

export type Trials = ReturnType<typeof trialsIn>;
