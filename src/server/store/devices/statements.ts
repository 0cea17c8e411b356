/** Owns the SQL of devices. */
import { inOrg, statement, withinBytes, type PageRow } from '../postgres/sql.ts';
import { noteRevoked } from '../schema/fragments.ts';

interface BodyRow {
  readonly id: string;
  readonly revision: number;
  readonly body: string;
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

/** What a member has, in the order of ids. Values: organization, user. */
export const recordsOfUser = statement<{ readonly id: string; readonly kind: 'device' | 'group' }>(
  'records_of_user',
  `SELECT id, 'device' AS kind FROM devices WHERE org_id = $1 AND user_id = $2
   UNION ALL SELECT id, 'group' FROM security_groups WHERE org_id = $1 AND user_id = $2 ORDER BY id`,
);

/** Values: organization, ids. */
export const findDevices = statement<BodyRow>(
  'devices_by_id',
  `SELECT id, revision, body FROM devices WHERE id = ANY ($2::uuid[]) AND ${inOrg('devices')}`,
);

/** In a transaction: one use of an enrollment key. Values: organization, key, now. */
export const useKey = statement<{ user_id: string; security_groups: string[]; labels: string[] }>(
  'use_key',
  `UPDATE enrollment_keys SET uses_left = uses_left - 1 WHERE id = $2 AND ${inOrg('enrollment_keys')} AND uses_left > 0 AND expires_at > $3
   RETURNING user_id, security_groups, labels`,
);

/** In a transaction: notes that the tokens of these devices end. They go with the devices. */
const revokeTokens = (devices: string): string =>
  `${noteRevoked('t.id', `devices d JOIN tokens t ON t.device_id = d.id WHERE ${devices}`)} RETURNING token_id`;
type RevokedRow = { readonly token_id: string };
/** Values: devices. */
export const revokeDeviceTokens = statement<RevokedRow>(
  'revoke_device_tokens',
  revokeTokens('d.id = ANY ($1::uuid[])'),
);
/** Values: organization. */
export const revokeOrganizationDeviceTokens = statement<RevokedRow>(
  'revoke_organization_device_tokens',
  revokeTokens('d.org_id = $1'),
);
