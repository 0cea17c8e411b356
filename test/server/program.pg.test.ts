/** Proves `ringfence server` as a program: what it says at start, how it refuses, how it stops. */
import { execFileSync } from 'node:child_process';
import { readFile, rm, stat, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { serverOptions } from '../../src/server/options/server-options.ts';
import { Api } from '../lib/http.ts';
import { startPostgres, temporaryDirectory, type TestPostgres } from '../lib/postgres.ts';
import { Program } from '../lib/run.ts';

let postgres: TestPostgres;
let program: Program;
const folders: string[] = [];
beforeAll(async () => {
  [postgres, program] = await Promise.all([startPostgres(), Program.build()]);
});
afterAll(async () => {
  await program.close();
  await postgres.stop();
});
afterEach(async () => {
  for (const made of folders.splice(0)) await rm(made, { recursive: true, force: true });
});
async function folder(): Promise<string> {
  const made = await temporaryDirectory();
  folders.push(made);
  return made;
}

const anywhere = ['--listen', '127.0.0.1:0'];
/** For what the first process does alone: workers take as long to start, one for each processor. */
const alone = [...anywhere, '--workers', '1'];

describe('starting', () => {
  test('says where UI and API are, where the data lies, and in which file the first administrator finds its token', async () => {
    const data = await folder();
    const first = program.run(['server', ...anywhere, '--data', data]);
    const url = await first.url();
    await first.shows(/Its token is in \S+\.\n/);
    expect(first.stdout).toContain(`UI    ${url}/ui/`);
    expect(first.stdout).toContain(data);
    const file = join(data, 'admin-token');
    const token = (await readFile(file, 'utf8')).trim();
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    // Its output is no terminal: it may be kept and read by many.
    expect(first.stdout).not.toContain(token);
    const admin = new Api(url, token);
    expect(await admin.expect(200, 'GET', '/api/users/me')).toMatchObject({
      username: 'admin',
      is_administrator: true,
    });
    const organizations = await admin.expect(200, 'GET', '/api/organizations');
    expect(organizations).toHaveLength(1);
    admin.close();
    expect(await first.stop()).toMatchObject({ code: 0 });

    const second = program.run(['server', ...anywhere, '--data', data]);
    const again = new Api(await second.url(), token);
    expect(await again.expect(200, 'GET', '/api/organizations')).toEqual(organizations);
    again.close();
    const ended = await second.stop('SIGINT');
    expect(ended.code).toBe(0);
    expect(ended.stdout).not.toContain('rf_user_');
    expect(ended.stderr).not.toContain(token);
  });

  test.each(['1', '2'])('lets as many connections wait as the kernel allows, with %s workers', async (workers) => {
    const env = { RINGFENCE_DATABASE_URL: await postgres.freshUrl() };
    const run = program.run(['server', ...anywhere, '--data', await folder(), '--workers', workers], env);
    const { port } = new URL(await run.url());
    // For a listening socket, ss shows the length of its queue in the column of unsent bytes.
    const listening = execFileSync('ss', ['--no-header', '--listening', '--tcp', '--numeric', `sport = :${port}`]);
    const [, , queue] = listening.toString().trim().split(/\s+/);
    const allowed = (await readFile('/proc/sys/net/core/somaxconn', 'utf8')).trim();
    expect(queue).toBe(allowed);
    await run.stop();
  });

  test('takes the first token from RINGFENCE_ADMIN_TOKEN', async () => {
    const data = await folder();
    const env = {
      RINGFENCE_ADMIN_TOKEN: 'chosen-by-the-operator-0123456789',
      RINGFENCE_DATABASE_URL: await postgres.freshUrl(),
    };
    const run = program.run(['server', ...alone, '--data', data], env);
    const admin = new Api(await run.url(), 'chosen-by-the-operator-0123456789');
    await admin.expect(200, 'GET', '/api/users/me');
    admin.close();
    await run.stop();
    expect((await readFile(join(data, 'admin-token'), 'utf8')).trim()).toBe('chosen-by-the-operator-0123456789');
  });

  test('several servers at once on one new database make one administrator, whose token works', async () => {
    const url = await postgres.emptyUrl();
    const data = await folder();
    const runs = Array.from({ length: 3 }, () =>
      program.run(['server', ...alone, '--data', data, '--database-url', url]),
    );
    const urls = await Promise.all(runs.map((run) => run.url()));
    const token = (await readFile(join(data, 'admin-token'), 'utf8')).trim();
    for (const at of urls) {
      const admin = new Api(at, token);
      expect(await admin.expect(200, 'GET', '/api/users')).toHaveLength(1);
      admin.close();
    }
    for (const run of runs) expect((await run.stop()).code).toBe(0);
    expect(runs.filter((run) => run.stdout.includes('first administrator'))).toHaveLength(1);
  });
});

describe('refusing', () => {
  test.each([
    [['--phase', '4'], {}, /'--phase <1\|2\|3>' argument '4' is invalid. It must be a whole number from 1 to 3\./],
    [['--listen', 'nowhere'], {}, /It must be an address with a port/],
    [['--database-url', 'mysql://x'], {}, /It must start with postgres:\/\//],
    [['--rate-limit', 'fast'], {}, /whole number/],
    [['--log-level', 'loud'], {}, /It must be one of fatal, error/],
    [['--fase', '1'], {}, /unknown option '--fase'.*Did you mean --phase\?/],
    [['extra'], {}, /too many arguments/],
    [['--data', '--check-config'], {}, /It must be a path/],
    [['--data', ''], {}, /It must be a path/],
    [[], { RINGFENCE_PHASE: '0' }, /'0' from env 'RINGFENCE_PHASE' is invalid/],
    [[], { RINGFENCE_ADMIN_TOKEN: 'of two words, however many characters' }, /RINGFENCE_ADMIN_TOKEN must be/],
    [[], { RINGFENCE_ADMIN_TOKEN: 'x' }, /RINGFENCE_ADMIN_TOKEN must be 32 to 4096/],
    [['--max-ranges', '1000000'], {}, /allow a group of 126 MiB; clients read 16 MiB/],
  ] as const)('%j %j: one clear line and exit 2', async (args, env, line) => {
    const ended = await program.run(['server', ...args], env).ended;
    expect(ended.code).toBe(2);
    expect(ended.stderr).toMatch(line);
    expect(ended.stderr).toMatch(/^ringfence: [^\n]+\n$/);
    expect(ended.stdout).toBe('');
  });

  test('told to stop while it waits for a database, it ends at once', async () => {
    const data = await folder();
    const nowhere = 'postgres://nobody@127.0.0.1:1/none';
    const run = program.run([
      'server',
      ...anywhere,
      '--data',
      data,
      '--database-url',
      nowhere,
      '--database-wait',
      '86400',
      '--workers',
      '1',
    ]);
    await run.shows(/waiting for the database/);
    const ended = await run.stop();
    expect([ended.code, ended.stderr]).toEqual([1, 'ringfence: stopped before the server was ready\n']);
  });

  test('a data directory that cannot be: one clear line and exit 1', async () => {
    const ended = await program.run(['server', ...anywhere, '--data', '/proc/ringfence']).ended;
    expect([ended.code, ended.stderr]).toEqual([
      1,
      expect.stringMatching(/^ringfence: cannot use the data directory \/proc\/ringfence: [^\n]+\n$/),
    ]);
  });

  test('an unknown command is one clear line and exit 2', async () => {
    const ended = await program.run(['sever']).ended;
    expect([ended.code, ended.stderr]).toEqual([2, "ringfence: unknown command 'sever' (Did you mean server?)\n"]);
  });

  test('a database of a later version: one clear line', async () => {
    const url = await postgres.freshUrl();
    const data = await folder();
    const args = ['server', ...alone, '--data', data, '--database-url', url];
    const client = new Client({ connectionString: url });
    await client.connect();
    await client.query("INSERT INTO schema_versions (version, title) VALUES (9999, 'from the future')");
    await client.end();
    const ended = await program.run(args).ended;
    expect(ended.code).toBe(1);
    expect(ended.stderr).toMatch(
      /^ringfence: the database has schema 9999, but this program supports only schemas up to \d+[^\n]*upgrade[^\n]*\n$/,
    );
  });

  test('a database that cannot be reached: one clear line after the wait', async () => {
    const data = await folder();
    const args = ['--data', data, '--database-url', 'postgres://user:hunter2@127.0.0.1:1/x', '--database-wait', '1'];
    const ended = await program.run(['server', ...anywhere, ...args]).ended;
    expect(ended.code).toBe(1);
    expect(ended.stderr).toMatch(/^ringfence: cannot reach the database: [^\n]+\n$/);
    expect(ended.stdout).toMatch(/^waiting for the database: [^\n]+\n$/);
    expect(ended.stderr + ended.stdout).not.toContain('hunter2');
  });

  test('a data directory that cannot be made: one clear line', async () => {
    const file = join(await folder(), 'file');
    await writeFile(file, 'not a directory');
    const ended = await program.run(['server', ...anywhere, '--data', join(file, 'data')]).ended;
    expect(ended.code).toBe(1);
    expect(ended.stderr).toMatch(/^ringfence: cannot use the data directory [^\n]*file\/data: [^\n]*\n$/);
  });
});

describe('asking about options', () => {
  test('--help has a line and an environment variable for every option', async () => {
    const ended = await program.run(['server', '--help']).ended;
    expect(ended.code).toBe(0);
    for (const { flags, env } of Object.values(serverOptions)) {
      expect(ended.stdout).toContain(flags);
      expect(ended.stdout.replace(/\s+/g, ' ')).toContain(`env: ${env}`);
    }
  });

  test('--check-config says whether the options are good, without a password and without starting anything', async () => {
    const data = join(await folder(), 'not-made');
    const good = await program.run(['server', '--check-config', '--data', data, '--phase', '2'], {
      RINGFENCE_DATABASE_URL: 'postgres://user:hunter2@db/x?password=hunter2',
    }).ended;
    expect([good.code, good.stderr]).toEqual([0, '']);
    expect(good.stdout).toContain('The configuration is valid.');
    expect(good.stdout).toContain('phase 2');
    expect(good.stdout).toContain('user:***@db');
    expect(good.stdout).not.toContain('hunter2');
    await expect(stat(data)).rejects.toThrow('ENOENT');
    expect((await program.run(['server', '--check-config', '--phase', 'x']).ended).code).toBe(2);
  });
});

describe('stopping', () => {
  // In one process: what was answered after a request came in says that the request is in flight.
  const one = { RINGFENCE_ADMIN_TOKEN: 'operator-token-0123456789-0123456789', RINGFENCE_WORKERS: '1' };

  /** A request whose body is still on its way. */
  async function halfSent(url: string, token: string) {
    const { hostname, port } = new URL(url);
    const body = JSON.stringify({ name: 'slow' });
    const socket = connect(Number(port), hostname);
    let text = '';
    socket.on('data', (chunk: Buffer) => (text += chunk.toString()));
    socket.on('error', () => {});
    const closed = new Promise<string>((resolve) => socket.once('close', () => resolve(text)));
    socket.write(
      `POST /api/organizations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\n` +
        `Content-Length: ${body.length}\r\n\r\n${body.slice(0, 5)}`,
    );
    return { finish: () => socket.write(body.slice(5)), closed };
  }

  test('on SIGTERM requests in flight finish, new connections are refused, and the exit code is 0', async () => {
    const data = await folder();
    const env = one;
    const run = program.run(['server', ...anywhere, '--data', data, '--database-url', await postgres.freshUrl()], env);
    const url = await run.url();
    await fetch(`${url}/healthz`);
    const request = await halfSent(url, 'operator-token-0123456789-0123456789');
    // The request is in flight once another one, sent later, has been answered.
    await fetch(`${url}/api/users/me`, { headers: { authorization: 'Bearer operator-token-0123456789-0123456789' } });
    run.child.kill('SIGTERM');
    await run.shows(/Stopping/);
    const connecting = () =>
      fetch(`${url}/healthz`).then(
        () => 'answered',
        (error: Error) => error.message,
      );
    await expect.poll(connecting).toBe('fetch failed');
    request.finish();
    expect(await request.closed).toMatch(/^HTTP\/1\.1 201 /);
    expect(await run.ended).toMatchObject({ code: 0 });
    expect(run.stdout).toMatch(/Stopped\.\n$/);
  });

  test('a request that does not finish is cut off after --shutdown-timeout', async () => {
    const data = await folder();
    const env = { ...one, RINGFENCE_SHUTDOWN_TIMEOUT: '1' };
    const run = program.run(['server', ...anywhere, '--data', data, '--database-url', await postgres.freshUrl()], env);
    const url = await run.url();
    const request = await halfSent(url, 'operator-token-0123456789-0123456789');
    await fetch(`${url}/api/users/me`, { headers: { authorization: 'Bearer operator-token-0123456789-0123456789' } });
    run.child.kill('SIGTERM');
    expect(await run.ended).toMatchObject({ code: 0 });
    expect(await request.closed).not.toMatch(/ 201 /);
  });

  test('with --shutdown-delay it is not ready and still takes requests, so that a proxy leaves it first', async () => {
    const url = await postgres.freshUrl();
    const run = program.run([
      'server',
      ...alone,
      '--data',
      await folder(),
      '--database-url',
      url,
      '--shutdown-delay',
      '3600',
    ]);
    const api = new Api(await run.url());
    expect((await api.get('/readyz')).status).toBe(200);
    run.child.kill('SIGTERM');
    await expect.poll(async () => (await api.get('/readyz')).status).toBe(503);
    api.close();
    const late = new Api(await run.url());
    expect((await late.get('/healthz')).status).toBe(200);
    late.close();
    // A second signal that comes within a moment counts as the same key.
    await run.shows(/Stopping/);
    run.child.kill('SIGTERM');
    expect(await run.ended).toMatchObject({ code: 1 });
  });

  test('a second signal ends it at once', async () => {
    const data = await folder();
    const env = { ...one, RINGFENCE_SHUTDOWN_TIMEOUT: '3600' };
    const run = program.run(['server', ...anywhere, '--data', data, '--database-url', await postgres.freshUrl()], env);
    const url = await run.url();
    await halfSent(url, 'operator-token-0123456789-0123456789');
    await fetch(`${url}/api/users/me`, { headers: { authorization: 'Bearer operator-token-0123456789-0123456789' } });
    run.child.kill('SIGINT');
    await run.shows(/Stopping/);
    run.child.kill('SIGINT');
    expect(await run.ended).toMatchObject({ code: 1 });
  });
});
