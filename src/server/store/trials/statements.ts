/** Owns the reading of trials in SQL. */
import { inOrg, statement } from '../postgres/sql.ts';
import { trialColumns as columns, type TrialRow } from '../write/trial.ts';

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
