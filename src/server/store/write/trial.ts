/** Owns the start of a trial inside the write that is tried: the mark on its records, and the row by which it ends in time. */
import type { StartedTrial } from '../../../organization/decide/records.ts';
import { parseTrialId, type OrganizationId } from '../../../policy/ids.ts';
import type { Actor } from '../data/actor.ts';
import type { NewTrial } from '../data/trials.ts';
import type { Runner } from '../postgres/connection.ts';
import { statement } from '../postgres/sql.ts';
import type { Context } from './context.ts';

export function startTrial(context: Context, by: Actor, { confirm_within, scope }: NewTrial): StartedTrial {
  const started = context.clock();
  return {
    id: parseTrialId(context.newId()),
    started_at: new Date(started).toISOString(),
    ends_at: new Date(started + confirm_within * 1000).toISOString(),
    by: by.user_id,
    ...(scope && { scope }),
  };
}

export interface TrialRow {
  readonly id: string;
  readonly org_id: string;
  readonly state: 'pending' | 'confirmed' | 'reverted' | 'expired';
  readonly started_at: string;
  readonly ends_at: string;
  readonly user_id: string;
  readonly scope: string | null;
  readonly groups: readonly string[];
  readonly devices: readonly string[];
  readonly revision: number;
  readonly ended_at: string | null;
  readonly ended_by: string | null;
}

export const trialColumns =
  'id, org_id, state, started_at, ends_at, user_id, scope, groups, devices, revision, ended_at, ended_by';

/** Values: those of the columns. */
const writeTrial = statement<never>(
  'write_trial',
  `INSERT INTO trials (${trialColumns}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8::uuid[], $9::uuid[], $10, $11, $12)
   ON CONFLICT (id) DO UPDATE SET state = excluded.state, scope = excluded.scope, groups = excluded.groups, devices = excluded.devices,
     revision = excluded.revision, ended_at = excluded.ended_at, ended_by = excluded.ended_by`,
);

export async function putTrial(tx: Runner, trial: TrialRow): Promise<TrialRow> {
  const { id, org_id, state, started_at, ends_at, user_id, scope, groups, devices, revision } = trial;
  const values = [id, org_id, state, started_at, ends_at, user_id, scope, groups, devices, revision];
  await tx.run(writeTrial, [...values, trial.ended_at, trial.ended_by]);
  return trial;
}

export interface TriedRecords {
  readonly groups?: readonly string[];
  readonly devices?: readonly string[];
  /** The newest revision that the write took. */
  readonly revision: number;
}

/** Runs in the transaction of the write. From the commit on, the trial ends in time, also when this process dies. */
export async function keepTrial(
  { tx, org }: { readonly tx: Runner; readonly org: OrganizationId },
  { id, started_at, ends_at, by, scope }: StartedTrial,
  { groups = [], devices = [], revision }: TriedRecords,
): Promise<void> {
  await putTrial(tx, {
    id,
    org_id: org,
    state: 'pending',
    started_at,
    ends_at,
    user_id: by,
    scope: scope === undefined ? null : JSON.stringify(scope),
    groups,
    devices,
    revision,
    ended_at: null,
    ended_by: null,
  });
}
