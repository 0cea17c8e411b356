/**
 * Owns the statements that append what writes have decided to the log, and keep it as records, history and identities. There is no other
 * way to move an organization's head. A record is its wire text; columns beside it serve indexes, conditions and limits.
 */
import type { WatchKind } from '../../../api/kinds.ts';
import { statement, type Statement } from '../postgres/sql.ts';
import type { WrittenHead } from '../schema/history-guard.ts';
import { insertEntries } from './audit-entry.ts';
import { hasEnded } from './right.ts';

/** The newest era: the one that writes now, because writes of any other are refused. */
const era = '(SELECT e.id FROM eras e ORDER BY e.serial DESC LIMIT 1)';

/** An organization's head as writes see it. Its version moves with every change of what writes look at: records, members, ends of credentials. */
export interface Head {
  readonly revision: number;
  readonly version: number;
  readonly devices: number;
  readonly groups: number;
  readonly has_tests: boolean;
  readonly era: string;
}

const headColumns = `h.revision, h.version, h.devices, h.groups, h.has_tests, ${era} AS era`;
/** Values: organization. */
export const lockHead = statement<Head>(
  'lock_head',
  `SELECT ${headColumns} FROM heads h WHERE h.org_id = $1 FOR NO KEY UPDATE`,
);
/** Values: organization. */
export const readHead = statement<Head>('read_head', `SELECT ${headColumns} FROM heads h WHERE h.org_id = $1`);

/**
 * A write takes a revision only in a verified database. After a restart of PostgreSQL, or after tables were replaced, a server first
 * compares the history with what it knows. The newest era says which run of which database was compared (`schema/eras.ts`).
 * Parameters from this one on: the version and the era that the decision saw, the credentials that must still hold (null under the lock, where
 * they were looked at), how many revisions, how many devices and groups more. No row: the organization is another, or a credential has ended, or another
 * transaction holds the head: who waited for it here would let everybody wait who shares the connection.
 */
const movedHead = (n: number): string => `
  UPDATE heads h SET revision = h.revision + $${n + 3}::bigint, version = h.version + 1, devices = h.devices + $${n + 4}::integer, groups = h.groups + $${n + 5}::integer
  FROM (SELECT l.org_id FROM heads l WHERE l.org_id = $1 FOR NO KEY UPDATE SKIP LOCKED) AS free
  WHERE h.org_id = free.org_id AND h.version = $${n}::bigint AND CASE WHEN (
      SELECT e.started_at = pg_postmaster_start_time() AND e.heads_table = h.tableoid FROM eras e ORDER BY e.serial DESC LIMIT 1
    ) THEN true ELSE refuse_unverified() END
    AND ($${n + 1}::uuid IS NULL OR ${era} = $${n + 1}::uuid)
    AND ($${n + 2}::json IS NULL OR NOT EXISTS (
      SELECT FROM json_to_recordset($${n + 2}::json) AS c (token bytea, session uuid) WHERE ${hasEnded('c')}))
  RETURNING h.revision, ${era} AS era`;

/** Values: organization, and those of the head. */
export const moveHead = statement<WrittenHead>('move_head', movedHead(2));

/** What becomes of the record that has the entries: it is new, it is there, it goes. */
export type Place = 'new' | 'changed' | 'gone';

/** What an entry of the log says, by column: its record as it goes over the wire, and what its row is found by. */
const entryColumns = {
  id: 'uuid',
  record: 'json',
  revision: 'bigint',
  type: 'text',
  /** The last entry of its record in this statement. */
  is_last: 'boolean',
  /** Whether the history keeps the state. */
  is_kept: 'boolean',
  only_for: 'uuid',
  left_at: 'bigint',
  born: 'bigint',
  actor: 'uuid',
  at: 'timestamptz',
  user_id: 'uuid',
};

interface Table {
  readonly kind: WatchKind;
  readonly name: 'devices' | 'security_groups';
  /** What an entry says beside that, and the row does not keep. */
  readonly entry: Readonly<Record<string, string>>;
  /** What the row keeps beside id, organization, revision and body: only what an index, a condition or a limit needs. */
  readonly columns: Readonly<Record<string, string>>;
  /** What the log says of the identity. */
  readonly identity: string;
  /** Further CTEs over `n`, each behind a comma. */
  readonly besides: string;
}

const list = (columns: Readonly<Record<string, string>>): string =>
  Object.entries(columns)
    .map(([name, type]) => `${name} ${type}`)
    .join(', ');

const writes = ({ name, columns }: Pick<Table, 'name' | 'columns'>, place: Place): string => {
  const names = Object.keys(columns);
  if (place === 'gone')
    return `DELETE FROM ${name} r USING n WHERE n.is_last AND r.id = n.id AND (r.org_id = $1) IS TRUE`;
  if (place === 'new')
    return `INSERT INTO ${name} (org_id, id, ${names.join(', ')}, revision, born, body)
     SELECT $1, n.id, ${names.map((column) => `n.${column}`).join(', ')}, n.revision, n.born, n.body FROM n WHERE n.is_last`;
  return `UPDATE ${name} r SET ${names.map((column) => `${column} = ${column === 'key_digest' ? 'coalesce(n.key_digest, r.key_digest)' : `n.${column}`}`).join(', ')}, revision = n.revision, body = n.body
     FROM n WHERE n.is_last AND r.id = n.id AND (r.org_id = $1) IS TRUE`;
};

function append(table: Table, place: Place): Statement<WrittenHead> {
  const { kind, name, entry, columns, identity, besides } = table;
  // Without the closing brace: a body is the wire text before its revision.
  return statement(
    `append_${place}_${name}`,
    `WITH head AS (${movedHead(4)}),
     n AS MATERIALIZED (
       SELECT a.*, left(a.record::text, -1) AS body FROM json_to_recordset($2::json) AS a (${list({ ...entryColumns, ...entry, ...columns })})
       WHERE $4::bigint IS NULL OR EXISTS (SELECT FROM head)),
     written AS (${writes(table, place)}),
     kept AS (
       INSERT INTO history (org_id, kind, id, revision, type, owner_id, only_for, user_id, at, body)
       SELECT $1, '${kind}', n.id, n.revision, n.type, n.user_id, n.only_for, n.actor, n.at, n.body FROM n WHERE n.is_kept)
     ${place === 'gone' ? '' : besides},
     audited AS (${insertEntries('$3')} WHERE $4::bigint IS NULL OR EXISTS (SELECT FROM head)),
     logged AS (
       INSERT INTO changes (org_id, revision, kind, type, id, body, only_for, left_at, identity, era, born)
       SELECT $1, n.revision, '${kind}', n.type, n.id, n.body, n.only_for, n.left_at, ${identity}, ${era}, CASE WHEN n.type = 'delete' THEN n.born ELSE 0 END FROM n)
     SELECT revision, era FROM head`,
  );
}

const groups: Table = {
  kind: 'security-groups',
  name: 'security_groups',
  entry: {},
  columns: {
    user_id: 'uuid',
    is_default: 'boolean',
    is_applied: 'boolean',
    left_at: 'bigint',
    group_name: 'text',
    guardrail: 'text',
    mode: 'text',
    inbound_ranges: 'integer',
    outbound_ranges: 'integer',
    rules: 'integer',
    selectors: 'integer',
  },
  identity: 'NULL',
  besides: '',
};

const devices: Table = {
  kind: 'device',
  name: 'devices',
  entry: { identity: 'json', is_identity: 'boolean' },
  columns: { user_id: 'uuid', key_digest: 'bytea', listed: 'uuid[]', isolated: 'text' },
  identity: 'left(n.identity::text, -1)',
  // A separate table, so that a device that only moves between networks writes nothing there (docs/decisions/database.md).
  besides: `, identities AS (
       INSERT INTO device_identities (device_id, org_id, revision, body)
       SELECT n.id, $1, n.revision, left(n.identity::text, -1) FROM n WHERE n.is_identity
       ON CONFLICT (device_id) DO UPDATE SET revision = excluded.revision, body = excluded.body)`,
};

const each = (table: Table): Readonly<Record<Place, Statement<WrittenHead>>> => ({
  new: append(table, 'new'),
  changed: append(table, 'changed'),
  gone: append(table, 'gone'),
});

/** Values: organization, entries and those of the audit as JSON arrays, and those of the head; null where it was moved already. Where the head does not move, nothing is written. */
export const appends = { device: each(devices), 'security-groups': each(groups) };

/** Groups before the devices that list them; what goes, the other way round. */
export const inOrder = [
  appends['security-groups'].new,
  appends['security-groups'].changed,
  appends.device.new,
  appends.device.changed,
  appends.device.gone,
  appends['security-groups'].gone,
];

/** The organization itself has changed. Values: organization, revision. */
export const appendOrganization = statement<never>(
  'append_organization',
  `INSERT INTO changes (org_id, revision, kind, type, id, body, left_at, era)
   SELECT $1, $2, 'organization', 'change', $1, '{"id":"' || $1::uuid || '"', 0, ${era}`,
);

interface StateRow {
  readonly id: string;
  readonly user_id: string | null;
  readonly revision: number;
  readonly body: string;
  readonly born: number;
}

/** Values: organization, ids. */
export const loadGroups = statement<StateRow & { readonly is_applied: boolean; readonly left_at: number }>(
  'load_groups',
  'SELECT id, user_id, revision, body, born, is_applied, left_at FROM security_groups WHERE id = ANY ($2::uuid[]) AND (org_id = $1) IS TRUE',
);
/** Values: organization, ids. */
export const loadDevices = statement<StateRow>(
  'load_devices',
  'SELECT id, user_id, revision, body, born FROM devices WHERE id = ANY ($2::uuid[]) AND (org_id = $1) IS TRUE',
);
/** Which devices have these public keys. Values: digests. */
export const loadKeys = statement<{ readonly id: string; readonly digest: string }>(
  'load_keys',
  `SELECT id, encode(key_digest, 'hex') AS digest FROM devices
   WHERE key_digest = ANY (ARRAY(SELECT decode(k, 'hex') FROM unnest($1::text[]) AS k))`,
);
