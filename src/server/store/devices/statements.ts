/** Owns the SQL of devices. */
import { quickOperation } from '../write/quick.ts';
import { deviceBody, found, inOrg, statement } from '../postgres/sql.ts';

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

/** Values: organization, after this id, limit. */
export const listDevices = statement<BodyRow>(
  'list_devices',
  'SELECT id, revision, body FROM devices WHERE org_id = $1 AND id > $2 ORDER BY id LIMIT $3',
);

/** Values: organization, after this id, limit, greater than this revision. */
export const listDevicesSince = statement<BodyRow>(
  'list_devices_since',
  'SELECT id, revision, body FROM devices WHERE org_id = $1 AND id > $2 AND revision > $4 ORDER BY id LIMIT $3',
);

/** Values: organization, id. */
export const getDevice = statement<DeviceRow>(
  'get_device',
  `SELECT id, revision, body, user_id, public_key, security_groups FROM devices WHERE id = $2 AND ${inOrg('devices')}`,
);

const fields = {
  public_key: 'text',
  local_ip: 'text',
  tunnel_ip: 'text',
  child_prefix: 'text',
  relay: 'boolean',
  discovery: 'boolean',
  reflexive_ip4: 'text',
  endpoint_local_address_ip4: 'text',
  symmetric_nat: 'boolean',
  hostname: 'text',
};
const fieldColumns = Object.keys(fields);
const fieldsOf = (row: string): string => fieldColumns.map((column) => `${row}.${column}`).join(', ');
const columns = [
  'org_id',
  'id',
  'user_id',
  ...fieldColumns,
  'key_digest',
  'security_groups',
  'created_at',
  'updated_at',
  'revision',
].join(', ');

const member = (user: string): string => found('members m', `m.org_id = $1 AND m.user_id = ${user}`);
const keyTaken = found('devices o', `o.key_digest = decode(n.key_digest, 'hex')`);

const log = (type: 'change' | 'delete', from: string, revision = 'revision'): string =>
  `INSERT INTO changes (org_id, revision, kind, type, id, body, left_at) SELECT org_id, ${revision}, 'device', '${type}', id, body, 0 FROM ${from}`;

const insert = (source: string): string =>
  `new AS (INSERT INTO devices (${columns}, body) SELECT ${columns}, ${deviceBody('n')} FROM ${source} n RETURNING org_id, id, user_id, created_at, revision, body)`;

const token = { token_id: 'uuid', token_digest: 'text', token_name: 'text' };
const tokenColumns = 'id, digest, user_id, org_id, device_id, name, scope, created_at';

/** A device without groups, with its token if `token_digest` is given. Digests are in hexadecimal. */
export const createDevice = quickOperation('create_device', {
  columns: { id: 'uuid', user_id: 'uuid', ...fields, key_digest: 'text', at: 'timestamptz', ...token, actor: 'uuid' },
  select: `h.org_id, n.id, n.user_id, ${fieldsOf('n')}, decode(n.key_digest, 'hex') AS key_digest, '{}'::uuid[] AS security_groups,
    n.at AS created_at, n.at AS updated_at, n.token_id, decode(n.token_digest, 'hex') AS token_digest, n.token_name`,
  refusal: `CASE WHEN NOT ${member('n.actor')} OR (n.user_id <> n.actor AND NOT ${member('n.user_id')}) THEN 'not_a_member'
    WHEN ${keyTaken} THEN 'public_key_taken' END`,
  write: insert('accepted'),
  log: `, log AS (${log('change', 'new')}),
    token AS (
      INSERT INTO tokens (${tokenColumns})
      SELECT token_id, token_digest, user_id, org_id, id, token_name, 'full', created_at FROM accepted WHERE token_digest IS NOT NULL)`,
  oldBody: 'NULL',
  standing: 'NULL::bigint',
});

/** `n` is what is asked, `d` what is there; null stays, but `child_prefix` has a value null and says by a flag whether it is given. */
const patched = fieldColumns.map((column) =>
  column === 'child_prefix'
    ? 'CASE WHEN n.prefix_given THEN n.child_prefix ELSE d.child_prefix END'
    : `coalesce(n.${column}, d.${column})`,
);
const patchedFields = patched.map((value, index) => `${value} AS ${fieldColumns[index]}`).join(', ');
const same = `(${patched.join(', ')}) IS NOT DISTINCT FROM (${fieldsOf('d')})`;
const setFields = `${fieldColumns.map((column) => `${column} = n.${column}`).join(', ')}, key_digest = n.key_digest, updated_at = n.updated_at`;
const patch = { ...fields, prefix_given: 'boolean', key_digest: 'text', at: 'timestamptz' };
const patchedDevice = `n.id, d.user_id, ${patchedFields}, coalesce(decode(n.key_digest, 'hex'), d.key_digest) AS key_digest, d.created_at, n.at AS updated_at`;

/** Everything but the list of groups. */
export const updateDevice = quickOperation('update_device', {
  columns: { id: 'uuid', expected: 'bigint', ...patch, actor: 'uuid' },
  select: `h.org_id, ${patchedDevice}, d.security_groups`,
  from: `LEFT JOIN devices d ON d.id = n.id AND ${inOrg('d')}`,
  refusal: `CASE WHEN NOT ${member('n.actor')} THEN 'not_a_member'
    WHEN d.id IS NULL THEN 'not_found'
    WHEN d.revision <> n.expected THEN 'precondition_failed'
    WHEN ${same} THEN 'unchanged'
    WHEN n.key_digest IS NOT NULL AND decode(n.key_digest, 'hex') <> d.key_digest AND ${keyTaken} THEN 'public_key_taken' END`,
  write: `new AS (
    UPDATE devices d SET ${setFields}, revision = n.revision, body = ${deviceBody('n')}
    FROM accepted n WHERE d.id = n.id RETURNING d.org_id, d.id, d.revision, d.body)`,
  log: `, log AS (${log('change', 'new')})`,
  oldBody: 'd.body',
  standing: 'd.revision',
});

/** The careful ones take the same item as a JSON object `$2`, and what else they need beside it. */
const itemOf = (types: Readonly<Record<string, string>>): string =>
  `json_to_record($2::json) AS n (${Object.entries(types)
    .map(([column, type]) => `${column} ${type}`)
    .join(', ')})`;

/** Careful. Values: organization, item of `createDevice`, list, revision. */
export const insertDevice = statement<BodyRow>(
  'insert_device',
  `WITH item AS MATERIALIZED (
     SELECT $1::uuid AS org_id, n.*, $3::uuid[] AS security_groups, at AS created_at, at AS updated_at, $4::bigint AS revision
     FROM ${itemOf({ id: 'uuid', user_id: 'uuid', ...fields, key_digest: 'text', at: 'timestamptz', ...token })}),
   ready AS MATERIALIZED (
     SELECT org_id, id, user_id, ${fieldColumns.join(', ')}, decode(key_digest, 'hex') AS key_digest, security_groups, created_at, updated_at, revision FROM item),
   ${insert('ready')},
   log AS (${log('change', 'new')}),
   token AS (
     INSERT INTO tokens (${tokenColumns})
     SELECT token_id, decode(token_digest, 'hex'), user_id, org_id, id, token_name, 'full', created_at FROM item WHERE token_digest IS NOT NULL),
   links AS (INSERT INTO device_groups (device_id, group_id) SELECT id, unnest($3::uuid[]) FROM new)
   SELECT id, revision, body FROM new`,
);

/** Careful: fields and list. Values: organization, item of `updateDevice`, list, revision. No row: nothing would change. */
export const putDevice = statement<BodyRow>(
  'put_device',
  `WITH next AS MATERIALIZED (
     SELECT d.org_id, ${patchedDevice}, $3::uuid[] AS security_groups FROM ${itemOf({ id: 'uuid', ...patch })}
     JOIN devices d ON d.id = n.id AND ${inOrg('d')} AND NOT (${same} AND $3::uuid[] = d.security_groups)),
   new AS (
     UPDATE devices d SET ${setFields}, security_groups = n.security_groups, revision = $4, body = ${deviceBody('n')}
     FROM next n WHERE d.id = n.id RETURNING d.org_id, d.id, d.revision, d.body),
   log AS (${log('change', 'new')})
   SELECT id, revision, body FROM new`,
);

/** Careful: just the list. Values: organization, id, list, now, revision. */
export const setList = statement<BodyRow>(
  'set_list',
  `WITH next AS MATERIALIZED (
    SELECT d.org_id, d.id, d.user_id, ${fieldsOf('d')}, d.created_at, $3::uuid[] AS security_groups, $4::timestamptz AS updated_at
    FROM devices d WHERE d.id = $2 AND ${inOrg('d')}),
  unlinked AS (DELETE FROM device_groups WHERE device_id = $2 AND group_id <> ALL ($3::uuid[])),
  new AS (
    UPDATE devices d SET security_groups = n.security_groups, updated_at = n.updated_at, revision = $5, body = ${deviceBody('n')}
    FROM next n WHERE d.id = $2
    RETURNING d.org_id, d.id, d.revision, d.body),
  log AS (${log('change', 'new')})
  SELECT id, revision, body FROM new`,
);

/** Careful. Values: device, list. */
export const relink = statement<never>(
  'relink',
  `WITH gone AS (DELETE FROM device_groups WHERE device_id = $1 AND group_id <> ALL ($2::uuid[]))
   INSERT INTO device_groups (device_id, group_id) SELECT $1, unnest($2::uuid[]) ON CONFLICT DO NOTHING`,
);

/** Careful. Values: the key's digest. */
export const findByKey = statement<{ id: string }>('find_by_key', 'SELECT id FROM devices WHERE key_digest = $1');

/** Careful. Values: organization, user. */
export const isMember = statement<{ user_id: string }>(
  'is_member',
  'SELECT user_id FROM members WHERE org_id = $1 AND user_id = $2',
);

/** Careful: one use of an enrollment key. Values: organization, key, now. */
export const useKey = statement<{ user_id: string; security_groups: string[] }>(
  'use_key',
  `UPDATE enrollment_keys SET uses_left = uses_left - 1 WHERE id = $2 AND ${inOrg('enrollment_keys')} AND uses_left > 0 AND expires_at > $3
   RETURNING user_id, security_groups`,
);

/** Careful: the tokens of one device, of a user's devices or of all devices in an organization are noted as ended. */
const endTokensOf = (devices: string): string =>
  `INSERT INTO revocations (token_id) SELECT t.id FROM devices d JOIN tokens t ON t.device_id = d.id WHERE ${devices} RETURNING token_id`;
export const endTokensOfDevice = statement<{ token_id: string }>('end_tokens_of_device', endTokensOf('d.id = $1'));
export const endTokensOfUser = statement<{ token_id: string }>(
  'end_tokens_of_user',
  endTokensOf('d.org_id = $1 AND d.user_id = $2'),
);
export const endTokensOfOrganization = statement<{ token_id: string }>(
  'end_tokens_of_organization',
  endTokensOf('d.org_id = $1'),
);

/** Careful. Values: organization, id, revision of the deletion. */
export const deleteDevice = statement<BodyRow>(
  'delete_device',
  `WITH gone AS (DELETE FROM devices WHERE id = $2 AND ${inOrg('devices')} RETURNING org_id, id, body)
   ${log('delete', 'gone', '$3')} RETURNING id, revision, body`,
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
  `INSERT INTO device_status (org_id, device_id, status, reported_at) SELECT org_id, id, $3, $4 FROM devices WHERE id = $2 AND ${inOrg('devices')} FOR KEY SHARE
   ON CONFLICT (org_id, device_id) DO UPDATE SET status = excluded.status, reported_at = excluded.reported_at
   RETURNING device_id`,
);

/** Values: organization, after this id, limit. */
export const listStatuses = statement<{ device_id: string; status: string; reported_at: string }>(
  'list_statuses',
  'SELECT device_id, status, reported_at FROM device_status WHERE org_id = $1 AND device_id > $2 ORDER BY device_id LIMIT $3',
);
