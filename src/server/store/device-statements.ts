/** Owns the SQL of devices. */
import type { QuickRow } from './context.ts';
import { deviceBody, statement } from './sql.ts';

interface BodyRow {
  readonly id: string;
  readonly revision: number;
  readonly body: string;
}

export interface DeviceRow extends BodyRow {
  readonly user_id: string;
  readonly public_key: string;
  readonly security_groups: string[];
}

/** Values: organization, greater than this revision, after this id, limit. */
export const listDevices = statement<BodyRow>(
  'list_devices',
  'SELECT id, revision, body FROM devices WHERE org_id = $1 AND revision > $2 AND id > $3 ORDER BY id LIMIT $4',
);

/** Values: organization, id. */
export const getDevice = statement<DeviceRow>(
  'get_device',
  'SELECT id, revision, body, user_id, public_key, security_groups FROM devices WHERE org_id = $1 AND id = $2',
);

const fieldColumns = [
  'public_key',
  'local_ip',
  'tunnel_ip',
  'child_prefix',
  'relay',
  'discovery',
  'reflexive_ip4',
  'endpoint_local_address_ip4',
  'symmetric_nat',
  'hostname',
] as const;
const columns = ['org_id', 'id', 'user_id', ...fieldColumns, 'security_groups', 'created_at', 'updated_at'].join(', ');

const log = (type: 'change' | 'delete', from: string, revision = 'revision'): string =>
  `INSERT INTO changes (org_id, revision, kind, type, id, body, left_at) SELECT org_id, ${revision}, 'device', '${type}', id, body, 0 FROM ${from}`;

/** `$1` organization, `$2` id, `$3` user, `$4`…`$13` the fields in order, `$14` now. */
const newDevice = `$1::uuid AS org_id, $2::uuid AS id, $3::uuid AS user_id, $4::text AS public_key, $5::text AS local_ip, $6::text AS tunnel_ip,
  $7::text AS child_prefix, $8::boolean AS relay, $9::boolean AS discovery, $10::text AS reflexive_ip4, $11::text AS endpoint_local_address_ip4,
  $12::boolean AS symmetric_nat, $13::text AS hostname, $14::timestamptz AS created_at, $14::timestamptz AS updated_at`;

const insertAndLog = (source: string): string => `
  new AS (
    INSERT INTO devices (${columns}, revision, body) SELECT ${columns}, revision, ${deviceBody('n')} FROM (${source}) n
    RETURNING org_id, id, user_id, revision, body),
  log AS (${log('change', 'new')})`;

/** `$15` token id, `$16` digest or null, `$17` the token's name. */
const insertToken = `
  token AS (
    INSERT INTO tokens (id, digest, user_id, org_id, device_id, name, scope, created_at)
    SELECT $15::uuid, $16::bytea, user_id, org_id, id, $17::text, 'full', $14 FROM new WHERE $16::bytea IS NOT NULL)`;

/** Quick: a device without groups. Values: as named above, then the actor. */
export const createDevice = statement<QuickRow>(
  'create_device',
  `WITH seen AS MATERIALIZED (
    SELECT h.version, ${newDevice}, '{}'::uuid[] AS security_groups,
      CASE WHEN NOT EXISTS (SELECT FROM members m WHERE m.org_id = $1 AND m.user_id = $18) THEN 'not_a_member'
           WHEN $3 <> $18 AND NOT EXISTS (SELECT FROM members m WHERE m.org_id = $1 AND m.user_id = $3) THEN 'not_a_member'
           WHEN EXISTS (SELECT FROM devices d WHERE d.org_id = $1 AND d.public_key = $4) THEN 'public_key_taken'
      END AS refusal
    FROM heads h WHERE h.org_id = $1),
  bump AS (
    UPDATE heads h SET revision = h.revision + 1, version = h.version + 1 FROM seen
    WHERE h.org_id = $1 AND h.version = seen.version AND seen.refusal IS NULL
    RETURNING h.revision),
  ${insertAndLog('SELECT seen.*, bump.revision FROM seen, bump')},
  ${insertToken}
  SELECT $2::uuid AS id, seen.refusal, NULL::bigint AS standing, new.revision, new.body FROM seen LEFT JOIN new ON true`,
);

/** Careful. Values: as named above, then the list of groups, then the revision. */
export const insertDevice = statement<BodyRow>(
  'insert_device',
  `WITH ${insertAndLog(`SELECT ${newDevice}, $18::uuid[] AS security_groups, $19::bigint AS revision`)},
   ${insertToken},
   links AS (INSERT INTO device_groups (org_id, device_id, group_id) SELECT org_id, id, unnest($18::uuid[]) FROM new)
   SELECT id, revision, body FROM new`,
);

/** `$4`…`$13`: the fields, null for what stays; `$14`: whether `child_prefix` is given, because null is a value of it. */
const patched = (column: string, index: number): string =>
  column === 'child_prefix'
    ? `CASE WHEN $14::boolean THEN $${index + 4} ELSE d.child_prefix END AS child_prefix`
    : `coalesce($${index + 4}, d.${column}) AS ${column}`;
const patchedFields = fieldColumns.map(patched).join(', ');
const setFields = fieldColumns.map((column) => `${column} = n.${column}`).join(', ');
const same = `(${fieldColumns.map((column) => `n.${column}`).join(', ')}) IS NOT DISTINCT FROM (${fieldColumns.map((column) => `d.${column}`).join(', ')})`;
const patchFrom = (extra: string): string =>
  `SELECT d.org_id, d.id, d.user_id, d.created_at, $15::timestamptz AS updated_at, ${patchedFields}, ${extra} FROM devices d WHERE d.org_id = $1 AND d.id = $2`;

/** Quick: everything but the list. Values: organization, id, expected revision or null, fields, `child_prefix` given, now, actor. */
export const updateDevice = statement<QuickRow>(
  'update_device',
  `WITH next AS MATERIALIZED (${patchFrom('d.security_groups')}),
  seen AS MATERIALIZED (
    SELECT h.version, d.revision AS standing, d.body AS old_body,
      CASE WHEN NOT EXISTS (SELECT FROM members m WHERE m.org_id = $1 AND m.user_id = $16) THEN 'not_a_member'
           WHEN d.id IS NULL THEN 'not_found'
           WHEN d.revision <> $3 THEN 'precondition_failed'
           WHEN ${same} THEN 'unchanged'
           WHEN n.public_key <> d.public_key AND EXISTS (SELECT FROM devices o WHERE o.org_id = $1 AND o.public_key = n.public_key) THEN 'public_key_taken'
      END AS refusal
    FROM heads h LEFT JOIN devices d ON d.org_id = h.org_id AND d.id = $2 LEFT JOIN next n ON true WHERE h.org_id = $1),
  bump AS (
    UPDATE heads h SET revision = h.revision + 1, version = h.version + 1 FROM seen
    WHERE h.org_id = $1 AND h.version = seen.version AND seen.refusal IS NULL
    RETURNING h.revision),
  new AS (
    UPDATE devices d SET ${setFields}, updated_at = n.updated_at, revision = bump.revision, body = ${deviceBody('n')}
    FROM next n, bump WHERE d.org_id = $1 AND d.id = $2
    RETURNING d.org_id, d.id, d.revision, d.body),
  log AS (${log('change', 'new')})
  SELECT $2::uuid AS id, seen.refusal, seen.standing, new.revision, coalesce(new.body, seen.old_body) AS body FROM seen LEFT JOIN new ON true`,
);

/** Careful: fields and list. Values: organization, id, revision, fields, `child_prefix` given, now, list. No row: nothing would change. */
export const putDevice = statement<BodyRow>(
  'put_device',
  `WITH next AS MATERIALIZED (${patchFrom('$16::uuid[] AS security_groups')}),
  new AS (
    UPDATE devices d SET ${setFields}, security_groups = n.security_groups, updated_at = n.updated_at, revision = $3, body = ${deviceBody('n')}
    FROM next n WHERE d.org_id = $1 AND d.id = $2 AND NOT (${same} AND n.security_groups = d.security_groups)
    RETURNING d.org_id, d.id, d.revision, d.body),
  log AS (${log('change', 'new')})
  SELECT id, revision, body FROM new`,
);

/** Careful: just the list. Values: organization, id, list, now, revision. */
export const setList = statement<BodyRow>(
  'set_list',
  `WITH next AS MATERIALIZED (
    SELECT d.org_id, d.id, d.user_id, ${fieldColumns.map((column) => `d.${column}`).join(', ')}, d.created_at,
      $3::uuid[] AS security_groups, $4::timestamptz AS updated_at FROM devices d WHERE d.org_id = $1 AND d.id = $2),
  unlinked AS (DELETE FROM device_groups WHERE org_id = $1 AND device_id = $2 AND group_id <> ALL ($3::uuid[])),
  new AS (
    UPDATE devices d SET security_groups = n.security_groups, updated_at = n.updated_at, revision = $5, body = ${deviceBody('n')}
    FROM next n WHERE d.org_id = $1 AND d.id = $2
    RETURNING d.org_id, d.id, d.revision, d.body),
  log AS (${log('change', 'new')})
  SELECT id, revision, body FROM new`,
);

/** Careful. Values: organization, device, list. */
export const relink = statement<never>(
  'relink',
  `WITH gone AS (DELETE FROM device_groups WHERE org_id = $1 AND device_id = $2 AND group_id <> ALL ($3::uuid[]))
   INSERT INTO device_groups (org_id, device_id, group_id) SELECT $1, $2, unnest($3::uuid[]) ON CONFLICT DO NOTHING`,
);

/** Careful. Values: organization, public key. */
export const findByKey = statement<{ id: string }>(
  'find_by_key',
  'SELECT id FROM devices WHERE org_id = $1 AND public_key = $2',
);

/** Careful. Values: organization, user. */
export const isMember = statement<{ user_id: string }>(
  'is_member',
  'SELECT user_id FROM members WHERE org_id = $1 AND user_id = $2',
);

/** Careful: one use of an enrollment key. Values: organization, key, now. */
export const useKey = statement<{ user_id: string; security_groups: string[] }>(
  'use_key',
  `UPDATE enrollment_keys SET uses_left = uses_left - 1 WHERE org_id = $1 AND id = $2 AND uses_left > 0 AND expires_at > $3
   RETURNING user_id, security_groups`,
);

/** Careful: the tokens of a user's devices in an organization, or of one device, are noted as ended. Values: organization, user or null, device or null. */
export const endTokens = statement<{ token_id: string }>(
  'end_tokens',
  `INSERT INTO revocations (token_id)
   SELECT t.id FROM tokens t JOIN devices d ON d.org_id = t.org_id AND d.id = t.device_id
   WHERE t.org_id = $1 AND ($2::uuid IS NULL OR d.user_id = $2) AND ($3::uuid IS NULL OR d.id = $3)
   RETURNING token_id`,
);

/** Careful. Values: organization, id, revision of the deletion. */
export const deleteDevice = statement<BodyRow>(
  'delete_device',
  `WITH gone AS (DELETE FROM devices WHERE org_id = $1 AND id = $2 RETURNING org_id, id, body) ${log('delete', 'gone', '$3')} RETURNING id, revision, body`,
);

/** Careful. Values: organization, user, the revision before the first. */
export const deleteDevicesOf = statement<never>(
  'delete_devices_of',
  `WITH gone AS (DELETE FROM devices WHERE org_id = $1 AND user_id = $2 RETURNING org_id, id, body)
   ${log('delete', 'gone', '$3 + row_number() OVER (ORDER BY id)')}`,
);

/** Careful. Values: organization, user. */
export const countOf = statement<{ devices: number; groups: number }>(
  'count_of',
  `SELECT (SELECT count(*) FROM devices WHERE org_id = $1 AND user_id = $2) AS devices,
          (SELECT count(*) FROM security_groups WHERE org_id = $1 AND user_id = $2) AS groups`,
);

/** Values: organization, device, status, now. No row: no such device. */
export const reportStatus = statement<{ device_id: string }>(
  'report_status',
  `INSERT INTO device_status (org_id, device_id, status, reported_at) SELECT org_id, id, $3, $4 FROM devices WHERE org_id = $1 AND id = $2
   ON CONFLICT (org_id, device_id) DO UPDATE SET status = excluded.status, reported_at = excluded.reported_at
   RETURNING device_id`,
);

/** Values: organization, after this id, limit. */
export const listStatuses = statement<{ device_id: string; status: string; reported_at: string }>(
  'list_statuses',
  'SELECT device_id, status, reported_at FROM device_status WHERE org_id = $1 AND device_id > $2 ORDER BY device_id LIMIT $3',
);
