/** Owns the SQL that gives a member's devices to another user and removes the groups that only the member could apply. */
import { selectOpened, type OpenedRow } from './opening.ts';
import { enforcesAny, isReplacedAfterTrials, isReplacedByLabel } from './selectors.ts';
import { statement } from '../postgres/sql.ts';
import { keepStates } from '../write/history.ts';
import { isNewerDevice } from '../write/newer-record.ts';
import { headVersion, logChanges, takeRevisions } from '../write/revisions.ts';
import { deviceBody } from './body.ts';
import { fieldsOf } from './fields.ts';
import { identityIfChanged, keepIdentities } from './identity.ts';

/** A device's list without the groups of user `$2`. */
const remaining = `ARRAY(
  SELECT l.id FROM unnest(d.security_groups) WITH ORDINALITY AS l (id, n) JOIN security_groups g ON g.id = l.id
  WHERE g.user_id IS DISTINCT FROM $2::uuid ORDER BY l.n)`;

/** The devices to which the default group would apply once they are handed over. Values: organization, user. */
export const findOpened = statement<OpenedRow>(
  'find_opened_devices',
  selectOpened(
    `d.user_id = $2 AND ${enforcesAny('d.security_groups')} AND NOT ${enforcesAny(remaining)} AND NOT (${isReplacedByLabel('d.labels')} AND ${isReplacedAfterTrials('d.labels')})`,
  ),
);

/** What a hand-over changes of a user's devices. Values: organization, devices or null, user or null. */
export const findHandedOver = statement<{ id: string; hostname: string; user_id: string; security_groups: string[] }>(
  'find_handed_over_devices',
  `SELECT d.id, d.hostname, d.user_id, d.security_groups FROM devices d
   WHERE d.org_id = $1 AND ($2::uuid[] IS NULL OR d.id = ANY ($2)) AND ($3::uuid IS NULL OR d.user_id = $3)`,
);

/** Whether a device of the user has fields that this program does not know. Values: organization, user. */
export const findNewerDevice = statement<{ id: string }>(
  'find_newer_device',
  `SELECT d.id FROM devices d WHERE d.org_id = $1 AND d.user_id = $2 AND ${isNewerDevice({ body: 'd.body', written: deviceBody('d') })} LIMIT 1`,
);

/** In a transaction. Values: organization, user, the new user, now. */
export const handOver = statement<{ id: string; revision: number }>(
  'hand_over_devices',
  `WITH moving AS MATERIALIZED (
     SELECT d.org_id, d.id, $3::uuid AS user_id, ${fieldsOf('d')}, ${remaining} AS security_groups,
       ${remaining} <> d.security_groups AS identity_changed, d.trial, d.created_at, $4::timestamptz AS updated_at, ${headVersion}
     FROM devices d WHERE d.org_id = $1 AND d.user_id = $2),
   ${takeRevisions('moving', 'ORDER BY moving.id')},
   new AS (
     UPDATE devices d SET user_id = n.user_id, security_groups = n.security_groups, updated_at = n.updated_at, revision = n.revision,
       body = ${deviceBody('n')}
     FROM numbered n WHERE d.id = n.id RETURNING d.org_id, d.id, d.revision, d.body, ${identityIfChanged('n', 'd')}),
   identities AS (${keepIdentities('new')}),
   kept AS (${keepStates({ kind: 'device', type: 'change', from: 'new', owner: '$3::uuid', by: '$3::uuid', at: '$4::timestamptz' })})
   ${logChanges({ kind: 'device', type: 'change', from: 'new', identity: 'new.identity' })} RETURNING id, revision`,
);

/** In a transaction: no device holds a group of this member any more. Values: organization, user. */
export const unlinkMemberGroups = statement<never>(
  'unlink_member_groups',
  `DELETE FROM device_groups l USING security_groups g WHERE g.id = l.group_id AND g.org_id = $1 AND g.user_id = $2`,
);

/** In a transaction: agents go on with the tokens that they have. Values: devices, the new user. */
export const handOverTokens = statement<never>(
  'hand_over_tokens',
  'UPDATE tokens SET user_id = $2 WHERE device_id = ANY ($1::uuid[])',
);
