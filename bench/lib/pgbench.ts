/** Owns the floor under what the store does: its own statements, run by pgbench, a C program without a server of ours. */
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { UserId } from '../../src/policy/ids.ts';
import type { Database } from '../../src/server/database/supervise.ts';
import { getDevice, updateDevice } from '../../src/server/store/devices/statements.ts';
import { getGroup } from '../../src/server/store/groups/statements.ts';
import { rightRoles } from '../../src/server/store/contract/actor.ts';
import type { AuditNote } from '../../src/server/store/contract/audit.ts';

const run = promisify(execFile);

/**
 * One of the store's statements as a function, since pgbench reads every colon in a text as a variable. PL/pgSQL keeps
 * the plan for each connection, as the store's prepared statements do.
 */
const asFunction = (name: string, types: readonly string[], text: string, answer: string): string =>
  `CREATE FUNCTION ${name} (${types.join(', ')}) RETURNS TABLE (${answer}) LANGUAGE plpgsql AS $bench$
   #variable_conflict use_column
   BEGIN RETURN QUERY ${text}; END $bench$`;

/** The change of a device's name, its audit entry included, as the function `bench_update`. */
export const updateFunction = (): string => {
  const types = [...updateDevice.one.text.matchAll(/\$\d+::(\w+(?:\[\])?) AS/g)].map((match) => match[1] ?? 'text');
  const row =
    'refusal text, standing bigint, told boolean, revision bigint, kind text, type text, id uuid, body text, only_for uuid, left_at bigint, identity text, era uuid';
  return asFunction('bench_update', ['uuid', ...types], updateDevice.one.text, row);
};

const membership =
  'SELECT o.owner_id, EXISTS (SELECT FROM members m WHERE m.org_id = o.id AND m.user_id = $2) FROM organizations o WHERE o.id = $1';

/** What a request reads first, as the functions `bench_member`, `bench_device` and `bench_group`. */
export const readFunctions: readonly string[] = [
  asFunction('bench_member', ['uuid', 'uuid'], membership, 'owner uuid, is_member boolean'),
  asFunction(
    'bench_device',
    ['uuid', 'uuid'],
    getDevice.text,
    'id uuid, revision bigint, body text, user_id uuid, public_key text, security_groups uuid[], trial text',
  ),
  asFunction('bench_group', ['uuid', 'uuid', 'text', 'uuid'], getGroup.text, 'id uuid, revision bigint, body text'),
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

const given: Readonly<Record<string, string>> = {
  hostname: "'host ' || :n",
  id: ':device',
  actor: ':me',
  may: String(rightRoles.server),
  at: 'now()',
  prefix_given: 'false',
  audit_id: 'gen_random_uuid()',
  audit_operation: "'updateDevice'",
  audit_fields: "ARRAY['hostname']",
  audit_credential: "'user_token'",
  audit_credential_id: ':me',
  audit_address: "'127.0.0.1'",
  audit_request: "'request'",
};

/** The call of that function for the pgbench variables `org`, `device` and `me`. */
export const updateCall = `\\set n random(1, 1000000000)
SELECT * FROM bench_update(:org, ${updateDevice.columns.map((column) => given[column] ?? 'NULL').join(', ')});
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
