/** Owns the SQL of trials: their rows, and the writes to their records when a trial is widened or ends. */
import { deviceBody, storedDeviceBody } from '../devices/body.ts';
import { fieldsOf } from '../devices/fields.ts';
import { identityIfChanged, keepIdentities } from '../devices/identity.ts';
import { dropSelectors, keepSelectors } from '../devices/selectors.ts';
import { groupBody, storedGroupBody } from '../groups/body.ts';
import { inOrg, statement } from '../postgres/sql.ts';
import { onlyFor } from '../schema/fragments.ts';
import { keepStates } from '../write/history.ts';
import { isNewerDevice, isNewerGroup } from '../write/newer-record.ts';
import { headVersion, logChanges, takeRevisions } from '../write/revisions.ts';

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

/** Under the lock. The records of a trial that are still there. Values: organization, groups, trial. */
export const findGroupsOnTrial = statement<{ id: string; user_id: string | null; trial: string }>(
  'find_groups_on_trial',
  `SELECT g.id, g.user_id, g.trial FROM security_groups g
   WHERE g.id = ANY ($2::uuid[]) AND ${inOrg('g')} AND g.trial::json ->> 'id' = $3 ORDER BY g.id`,
);
/** Values: organization, devices, trial. */
export const findDevicesOnTrial = statement<{ id: string; user_id: string; trial: string; security_groups: string[] }>(
  'find_devices_on_trial',
  `SELECT d.id, d.user_id, d.trial, d.security_groups FROM devices d
   WHERE d.id = ANY ($2::uuid[]) AND ${inOrg('d')} AND d.trial::json ->> 'id' = $3 ORDER BY d.id`,
);

/** Which of the records has fields that this program does not know. Values: organization, groups, devices. */
export const findNewer = statement<{ what: 'group' | 'device' }>(
  'find_newer_on_trial',
  `SELECT 'group' AS what FROM security_groups g WHERE g.id = ANY ($2::uuid[]) AND ${inOrg('g')} AND ${isNewerGroup(storedGroupBody('g'))}
   UNION ALL SELECT 'device' FROM devices d WHERE d.id = ANY ($3::uuid[]) AND ${inOrg('d')} AND ${isNewerDevice(storedDeviceBody('d'))} LIMIT 1`,
);

/** Values: organization, user. */
export const getRole = statement<{ role: string }>(
  'get_role_for_trial',
  'SELECT role FROM members WHERE org_id = $1 AND user_id = $2',
);

const groupFields = {
  group_name: 'text',
  group_description: 'text',
  inbound_rules: 'text',
  outbound_rules: 'text',
  applies_to: 'text',
  mode: 'text',
  inbound_ranges: 'integer',
  outbound_ranges: 'integer',
};
const groupColumns = Object.keys(groupFields);

/** What is written over a group on trial: a field that is null stays, the trial that is null ends. */
export interface GroupRewrite {
  readonly id: string;
  readonly trial: string | null;
  readonly group_name?: string;
  readonly group_description?: string;
  readonly inbound_rules?: string;
  readonly outbound_rules?: string;
  readonly applies_to?: string;
  readonly mode?: string;
  readonly inbound_ranges?: number;
  readonly outbound_ranges?: number;
}

/** Under the lock. Values: organization, groups as JSON, who, now. */
export const rewriteGroups = statement<{ id: string; revision: number }>(
  'rewrite_groups_on_trial',
  `WITH asked AS MATERIALIZED (SELECT * FROM json_to_recordset($2::json) AS a (id uuid, trial text, ${Object.entries(
    groupFields,
  )
    .map(([column, type]) => `${column} ${type}`)
    .join(', ')})),
   moving AS MATERIALIZED (
     SELECT g.org_id, g.id, g.user_id, g.is_default, g.guardrail, g.created_at, $4::timestamptz AS updated_at, a.trial,
       ${groupColumns.map((column) => `coalesce(a.${column}, g.${column}) AS ${column}`).join(', ')}, ${headVersion}
     FROM asked a JOIN security_groups g ON g.id = a.id AND ${inOrg('g')}),
   ${takeRevisions('moving', 'ORDER BY moving.id')},
   new AS (
     UPDATE security_groups g SET ${groupColumns.map((column) => `${column} = n.${column}`).join(', ')}, trial = n.trial, updated_at = n.updated_at,
       revision = n.revision, body = ${groupBody('n')}
     FROM numbered n WHERE g.id = n.id RETURNING g.*),
   kept AS (${keepStates({ kind: 'security-groups', type: 'change', from: 'new', owner: 'new.user_id', onlyFor: onlyFor('new'), by: '$3::uuid', at: '$4::timestamptz' })}),
   dropped AS (${dropSelectors('new')}), selectors AS (${keepSelectors('new')})
   ${logChanges({ kind: 'security-groups', type: 'change', from: 'new', onlyFor: onlyFor('new'), leftAt: 'new.left_at' })} RETURNING id, revision`,
);

/** What is written over a device on trial: a list that is null stays, the trial that is null ends. */
export interface DeviceRewrite {
  readonly id: string;
  readonly trial: string | null;
  readonly security_groups?: readonly string[];
}

/** Under the lock. Values: organization, devices as JSON, who, now. */
export const rewriteDevices = statement<{ id: string; revision: number }>(
  'rewrite_devices_on_trial',
  `WITH asked AS MATERIALIZED (SELECT * FROM json_to_recordset($2::json) AS a (id uuid, trial text, security_groups uuid[])),
   moving AS MATERIALIZED (
     SELECT d.org_id, d.id, d.user_id, ${fieldsOf('d')}, coalesce(a.security_groups, d.security_groups) AS security_groups, a.trial,
       true AS identity_changed, d.created_at, $4::timestamptz AS updated_at, ${headVersion}
     FROM asked a JOIN devices d ON d.id = a.id AND ${inOrg('d')}),
   ${takeRevisions('moving', 'ORDER BY moving.id')},
   new AS (
     UPDATE devices d SET security_groups = n.security_groups, trial = n.trial, updated_at = n.updated_at, revision = n.revision, body = ${deviceBody('n')}
     FROM numbered n WHERE d.id = n.id RETURNING d.org_id, d.id, d.user_id, d.revision, d.body, ${identityIfChanged('n', 'd')}),
   identities AS (${keepIdentities('new')}),
   kept AS (${keepStates({ kind: 'device', type: 'change', from: 'new', owner: 'new.user_id', by: '$3::uuid', at: '$4::timestamptz' })})
   ${logChanges({ kind: 'device', type: 'change', from: 'new', identity: 'new.identity' })} RETURNING id, revision`,
);

/** Under the lock: a group that goes is on trial no longer. Values: organization, groups. */
export const releaseGroups = statement<never>(
  'release_groups_on_trial',
  `UPDATE security_groups g SET trial = NULL WHERE g.id = ANY ($2::uuid[]) AND ${inOrg('g')}`,
);
