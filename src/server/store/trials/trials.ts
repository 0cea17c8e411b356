/** Owns trials in the store: who may end or widen one, that exactly one end succeeds, and that a trial ends in time (decision 0082). */
import {
  parseDeviceId,
  parseGroupId,
  parseOrganizationId,
  parseTrialId,
  parseUserId,
  type OrganizationId,
  type TrialId,
} from '../../../policy/ids.ts';
import type { Selector } from '../../../policy/rule.ts';
import { isWithin } from '../../../policy/trial/trial.ts';
import { rightRoles, serverRight, type Actor } from '../contract/actor.ts';
import type { AuditNote } from '../contract/audit.ts';
import type { DueTrial, KeepTrialOptions, TrialRecord, Trials } from '../contract/change/trials.ts';
import { refuse } from '../contract/errors.ts';
import { pageValues } from '../postgres/sql.ts';
import { auditValue, insertAudit } from '../write/audit-entry.ts';
import { refuseOpenedByTrial } from '../devices/opening.ts';
import type { Context } from '../write/context.ts';
import { openingOfStatement } from '../write/right.ts';
import { now } from '../write/stamp.ts';
import { inOrganization, type Locked } from '../write/transaction.ts';
import { keepChange, rewriteScope, takeBack, triedRecords, type TriedRecords } from './end.ts';
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

async function pendingTrial({ tx, org }: Locked, id: string): Promise<sql.TrialRow> {
  const [trial] = await tx.run(sql.getTrial, [org, id]);
  if (trial === undefined) return refuse({ code: 'not_found', what: 'trial' });
  if (trial.state !== 'pending') return refuse({ code: 'trial_over', state: trial.state });
  return trial;
}

/** Allows a user who may write every remaining record. When none remains: an owner, or the user who started the trial. */
async function checkRight({ tx, org }: Locked, by: Actor, trial: sql.TrialRow, tried: TriedRecords): Promise<void> {
  if (by.right.roles === rightRoles.server) return;
  const isOwner = (await tx.run(sql.getRole, [org, by.user_id]))[0]?.role === 'owner';
  const mayWrite =
    tried.groups.length + tried.devices.length === 0
      ? isOwner || trial.user_id === by.user_id
      : tried.groups.every(({ user_id }) => (user_id === null ? isOwner : user_id === by.user_id)) &&
        tried.devices.every(({ user_id }) => isOwner || user_id === by.user_id);
  if (!mayWrite) refuse({ code: 'forbidden' });
}

/** Devices outside the scope take the change now: it leaves none of them with the default group unasked. */
const judged = <T>(
  locked: Locked,
  { scope, devices, groups }: sql.TrialRow,
  { detach = false }: KeepTrialOptions = {},
  write: () => Promise<T>,
): Promise<T> => (scope === null || detach ? write() : refuseOpenedByTrial(locked, { devices, groups }, write));

type Ending = 'confirmed' | 'reverted' | 'expired';

async function end(
  context: Context,
  locked: Locked,
  by: Actor,
  trial: sql.TrialRow,
  tried: TriedRecords,
  state: Ending,
): Promise<TrialRecord> {
  const revision = await (state === 'confirmed' ? keepChange : takeBack)(context, locked, by, tried);
  const who = by.right.roles === rightRoles.server ? null : by.user_id;
  const [ended] = await locked.tx.run(sql.endTrial, [locked.org, trial.id, state, now(context), who, revision]);
  return ended === undefined ? refuse({ code: 'unexpected' }) : recordOf(ended);
}

/** Reverts what is being tried of a member's devices and groups, before these go: the removal neither confirms it nor waits for it. */
export async function revertOfMember(context: Context, locked: Locked, by: Actor, user: string): Promise<void> {
  const { tx, org } = locked;
  for (const trial of await tx.run(sql.findOfMember, [org, user])) {
    const { revision } = await end(context, locked, by, trial, await triedRecords(locked, trial), 'reverted');
    const audit = by.audit && { ...by.audit, operation: 'revertTrial', fields: undefined };
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

export function trialsIn(context: Context, keepMs: number): Trials {
  const { reads } = context;
  const inTrial = (
    org: OrganizationId,
    by: Actor,
    id: TrialId,
    work: (locked: Locked, trial: sql.TrialRow, tried: TriedRecords) => Promise<TrialRecord>,
  ): Promise<TrialRecord> =>
    inOrganization(
      context,
      org,
      by,
      async (locked) => {
        const trial = await pendingTrial(locked, id);
        const tried = await triedRecords(locked, trial);
        await checkRight(locked, by, trial, tried);
        return work(locked, trial, tried);
      },
      ({ revision }) => ({ subject_id: id, revision }),
    );
  const isOver = ({ ends_at }: sql.TrialRow): boolean => context.clock() >= Date.parse(ends_at);
  return {
    async list(org, page) {
      return (await reads.run(sql.listPending, [org, ...pageValues(page)])).map(recordOf);
    },

    async recent(org, since) {
      return (await reads.run(sql.listRecent, [org, new Date(since).toISOString()])).map(recordOf);
    },

    async get(org, id) {
      const [row] = await reads.run(sql.getTrial, [org, id]);
      return row === undefined ? refuse({ code: 'not_found', what: 'trial' }) : recordOf(row);
    },

    confirm: (org, by, id, options) =>
      inTrial(org, by, id, (locked, trial, tried) =>
        isOver(trial)
          ? refuse({ code: 'trial_over', state: 'expired' })
          : judged(locked, trial, options, () => end(context, locked, by, trial, tried, 'confirmed')),
      ),

    // Policy tests show what a revert breaks, and never refuse it.
    revert: (org, by, id) =>
      inTrial(org, { ...by, tests: 'report' }, id, (locked, trial, tried) =>
        end(context, locked, by, trial, tried, 'reverted'),
      ),

    widen: (org, by, id, scope, options) =>
      inTrial(org, by, id, async (locked, trial, tried) => {
        if (isOver(trial)) return refuse({ code: 'trial_over', state: 'expired' });
        const wider = isWithin(undefined, scope) ? undefined : scope;
        if (!isWithin(scopeOf(trial.scope), wider)) return refuse({ code: 'not_wider' });
        const write = () => rewriteScope(context, locked, by, tried, wider);
        const revision = await judged(locked, trial, options, write);
        const text = wider === undefined ? null : JSON.stringify(wider);
        const [row] = await locked.tx.run(sql.widenTrial, [org, id, text, revision]);
        return row === undefined ? refuse({ code: 'unexpected' }) : recordOf(row);
      }),

    async next(limit) {
      return (await reads.run(sql.listNext, [limit])).map((row) => ({
        org: parseOrganizationId(row.org_id),
        id: parseTrialId(row.id),
        at: Date.parse(row.ends_at),
      }));
    },

    async expire({ org, id }: DueTrial) {
      const [known] = await reads.run(sql.getTrial, [org, id]);
      if (known === undefined) return false;
      const by: Actor = { user_id: parseUserId(known.user_id), right: serverRight };
      const run = async (locked: Locked): Promise<boolean> => {
        const [trial] = await locked.tx.run(sql.getTrial, [org, id]);
        if (trial === undefined || trial.state !== 'pending' || !isOver(trial)) return false;
        const { revision } = await end(context, locked, by, trial, await triedRecords(locked, trial), 'expired');
        const entry = { org_id: org, subject_id: id, revision };
        await locked.tx.run(insertAudit, [auditValue(context, expiryNote(by.user_id), entry)]);
        return true;
      };
      return context.writer.write(org, {
        kind: 'transaction',
        by,
        // The user who started the trial may have left since, so this checks no membership.
        opening: openingOfStatement,
        run: (tx, { revision }) => run({ org, tx, head: revision }),
      });
    },

    async forget() {
      await context.writes.run(sql.forgetTrials, [new Date(context.clock() - keepMs).toISOString()]);
    },
  };
}
