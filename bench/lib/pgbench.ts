/** Owns the floor under what the store does: its own statements, run by pgbench, a C program without a server of ours. */
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { UserId } from '../../src/policy/ids.ts';
import type { Database } from '../../src/server/database/supervise.ts';
import { findDevices } from '../../src/server/store/devices/statements.ts';
import { findGroups } from '../../src/server/store/groups/statements.ts';
import type { Statement } from '../../src/server/store/postgres/sql.ts';
import { appends } from '../../src/server/store/write/append.ts';
import type { AuditNote } from '../../src/server/store/data/audit.ts';

const run = promisify(execFile);

/**
 * One of the store's statements as a function, since pgbench reads every colon in a text as a variable. PL/pgSQL keeps
 * the plan for each connection, as the store's prepared statements do.
 */
const asFunction = (name: string, types: readonly string[], text: string, answer: string): string =>
  `CREATE FUNCTION ${name} (${types.join(', ')}) RETURNS TABLE (${answer}) LANGUAGE plpgsql AS $bench$
   #variable_conflict use_column
   BEGIN RETURN QUERY ${text}; END $bench$`;

/** A statement's text with these values in the place of its parameters; what it gives back goes into `reached`. */
const filledIn = ({ text }: Statement<unknown>, values: readonly string[]): string =>
  text
    .replace(/SELECT revision, era FROM head\s*$/, 'SELECT revision INTO reached FROM head')
    .replaceAll(/\$(\d+)/g, (_, place: string) => `(${values[Number(place) - 1]})`);

/** What the store sends for a change of a record: it locks the head, reads the record, and appends the next state with its audit entry. */
const appendFunction = ({ name, table, kind, more, field, operation }: Readonly<Record<string, string>>): string => {
  const append = appends[kind as keyof typeof appends].changed;
  return `CREATE OR REPLACE FUNCTION ${name} (place uuid, record_id uuid, me uuid, n bigint) RETURNS void LANGUAGE plpgsql AS $bench$
   #variable_conflict use_column
   DECLARE old_head record; old record; entry text; note text; reached bigint;
   BEGIN
     SELECT revision, version INTO old_head FROM heads WHERE org_id = place FOR NO KEY UPDATE;
     SELECT * INTO old FROM ${table} WHERE id = record_id;
     entry := concat('[{"id":"', record_id, '","revision":', old_head.revision + 1, ',"type":"change","is_last":true,"is_kept":${String(kind !== 'device')},"born":', old.born,
       ',"left_at":0,"actor":"', me, '","at":"', now(), '"', ${more}, ',"record":',
       regexp_replace(old.body, '"${field}":"[^"]*"', '"${field}":"host ' || n || '"'), '}}]');
     note := json_build_array(json_build_object('id', gen_random_uuid(), 'at', now(), 'org_id', place, 'operation', '${operation}', 'subject_id', record_id,
       'revision', old_head.revision + 1, 'fields', ARRAY['${field}'], 'user_id', me, 'credential', 'user_token', 'credential_id', me, 'address', '127.0.0.1', 'request_id', 'request'))::text;
     ${filledIn(append, ['place', 'entry', 'note', 'old_head.version', 'NULL', 'NULL', '1', '0', '0'])};
   END $bench$`;
};

/** The change of a device's name, its audit entry included, as the function `bench_update`. */
export const updateFunction = (): string =>
  appendFunction({
    name: 'bench_update',
    table: 'devices',
    kind: 'device',
    field: 'hostname',
    operation: 'updateDevice',
    more: `',"user_id":"', old.user_id, '","listed":', array_to_json(old.listed), ',"isolated":"","key_digest":"\\\\x', encode(old.key_digest, 'hex'), '"'`,
  });

/** The same of a group, as the function `bench_update_group`. */
export const updateGroupFunction = (): string =>
  appendFunction({
    name: 'bench_update_group',
    table: 'security_groups',
    kind: 'security-groups',
    field: 'group_name',
    operation: 'updateSecurityGroup',
    more: `',"is_default":false,"is_applied":false,"mode":"enforce","group_name":"host ', n, '","inbound_ranges":', old.inbound_ranges,
      ',"outbound_ranges":', old.outbound_ranges, ',"rules":', old.rules, ',"selectors":', old.selectors`,
  });

const membership =
  'SELECT o.owner_id, EXISTS (SELECT FROM members m WHERE m.org_id = o.id AND m.user_id = $2) FROM organizations o WHERE o.id = $1';

/** What a request reads first, as the functions `bench_member`, `bench_device` and `bench_group`. */
export const readFunctions: readonly string[] = [
  asFunction('bench_member', ['uuid', 'uuid'], membership, 'owner uuid, is_member boolean'),
  asFunction('bench_device', ['uuid', 'uuid[]'], findDevices.text, 'id uuid, revision bigint, body text'),
  asFunction(
    'bench_group',
    ['uuid', 'uuid', 'text', 'uuid[]', 'boolean'],
    findGroups.text,
    'id uuid, revision bigint, body text',
  ),
];

/** The audit note of that change, for the sides that go through the store. */
export const updateNote = (user_id: UserId): AuditNote => ({
  operation: 'updateDevice',
  user_id,
  fields: ['hostname'],
  credential: { kind: 'user_token', id: user_id },
  address: '127.0.0.1',
  request_id: 'request',
});

/** The call of that function for the pgbench variables `org`, `device` and `me`. */
export const updateCall = `\\set n random(1, 1000000000)
SELECT bench_update(:org, :device, :me, :n);
`;

export interface Pgbench {
  readonly database: Database;
  /** For the script. */
  readonly dir: string;
  readonly clients: number;
  readonly seconds: number;
}

/** Transactions a second. */
export async function pgbench({ database, dir, clients, seconds }: Pgbench, script: string): Promise<number> {
  const file = join(dir, 'floor.sql');
  await writeFile(file, script);
  const threads = String(Math.min(clients, 2));
  const args = ['-n', '-M', 'prepared', '-c', String(clients), '-j', threads, '-T', String(seconds), '-f', file];
  const { stdout } = await run(join(database.programs.bin, 'pgbench'), [...args, database.url], {
    env: { ...process.env, PGOPTIONS: '-c plan_cache_mode=force_generic_plan -c enable_seqscan=off' },
  }).catch((error: { readonly stderr?: string }) => {
    // Each of its clients repeats the whole statement.
    throw new Error(`pgbench: ${String(error.stderr).split('\nCONTEXT')[0]}`, {
      cause: error.stderr === undefined ? error : undefined,
    });
  });
  return Number(/tps = ([\d.]+)/.exec(stdout)?.[1] ?? Number.NaN);
}
