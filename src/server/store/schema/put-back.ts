/**
 * Owns how a backup comes back into a database. A backup is rows and nothing else: the tables, functions and triggers are made
 * by this program's own migrations, so that no statement of a backup that somebody altered is ever run.
 */
import { once } from 'node:events';
import { DatabaseError, type Client, type Connection, type Submittable } from 'pg';
import { StoreError } from '../../problems.ts';
import { toStoreError } from '../postgres/failure.ts';
import { noTimeouts, Primary } from '../postgres/primary.ts';
import { migrations } from './migrations.ts';

/** What a dump program says of a backup. */
export interface Dump {
  /** What is in it, a line each, as `pg_restore --list` writes it. */
  list(): Promise<readonly string[]>;
  /** The script that copies rows, of one table or of all. Fails at its end if the backup is not whole. */
  rows(table?: string): AsyncIterable<Buffer>;
}

/** Why a backup is not put back. The database is as it was. */
export class UnfitBackup extends Error {}

const sql = migrations.map((step) => step.sql).join('\n');
const madeBy = (pattern: RegExp): readonly string[] =>
  [...new Set([...sql.matchAll(pattern)].map(([, name = '']) => name))].toSorted();
const tables = ['schema_versions', ...madeBy(/CREATE TABLE (\w+)/g)];
const functions = madeBy(/CREATE (?:OR REPLACE )?FUNCTION (\w+)/g);

/** Lists what there is in the words of `pg_restore --list`, without the owner. */
const whatThereIs = `
  SELECT CASE relkind WHEN 'S' THEN 'SEQUENCE' WHEN 'i' THEN 'INDEX' ELSE 'TABLE' END || ' public ' || relname AS entry
  FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'S', 'i')
  UNION ALL SELECT 'FUNCTION public ' || proname || '(' || pg_get_function_identity_arguments(oid) || ')' FROM pg_proc WHERE pronamespace = 'public'::regnamespace
  UNION ALL SELECT 'TRIGGER public ' || c.relname || ' ' || t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
    WHERE NOT t.tgisinternal AND c.relnamespace = 'public'::regnamespace
  UNION ALL SELECT CASE n.contype WHEN 'f' THEN 'FK CONSTRAINT' ELSE 'CONSTRAINT' END || ' public ' || c.relname || ' ' || n.conname
    FROM pg_constraint n JOIN pg_class c ON c.oid = n.conrelid WHERE c.relnamespace = 'public'::regnamespace`;

/** What is in every database, or was the operator's own to add. Nothing comes from it. */
const harmless = /^(SCHEMA - public|COMMENT - SCHEMA public|EXTENSION - \S+|COMMENT - EXTENSION \S+)$/;

/** Entries of the backup that the migrations do not make. */
function strangersIn(list: readonly string[], known: ReadonlySet<string>): readonly string[] {
  return list.flatMap((line) => {
    const entry = line.replace(/^\d+; \d+ \d+ /, '');
    const named = entry.replace(/ \S*$/, '');
    const asMade = named
      .replace(/^TABLE DATA /, 'TABLE ')
      .replace(/^SEQUENCE (SET|OWNED BY) /, 'SEQUENCE ')
      // These have no entry of their own in our list; they belong to a column.
      .replace(/^DEFAULT (public \w+) \w+$/, 'TABLE $1');
    return known.has(asMade) || harmless.test(named) ? [] : [named];
  });
}

interface Copying {
  write(rows: Buffer): Promise<void>;
  end(): Promise<void>;
}

/** The driver has these, and no types for them. */
type CopyConnection = Connection & { sendCopyFromChunk(chunk: Buffer): void; endCopyFrom(): void };

/** One `COPY … FROM STDIN`; resolves when the database takes rows. */
function copyInto(client: Client, text: string): Promise<Copying> {
  let connection: CopyConnection | undefined;
  let started: (copying: Copying) => void = () => {};
  let fail: (reason: unknown) => void = () => {};
  let finish = (): void => {};
  const finished = new Promise<void>((resolve, reject) => {
    [finish, fail] = [resolve, reject];
  });
  finished.catch(() => {});
  const copying: Copying = {
    async write(rows) {
      connection?.sendCopyFromChunk(rows);
      const over = new AbortController();
      const { signal } = over;
      if (connection?.stream.writableNeedDrain === true)
        await Promise.race([once(connection.stream, 'drain', { signal }), finished]).finally(() => over.abort());
    },
    end() {
      connection?.endCopyFrom();
      return finished;
    },
  };
  const query = {
    submit(at: Connection) {
      connection = at as CopyConnection;
      at.query(text);
    },
    handleCopyInResponse: () => started(copying),
    handleError: (error: unknown) => fail(error),
    handleCommandComplete() {},
    handleReadyForQuery: () => finish(),
  };
  client.query<Submittable>(query);
  return Promise.race([
    new Promise<Copying>((resolve) => {
      started = resolve;
    }),
    finished.then(() => copying),
  ]);
}

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;
const end = Buffer.from('\\.\n');
const longestLine = 1 << 16;

/** Lines of a script that say nothing about rows. */
const noRows =
  /^(|--.*|SET [a-z_]+ = [\w' ]+;|SELECT pg_catalog\.set_config\('search_path', '', false\);|\\(un)?restrict \w+)$/;
const copyLine = /^COPY public\.("?)(\w+)\1 \(([\w", ]+)\) FROM stdin;$/;
const sequenceLine = /^SELECT pg_catalog\.setval\('public\.(\w+)', (\d+), (true|false)\);$/;
const encodingLine = /^SET client_encoding = '(\w+)';$/;

/** Reads the script that `pg_restore` writes. Anything but rows of known tables and numbers of known sequences ends it. */
async function takeRows(
  client: Client,
  script: AsyncIterable<Buffer>,
  { known, skipUnknown }: { readonly known: ReadonlySet<string>; readonly skipUnknown: boolean },
): Promise<void> {
  let rest: Buffer = Buffer.alloc(0);
  /** Where the rows of this moment go; undefined between two tables. */
  let into: Copying | 'nowhere' | undefined;
  let isFirstRow = false;
  const toRows = async (rows: Buffer): Promise<void> => {
    if (rows.length > 0 && into !== undefined && into !== 'nowhere') await into.write(rows);
  };
  const begin = async (line: string): Promise<void> => {
    const [, , table = '', columns = ''] = copyLine.exec(line) ?? [];
    const [, sequence, at, isCalled] = sequenceLine.exec(line) ?? [];
    const [, encoding] = encodingLine.exec(line) ?? [];
    if (table !== '') {
      isFirstRow = true;
      into = 'nowhere';
      if (known.has(`TABLE public ${table}`)) {
        const names = columns.split(', ').map((name) => quoted(name.replaceAll('"', '')));
        into = await copyInto(client, `COPY public.${quoted(table)} (${names.join(', ')}) FROM STDIN`);
      } else if (!skipUnknown)
        throw new UnfitBackup(`the backup has rows of a table that Ringfence does not have: ${table}`);
    } else if (sequence !== undefined) {
      if (known.has(`SEQUENCE public ${sequence}`))
        await client.query('SELECT setval($1, $2, $3)', [`public.${quoted(sequence)}`, at, isCalled === 'true']);
    } else if (encoding !== undefined) {
      await client.query("SELECT set_config('client_encoding', $1, true)", [encoding]);
    } else if (!noRows.test(line)) {
      throw new UnfitBackup(`the backup has a statement where rows should be: ${JSON.stringify(line.slice(0, 100))}`);
    }
  };
  const finish = async (): Promise<void> => {
    if (into !== undefined && into !== 'nowhere') await into.end();
    into = undefined;
  };
  for await (const chunk of script) {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    for (;;) {
      if (into === undefined) {
        const at = rest.indexOf('\n');
        if (at < 0 && rest.length > longestLine) throw new UnfitBackup('the backup has a line without an end');
        if (at < 0) break;
        const line = rest.toString('utf8', 0, at);
        rest = rest.subarray(at + 1);
        await begin(line);
        continue;
      }
      if (isFirstRow && rest.length < end.length) break;
      const isEmpty = isFirstRow && rest.subarray(0, end.length).equals(end);
      isFirstRow = false;
      const at = isEmpty ? -1 : rest.indexOf(`\n${end.toString()}`);
      if (!isEmpty && at < 0) {
        // The end may be half in this piece.
        const whole = Math.max(0, rest.length - end.length);
        await toRows(rest.subarray(0, whole));
        rest = rest.subarray(whole);
        break;
      }
      await toRows(rest.subarray(0, at + 1));
      rest = rest.subarray(at + 1 + end.length);
      await finish();
    }
  }
  if (into !== undefined) throw new UnfitBackup('the backup ends in the middle of a table');
}

/** The version of the backup's tables, from the rows in which the migrations write themselves down. */
async function versionIn(dump: Dump): Promise<number> {
  const pieces: Buffer[] = [];
  for await (const piece of dump.rows('schema_versions')) pieces.push(piece);
  const text = Buffer.concat(pieces).toString();
  const lines = text.split('\n');
  const first = lines.findIndex((line) => line.startsWith('COPY public.schema_versions (version, ')) + 1;
  const rows = first === 0 ? [] : lines.slice(first, lines.indexOf('\\.', first));
  const version = Math.max(0, ...rows.map((row) => Number.parseInt(row, 10) || 0));
  if (version === 0) throw new UnfitBackup('it is not a backup of Ringfence');
  const newest = Math.max(...migrations.map((step) => step.version));
  if (version > newest)
    throw new UnfitBackup(
      `the backup was written by a later version (its tables have version ${version}, this program knows up to ${newest}): restore it with that one`,
    );
  return version;
}

/** What makes rows costly or impossible to add, in any order, is put aside and made again behind them. */
const putAside = `
  SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname) AS away,
    format('ALTER TABLE %s ADD CONSTRAINT %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) AS again
  FROM pg_constraint WHERE contype = 'f' AND connamespace = 'public'::regnamespace
  UNION ALL SELECT format('ALTER TABLE %s DISABLE TRIGGER %I', tgrelid::regclass, tgname), format('ALTER TABLE %s ENABLE TRIGGER %I', tgrelid::regclass, tgname)
  FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'D' AND tgrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace)
  UNION ALL SELECT format('DROP INDEX %s', indexrelid::regclass), pg_get_indexdef(indexrelid)
    || CASE WHEN indisreplident THEN format('; ALTER TABLE %s REPLICA IDENTITY USING INDEX %I', indrelid::regclass, c.relname) ELSE '' END
  FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
  WHERE c.relnamespace = 'public'::regnamespace AND NOT EXISTS (SELECT FROM pg_constraint n WHERE n.conindid = i.indexrelid)`;

/** All of it, or nothing: in one transaction. */
async function replaceAll(client: Client, dump: Dump, takeUnknown: boolean): Promise<void> {
  const version = await versionIn(dump);
  await client.query(`DROP TABLE IF EXISTS ${tables.map((name) => `public.${name}`).join(', ')}`);
  if (functions.length > 0)
    await client.query(`DROP FUNCTION IF EXISTS ${functions.map((name) => `public.${name}`).join(', ')}`);
  const before = new Set((await client.query<{ entry: string }>(whatThereIs)).rows.map(({ entry }) => entry));
  await client.query(
    'CREATE TABLE schema_versions (version integer PRIMARY KEY, title text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())',
  );
  for (const step of migrations) if (step.version <= version) await client.query(step.sql);
  const made = (await client.query<{ entry: string }>(whatThereIs)).rows.map(({ entry }) => entry);
  const known = new Set(made.filter((entry) => !before.has(entry)));
  const strangers = strangersIn(await dump.list(), known);
  if (strangers.length > 0 && !takeUnknown)
    throw new UnfitBackup(
      `the backup has what Ringfence does not make: ${strangers.slice(0, 10).join(', ')}${strangers.length > 10 ? ` and ${strangers.length - 10} more` : ''}. Somebody may have altered it. If you know better, restore with --unverified, which leaves that out`,
    );
  const aside = (await client.query<{ away: string; again: string }>(putAside)).rows;
  for (const { away } of aside) await client.query(away);
  const own = [...known].flatMap((entry) => (entry.startsWith('TABLE ') ? [entry.slice('TABLE '.length)] : []));
  await client.query(`TRUNCATE ${own.map((name) => name.replace(/^public /, 'public.')).join(', ')}`);
  await takeRows(client, dump.rows(), { known, skipUnknown: takeUnknown });
  await client.query("SELECT set_config('client_encoding', 'UTF8', true)");
  for (const { again } of aside.toReversed()) await client.query(again);
}

/** Puts a backup in the place of what the database holds of ours. With `takeUnknown`, what the migrations do not make is left out instead of refused. */
export async function putBack(
  url: string,
  dump: Dump,
  { takeUnknown, signal }: { readonly takeUnknown: boolean; readonly signal?: AbortSignal | undefined },
): Promise<void> {
  const connection = await new Primary(url)
    .open({ applicationName: 'ringfence-restore', timeouts: noTimeouts })
    .catch((cause: unknown) => {
      throw toStoreError(cause);
    });
  const stop = (): void => connection.destroy();
  signal?.addEventListener('abort', stop);
  try {
    signal?.throwIfAborted();
    await connection.begin();
    await replaceAll(connection.client, dump, takeUnknown);
    if (!(await connection.commit())) throw new StoreError({ code: 'unavailable' });
  } catch (cause) {
    // A copy that is not finished knows no other end.
    connection.destroy();
    if (signal?.aborted === true) throw new UnfitBackup('stopped before the end', { cause });
    if (cause instanceof DatabaseError) throw new UnfitBackup(`PostgreSQL refuses it: ${cause.message}`, { cause });
    throw cause;
  } finally {
    signal?.removeEventListener('abort', stop);
    await connection.end();
  }
}
