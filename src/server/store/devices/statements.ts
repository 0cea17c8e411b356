/** Owns the SQL of devices. */
import { found, inOrg, statement, withinBytes, type PageRow } from '../postgres/sql.ts';
import { isMember, noteRevoked } from '../schema/fragments.ts';
import { refuseNewerDevice } from '../write/newer-record.ts';
import { singleStatement, type SingleStatementOperation } from '../write/single-statement.ts';
import { returnedToAudit, type SingleStatementChanges } from '../write/audit-entry.ts';
import { bySingleInsert, bySingleUpdate, keepStates } from '../write/history.ts';
import { headVersion, logChanges, takeRevision, takeRevisions } from '../write/revisions.ts';
import { refusedToOthers, type ForOwners } from '../write/right.ts';
import { deviceBody, identityBody, identityColumns, storedDeviceBody } from './body.ts';
import { fieldColumns, fields, fieldsOf, policyColumns } from './fields.ts';
import { identityIfChanged, keepIdentities } from './identity.ts';

interface BodyRow {
  readonly id: string;
  readonly revision: number;
  readonly body: string;
}

export interface DeviceRow extends BodyRow {
  readonly user_id: string;
  readonly public_key: string;
  readonly security_groups: string[];
  readonly trial: string | null;
}

const byBytes = { bytes: '$4', length: 'octet_length(p.body)', order: 'p.id' } as const;
/** Values: organization, after this id, limit, bytes. */
export const listDevices = statement<BodyRow & PageRow>(
  'list_devices',
  withinBytes('SELECT id, revision, body FROM devices WHERE org_id = $1 AND id > $2 ORDER BY id LIMIT $3', byBytes),
);

/** Values: organization, after this id, limit, bytes, greater than this revision. */
export const listDevicesSince = statement<BodyRow & PageRow>(
  'list_devices_since',
  withinBytes(
    'SELECT id, revision, body FROM devices WHERE org_id = $1 AND id > $2 AND revision > $5 ORDER BY id LIMIT $3',
    byBytes,
  ),
);

/** Values: organization, user. */
export const devicesOfUser = statement<{ id: string }>(
  'devices_of_user',
  'SELECT id FROM devices WHERE org_id = $1 AND user_id = $2',
);

/** Values: organization, id. */
export const getDevice = statement<DeviceRow>(
  'get_device',
  `SELECT id, revision, body, user_id, public_key, security_groups, trial FROM devices WHERE id = $2 AND ${inOrg('devices')}`,
);

/** Values: organization, ids. */
export const findDevices = statement<BodyRow>(
  'devices_by_id',
  `SELECT id, revision, body FROM devices WHERE id = ANY ($2::uuid[]) AND ${inOrg('devices')}`,
);

const columns = [
  'org_id',
  'id',
  'user_id',
  ...fieldColumns,
  'key_digest',
  'security_groups',
  'trial',
  'created_at',
  'updated_at',
  'revision',
].join(', ');

const keyTaken = found('devices o', `o.key_digest = decode(n.key_digest, 'hex')`);

const log = (type: 'change' | 'delete', from: string): string =>
  logChanges({
    kind: 'device',
    type,
    from,
    identity: `${from}.identity`,
    ...(type === 'delete' && { born: `${from}.born` }),
  });

const deviceCreationForOwners: readonly ForOwners[] = [
  { when: '(n.user_id <> n.actor)', code: 'forbidden' },
  { when: `(n.labels <> '{}')`, code: 'labels_by_owner' },
];

/** A device with its token if `token_digest` is given. Digests are in hexadecimal. That its list may be so is checked before (`group-list.ts`). */
export const createDevice = singleStatement('create_device', {
  columns: {
    id: 'uuid',
    user_id: 'uuid',
    ...fields,
    key_digest: 'text',
    security_groups: 'uuid[]',
    at: 'timestamptz',
    token_id: 'uuid',
    token_digest: 'text',
    token_name: 'text',
    actor: 'uuid',
    most: 'integer',
  },
  select: `h.org_id, n.id, n.user_id, ${fieldsOf('n')}, decode(n.key_digest, 'hex') AS key_digest,
    coalesce(n.security_groups, '{}') AS security_groups, NULL::text AS trial, n.at AS created_at, n.at AS updated_at,
    n.token_id, decode(n.token_digest, 'hex') AS token_digest, n.token_name`,
  adds: 'devices',
  owned: { whose: 'n.user_id' },
  forOwners: deviceCreationForOwners,
  refusal: `${refusedToOthers(deviceCreationForOwners)}
    WHEN n.user_id <> n.actor AND NOT ${isMember('n.user_id')} THEN 'not_a_member'
    WHEN ${keyTaken} THEN 'public_key_taken'`,
  changesVerdicts: 'true',
  write: `new AS (
    INSERT INTO devices (${columns}, born, body) SELECT ${columns}, n.revision, ${deviceBody('n')} FROM numbered n
    RETURNING org_id, id, revision, body, ${identityBody('devices')} AS identity)`,
  log: log('change', 'new'),
  besides: `, identities AS (${keepIdentities('new')}),
    kept AS (${keepStates({ ...bySingleInsert, kind: 'device', type: 'change', owner: 'n.user_id' })}),
    token AS (
      INSERT INTO tokens (id, digest, user_id, org_id, device_id, name, scope, created_at)
      SELECT token_id, token_digest, user_id, org_id, id, token_name, 'full', created_at FROM numbered WHERE token_digest IS NOT NULL)`,
  oldBody: 'NULL',
  standing: 'NULL::bigint',
});

/** `n` is what is asked, `d` what is there; null stays, but `child_prefix` has a value null and says by a flag whether it is given. */
const patched = fieldColumns.map((column) =>
  column === 'child_prefix'
    ? 'CASE WHEN n.prefix_given THEN n.child_prefix ELSE d.child_prefix END'
    : `coalesce(n.${column}, d.${column})`,
);
const patchedOf = (name: string): string =>
  name === 'security_groups' ? patchedList : (patched[fieldColumns.indexOf(name)] ?? '');
const patchedFields = patched.map((value, index) => `${value} AS ${fieldColumns[index]}`).join(', ');
const patchedList = 'coalesce(n.security_groups, d.security_groups)';
const same = `(${patched.join(', ')}, ${patchedList}) IS NOT DISTINCT FROM (${fieldsOf('d')}, d.security_groups)`;
const isChanged = (...names: readonly string[]): string =>
  `(${names.map((name) => patchedOf(name)).join(', ')}) IS DISTINCT FROM (${names.map((name) => `d.${name}`).join(', ')})`;
const written = [...fieldColumns, 'key_digest', 'security_groups', 'trial', 'updated_at', 'revision'];

interface Identity {
  /** What the audit records of a written row. */
  readonly changes: SingleStatementChanges;
  /** Further values, as those of the operation. */
  readonly columns?: Readonly<Record<string, string>>;
  /** A trial that a write starts, or the one that is pending. */
  readonly trial: string;
  /** Before anything else that the record may refuse. */
  readonly pending: string;
  /** Whether what a row asks for changes its identity, as a column of `n`. */
  readonly flag: string;
  readonly refusals: string;
  readonly forOwners?: readonly ForOwners[];
  /** Where another public key may be given. */
  readonly keyRefusal: string;
  readonly changesVerdicts?: string;
  /** Of a row that was written. */
  readonly column: string;
  readonly keep: string;
}

/** A list that is null stays as it is. That a given one may be so is checked before (`group-list.ts`). */
const deviceUpdate = (name: string, identity: Identity): SingleStatementOperation =>
  singleStatement(name, {
    columns: {
      id: 'uuid',
      expected: 'bigint',
      ...fields,
      prefix_given: 'boolean',
      key_digest: 'text',
      security_groups: 'uuid[]',
      at: 'timestamptz',
      actor: 'uuid',
      ...identity.columns,
    },
    select: `h.org_id, n.id, d.user_id, ${patchedFields}, coalesce(decode(n.key_digest, 'hex'), d.key_digest) AS key_digest,
    ${patchedList} AS security_groups, ${identity.trial} AS trial, d.created_at, n.at AS updated_at ${identity.flag}`,
    from: `LEFT JOIN devices d ON d.id = n.id AND ${inOrg('d')}`,
    owned: { whose: 'd.user_id', missing: 'd.id IS NULL' },
    refusal: `WHEN d.revision <> n.expected THEN 'precondition_failed'
    ${identity.pending} WHEN ${same} THEN 'unchanged' ${refuseNewerDevice(storedDeviceBody('d'))} ${identity.refusals} ${identity.keyRefusal}`,
    ...(identity.forOwners && { forOwners: identity.forOwners }),
    ...(identity.changesVerdicts !== undefined && { changesVerdicts: identity.changesVerdicts }),
    write: `new AS (
    UPDATE devices d SET ${written.map((column) => `${column} = n.${column}`).join(', ')}, body = ${deviceBody('n')}
    FROM numbered n WHERE d.id = n.id RETURNING d.org_id, d.id, d.revision, d.body, ${identity.column}, ${returnedToAudit})`,
    log: log('change', 'new'),
    besides: identity.keep,
    oldBody: 'd.body',
    standing: 'd.revision',
    changes: identity.changes,
  });

/** Where the device is reached, and nothing of what it is, its public key neither: thousands a second, so that nothing is prepared here that such a write does not need. */
export const updateEndpoint = deviceUpdate('update_endpoint', {
  // What a device says of itself is no person's change, and comes often.
  changes: {
    before: `CASE WHEN audit_credential <> 'device_token' THEN old_body || '}' END`,
    after: `CASE WHEN audit_credential <> 'device_token' THEN body || '}' END`,
  },
  trial: 'd.trial',
  pending: '',
  flag: '',
  refusals: '',
  keyRefusal: '',
  column: 'NULL::text AS identity',
  keep: '',
});

const identityForOwners: readonly ForOwners[] = [
  { when: isChanged('labels'), code: 'labels_by_owner' },
  { when: isChanged('isolated'), code: 'forbidden' },
  {
    when: `((d.labels <> '{}' OR d.isolated <> '') AND ${isChanged('tunnel_ip', 'addresses')})`,
    code: 'address_by_owner',
  },
];

/** What the device is, or which groups it has, too. Labels, and the addresses of a device that has labels, are for owners to change (reference 5 (14)). */
const identityUpdate: Identity = {
  // What the history keeps is not kept twice.
  changes: { before: `old_body || '}'`, after: `CASE WHEN NOT policy_changed THEN body || '}' END` },
  columns: { trial: 'text' },
  trial: 'coalesce(n.trial, d.trial)',
  pending: `WHEN d.trial IS NOT NULL AND n.security_groups IS NOT NULL THEN 'trial_pending'`,
  flag: `, ${isChanged(...identityColumns)} AS identity_changed, ${isChanged(...policyColumns)} AS policy_changed`,
  forOwners: identityForOwners,
  refusals: refusedToOthers(identityForOwners),
  keyRefusal: `WHEN n.key_digest IS NOT NULL AND decode(n.key_digest, 'hex') <> d.key_digest AND ${keyTaken} THEN 'public_key_taken'`,
  changesVerdicts: isChanged(...policyColumns),
  column: `${identityIfChanged('n', 'd')}, d.user_id, n.policy_changed`,
  keep: `, identities AS (${keepIdentities('new')}),
    kept AS (${keepStates({ ...bySingleUpdate, kind: 'device', type: 'change', owner: 'new.user_id', where: 'new.policy_changed' })})`,
};
export const updateDevice = deviceUpdate('update_device', identityUpdate);

/** In a transaction. Values: devices, their lists as JSON arrays. */
export const relink = statement<never>(
  'relink',
  `WITH asked AS MATERIALIZED (
     SELECT a.device_id, ARRAY(SELECT value::uuid FROM json_array_elements_text(a.list::json)) AS list
     FROM unnest($1::uuid[], $2::text[]) AS a (device_id, list)),
   gone AS (DELETE FROM device_groups g USING asked a WHERE g.device_id = a.device_id AND g.group_id <> ALL (a.list))
   INSERT INTO device_groups (device_id, group_id) SELECT device_id, unnest(list) FROM asked ON CONFLICT DO NOTHING`,
);

/** In a transaction: one use of an enrollment key. Values: organization, key, now. */
export const useKey = statement<{ user_id: string; security_groups: string[]; labels: string[] }>(
  'use_key',
  `UPDATE enrollment_keys SET uses_left = uses_left - 1 WHERE id = $2 AND ${inOrg('enrollment_keys')} AND uses_left > 0 AND expires_at > $3
   RETURNING user_id, security_groups, labels`,
);

/**
 * Of these devices, those that are isolated: an owner deletes them, and no other, since a deletion ends the isolation. Values: organization, device or
 * null, user or null, who.
 */
export const findIsolated = statement<{ id: string }>(
  'find_isolated_devices',
  `SELECT d.id FROM devices d WHERE d.org_id = $1 AND ($2::uuid IS NULL OR d.id = $2) AND ($3::uuid IS NULL OR d.user_id = $3)
     AND d.isolated <> '' AND NOT ${found('members m', `m.org_id = $1 AND m.user_id = $4::uuid AND m.role = 'owner'`)} LIMIT 1`,
);

/** In a transaction: notes that the tokens of these devices end. They go with the devices. */
const revokeTokens = (devices: string): string =>
  `${noteRevoked('t.id', `devices d JOIN tokens t ON t.device_id = d.id WHERE ${devices}`)} RETURNING token_id`;
type RevokedRow = { readonly token_id: string };
/** Values: device. */
export const revokeDeviceTokens = statement<RevokedRow>('revoke_device_tokens', revokeTokens('d.id = $1'));
/** Values: organization, user. */
export const revokeMemberDeviceTokens = statement<RevokedRow>(
  'revoke_member_device_tokens',
  revokeTokens('d.org_id = $1 AND d.user_id = $2'),
);
/** Values: organization. */
export const revokeOrganizationDeviceTokens = statement<RevokedRow>(
  'revoke_organization_device_tokens',
  revokeTokens('d.org_id = $1'),
);

const fewer = { of: 'devices', by: '-' } as const;
const deleteDevices = (which: string, revisions: string): string =>
  `WITH gone AS (DELETE FROM devices d WHERE ${which} RETURNING d.org_id, d.id, d.user_id, d.body, d.born, ${identityBody('d')} AS identity, ${headVersion}),
   ${revisions},
   kept AS (${keepStates({ kind: 'device', type: 'delete', from: 'numbered', owner: 'numbered.user_id', by: '$3::uuid', at: '$4::timestamptz' })})
   ${log('delete', 'numbered')} RETURNING id, revision, body`;
/** In a transaction. Values: organization, id, who, now. */
export const deleteDevice = statement<BodyRow>(
  'delete_device',
  deleteDevices(`d.id = $2 AND ${inOrg('d')}`, takeRevision('gone', fewer)),
);
/** In a transaction. Values: organization, user, who, now. */
export const deleteMemberDevices = statement<BodyRow>(
  'delete_member_devices',
  deleteDevices('d.org_id = $1 AND d.user_id = $2', takeRevisions('gone', 'ORDER BY gone.id', fewer)),
);
