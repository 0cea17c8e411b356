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

/** Values: trial, organization, start, end, who, scope, groups, devices, revision. */
const insertTrial = statement<never>(
  'insert_trial',
  `INSERT INTO trials (id, org_id, state, started_at, ends_at, user_id, scope, groups, devices, revision)
   VALUES ($1, $2, 'pending', $3, $4, $5, $6, $7::uuid[], $8::uuid[], $9)`,
);

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
  const selectors = scope === undefined ? null : JSON.stringify(scope);
  await tx.run(insertTrial, [id, org, started_at, ends_at, by, selectors, groups, devices, revision]);
}
