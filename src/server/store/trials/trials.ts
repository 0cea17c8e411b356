/** Owns trials in the store: who may end or widen one, that exactly one end succeeds, and that a trial ends in time (docs/decisions/changes.md). */
import {
  parseDeviceId,
  parseGroupId,
  parseTrialId,
  parseUserId,
  type OrganizationId,
  type TrialId,
} from '../../../policy/ids.ts';
import type { Selector } from '../../../policy/rule.ts';
import {
  mayKeep,
  mayRevert,
  mayTakeOut,
  takenOutWith,
  type TrialCaller,
  type TrialRecords,
} from '../../../policy/trial/right.ts';
import { isWithin } from '../../../policy/trial/trial.ts';
import { rightRoles, serverRight, type Actor } from '../data/actor.ts';
import type { AuditNote } from '../data/audit.ts';
import type { KeepTrialOptions, TrialRecord, RevertTrialOptions } from '../data/trials.ts';
import { refuse } from '../../problems.ts';
import { pageValues } from '../postgres/sql.ts';
import { auditValue, insertAudit } from '../write/audit-entry.ts';
import { refuseOpened } from '../devices/opening.ts';
import type { Context } from '../write/context.ts';
import { openingOfAny } from '../write/right.ts';
import { acceptByWriting } from '../write/pending-ownership.ts';
import { theServer } from '../write/the-server.ts';
import { now } from '../write/stamp.ts';
import { inOrganization, type Locked } from '../write/transaction.ts';
import { keepChange, rewriteScope, takeBack, triedRecords, type TriedRecords } from './end.ts';
import type { Page } from '../data/page.ts';
import * as sql from './statements.ts';

const scopeOf = (text: string | null): readonly Selector[] | undefined =>
  text === null ? undefined : (JSON.parse(text) as readonly Selector[]);

function recordOf(row: sql.TrialRow): TrialRecord {
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
  readonly trial: sql.TrialRow;
  readonly tried: TriedRecords;
}

async function pendingTrial({ tx, org }: Locked, id: string): Promise<sql.TrialRow> {
  const [trial] = await tx.run(sql.getTrial, [org, id]);
  if (trial === undefined) return refuse({ code: 'not_found', what: 'trial' });
  if (trial.state !== 'pending') return refuse({ code: 'trial_over', state: trial.state });
  return trial;
}

/** What the pure rules need to know of the records. */
const recordsOf = ({ groups, devices }: TriedRecords): TrialRecords => ({
  groups: groups.map(({ id, user_id = null, trial: { before } }) => ({ id, user_id, isNew: before === null })),
  devices: devices.map((device) => ({ ...device, security_groups: device.security_groups ?? [] })),
});

/** Who acts, as it is in this transaction. The server may do everything. */
async function callerOf({ tx, org }: Locked, { user_id, right }: Actor): Promise<TrialCaller & { isServer: boolean }> {
  if (right.roles === rightRoles.server) return { user_id, isOwner: true, isServer: true };
  const isOwner = (await tx.run(sql.getRole, [org, user_id]))[0]?.role === 'owner';
  return { user_id, isOwner, isServer: false };
}

/** Accepts an ownership that is pending, where the caller may do this only as an owner. */
async function acceptIfOwner(
  context: Context,
  { tx, org }: Locked,
  by: Actor,
  caller: TrialCaller & { isServer: boolean },
  may: (caller: TrialCaller) => boolean,
): Promise<void> {
  if (!caller.isServer && caller.isOwner && !may({ ...caller, isOwner: false }))
    await acceptByWriting(context, tx, org, by);
}

/** `how`: what is to become of the whole trial. */
async function checkRight(
  context: Context,
  locked: Locked,
  by: Actor,
  { trial, tried }: PendingTrial,
  how: 'keep' | 'revert',
): Promise<void> {
  const caller = await callerOf(locked, by);
  const records = { ...recordsOf(tried), by: trial.user_id };
  const may = (one: TrialCaller): boolean => (how === 'keep' ? mayKeep : mayRevert)(records, one);
  if (!caller.isServer && !may(caller)) refuse({ code: 'forbidden' });
  await acceptIfOwner(context, locked, by, caller, may);
}

/** Devices outside the scope take the change now: it leaves none of them with the default group unasked. */
async function judged<T>(
  locked: Locked,
  { scope, devices }: sql.TrialRow,
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

type Ending = 'confirmed' | 'reverted' | 'expired';

async function end(
  context: Context,
  locked: Locked,
  by: Actor,
  { trial, tried }: PendingTrial,
  state: Ending,
): Promise<TrialRecord> {
  const revision = await (state === 'confirmed' ? keepChange : takeBack)(context, locked, by, tried);
  const who = by.right.roles === rightRoles.server ? null : by.user_id;
  const [ended] = await locked.tx.run(sql.endTrial, [locked.org, trial.id, state, now(context), who, revision]);
  return ended === undefined ? refuse({ code: 'unexpected' }) : recordOf(ended);
}

/** Makes these records what they were, with the lists that name a group which goes by that. The rest stays on trial; where nothing is left, the trial is reverted. */
async function takeOut(
  context: Context,
  locked: Locked,
  by: Actor,
  { trial, tried }: PendingTrial,
  asked: readonly string[],
): Promise<TrialRecord> {
  const ids = takenOutWith(recordsOf(tried), new Set(asked));
  const part = (isOut: boolean): TriedRecords => ({
    groups: tried.groups.filter(({ id }) => ids.has(id) === isOut),
    devices: tried.devices.filter(({ id }) => ids.has(id) === isOut),
  });
  const left = part(false);
  if (left.groups.length + left.devices.length === 0) return end(context, locked, by, { trial, tried }, 'reverted');
  const revision = await takeBack(context, locked, by, part(true));
  const stays = (list: readonly string[]): readonly string[] => list.filter((id) => !ids.has(id));
  const values = [locked.org, trial.id, stays(trial.groups), stays(trial.devices), revision];
  const [row] = await locked.tx.run(sql.shrinkTrial, values);
  return row === undefined ? refuse({ code: 'unexpected' }) : recordOf(row);
}

/** Before a member's devices and groups go, those that are being tried go back. The rest of such a trial stays pending. */
export async function takeOutOfMember(context: Context, locked: Locked, by: Actor, user: string): Promise<void> {
  const { tx, org } = locked;
  for (const trial of await tx.run(sql.findOfMember, [org, user])) {
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
  const isOver = ({ ends_at }: sql.TrialRow): boolean => context.clock() >= Date.parse(ends_at);
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
        if (isOver(trial)) return refuse({ code: 'trial_over', state: 'expired' });
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
        const { groups, devices } = pending.tried;
        const known = new Set<string>([...groups, ...devices].map((one) => one.id));
        const unknown = records.flatMap((record, index) => (known.has(record) ? [] : [index]));
        if (unknown.length > 0) return refuse({ code: 'not_on_trial', indexes: unknown });
        const caller = await callerOf(locked, by);
        const may = (one: TrialCaller): boolean => {
          const own = new Set(mayTakeOut(recordsOf(pending.tried), one));
          return records.every((record) => own.has(record));
        };
        if (!may(caller)) return refuse({ code: 'forbidden' });
        await acceptIfOwner(context, locked, by, caller, may);
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
        if (isOver(trial)) return refuse({ code: 'trial_over', state: 'expired' });
        const wider = isWithin(undefined, scope) ? undefined : scope;
        if (!isWithin(scopeOf(trial.scope), wider)) return refuse({ code: 'not_wider' });
        const write = async () => rewriteScope(context, locked, by, tried, wider);
        const revision = await judged(locked, trial, options, write);
        const text = wider === undefined ? null : JSON.stringify(wider);
        const [row] = await locked.tx.run(sql.widenTrial, [org, id, text, revision]);
        return row === undefined ? refuse({ code: 'unexpected' }) : recordOf(row);
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
      return context.writer.write(org, {
        kind: 'transaction',
        by,
        // The user who started the trial may have left since, so this checks no membership.
        opening: openingOfAny,
        run,
      });
    },
  };
}

export type Trials = ReturnType<typeof trialsIn>;
