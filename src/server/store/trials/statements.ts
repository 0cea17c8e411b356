/** Owns the SQL of trials: their rows, and the writes to their records when a trial is widened or ends. */
import { inOrg, statement } from '../postgres/sql.ts';

export interface TrialRow {
  readonly id: string;
  readonly org_id: string;
  readonly state: 'pending' | 'confirmed' | 'reverted' | 'expired';
  readonly started_at: string;
  readonly ends_at: string;
  readonly user_id: string;
  readonly scope: string | null;
  readonly groups: string[];
  readonly devices: string[];
  readonly revision: number;
  readonly ended_at: string | null;
  readonly ended_by: string | null;
}

const columns = 'id, org_id, state, started_at, ends_at, user_id, scope, groups, devices, revision, ended_at, ended_by';

/** Values: organization, after this id, limit. */
export const listPending = statement<TrialRow>(
  'list_pending_trials',
  `SELECT ${columns} FROM trials WHERE org_id = $1 AND state = 'pending' AND id > $2 ORDER BY id LIMIT $3`,
);

/** Values: organization, since. */
export const listRecent = statement<TrialRow>(
  'list_recent_trials',
  `SELECT ${columns} FROM trials WHERE org_id = $1 AND (started_at >= $2 OR ended_at >= $2) ORDER BY id`,
);

/** Values: organization, id. */
export const getTrial = statement<TrialRow>(
  'get_trial',
  `SELECT ${columns} FROM trials WHERE id = $2 AND ${inOrg('trials')}`,
);

/** The pending trials that touch what a member has. Values: organization, user. */
export const findOfMember = statement<TrialRow>(
  'find_trials_of_member',
  `SELECT ${columns} FROM trials t WHERE t.org_id = $1 AND t.state = 'pending' AND (
     t.groups && ARRAY(SELECT g.id FROM security_groups g WHERE g.org_id = $1 AND g.user_id = $2)
     OR t.devices && ARRAY(SELECT d.id FROM devices d WHERE d.org_id = $1 AND d.user_id = $2)) ORDER BY t.id`,
);

/** Values: organization, id, state, when, who or null, revision. */
export const endTrial = statement<TrialRow>(
  'end_trial',
  `UPDATE trials SET state = $3, ended_at = $4, ended_by = $5::uuid, revision = greatest(revision, $6::bigint)
   WHERE id = $2 AND ${inOrg('trials')} RETURNING ${columns}`,
);

/** Values: organization, id, scope or null, revision. */
export const widenTrial = statement<TrialRow>(
  'widen_trial',
  `UPDATE trials SET scope = $3, revision = greatest(revision, $4::bigint) WHERE id = $2 AND ${inOrg('trials')} RETURNING ${columns}`,
);

/** Values: organization, id, the groups and the devices that stay, revision. */
export const shrinkTrial = statement<TrialRow>(
  'shrink_trial',
  `UPDATE trials SET groups = $3::uuid[], devices = $4::uuid[], revision = greatest(revision, $5::bigint)
   WHERE id = $2 AND ${inOrg('trials')} RETURNING ${columns}`,
);
