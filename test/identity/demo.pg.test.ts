/** Proves `--demo-idp`: one command, and anybody can try signing in by browser and from a terminal. */
import { cp, mkdir, readFile, rm, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Api } from '../lib/http.ts';
import { Person } from '../lib/person.ts';
import { temporaryDirectory } from '../lib/postgres.ts';
import { Program } from '../lib/program.ts';
import { startProcess, type ServerProcess } from '../lib/running.ts';

let program: Program;
let server: ServerProcess;
let data: string;

beforeAll(async () => {
  [program, data] = await Promise.all([Program.install(), temporaryDirectory()]);
  // As after `npm install oidc-provider` beside an installed program.
  const installed = join(program.home, '..', 'installed');
  await cp(dirname(program.bundle), join(installed, 'dist'), { recursive: true });
  await mkdir(join(installed, 'node_modules'));
  const found = fileURLToPath(new URL('../../node_modules/oidc-provider', import.meta.url));
  await symlink(found, join(installed, 'node_modules/oidc-provider'));
  server = await startProcess(join(installed, 'dist/ringfence.mjs'), data, { args: ['--demo-idp'] });
});
afterAll(async () => {
  await server?.end('SIGTERM');
  await program?.remove();
  await rm(data, { recursive: true, force: true });
});

it('says what to do, signs in a person by browser and signs out at both', async () => {
  // It is the last of the lines that come once the server is ready.
  await expect.poll(() => server.output(), { timeout: 60_000 }).toContain(`ringfence login ${server.url}`);
  const issuer = /identity provider at (http:\S+)/.exec(server.output())?.[1] ?? '';
  const person = new Person('');
  const { url } = await person.follow(`${server.url}/api/auth/login`, { stop: `${server.url}/ui/` });
  expect(url).toBe(`${server.url}/ui/`);
  expect(person.visited.some((place) => place.startsWith(`${issuer}/pick/`))).toBe(true);
  const api = new Api(server.url);
  const headers = { cookie: person.cookieHeader, 'x-ringfence-csrf': '1' };
  expect((await api.get('/api/users/me', headers)).json).toMatchObject({ username: 'ada' });
  const { provider_logout } = (await api.ask('POST', '/api/auth/logout', { headers })).json;
  const left = await person.follow(provider_logout, { stop: `${server.url}/ui/`, answers: { logout: 'yes' } });
  expect(left.url).toBe(`${server.url}/ui/`);
  api.close();
});

it('lets a person be invited by e-mail address', async () => {
  const authorization = `Bearer ${(await readFile(join(data, 'admin-token'), 'utf8')).trim()}`;
  const api = new Api(server.url);
  const { id } = (await api.ask('POST', '/api/organizations', { headers: { authorization }, body: { name: 'demo' } }))
    .json;
  const body = { email: 'ada@demo.example' };
  await api.ask('POST', `/api/organizations/${id}/invitations`, { headers: { authorization }, body });
  await new Person('').follow(`${server.url}/api/auth/login`, { stop: `${server.url}/ui/` });
  const members = (await api.get(`/api/organizations/${id}/members`, { authorization })).json;
  expect(members).toEqual(expect.arrayContaining([expect.objectContaining({ username: 'ada', role: 'member' })]));
  api.close();
});

it.each([
  ['--device', /or open (\S+)/],
  ['--browser', /on this machine:\s+(\S+)/],
])('signs in a person from a terminal with %s', async (way, pattern) => {
  const home = await program.as(`demo${way}`);
  let ended: Promise<unknown> = Promise.resolve();
  const act = ([, address = '']: RegExpExecArray): void => {
    ended = new Person('').follow(address);
    ended.catch(() => {});
  };
  const outcome = await home.run(['login', server.url, way, '--yes'], { shown: { pattern, act } });
  await ended;
  expect(outcome).toMatchObject({ code: 0, stdout: '' });
  expect(outcome.stderr).toContain('as ada');
  expect(await readFile(join(home.home, '.config/ringfence/profiles.json'), 'utf8')).toContain('refresh_token');
});

it('goes with neither another provider nor an address that others reach, and says so where its package is missing', async () => {
  const run = (...args: readonly string[]) =>
    program.run(['server', '--demo-idp', '--data', join(data, 'none'), ...args]);
  const beyond = await run('--listen', '0.0.0.0:0');
  expect(beyond).toMatchObject({ code: 2, stderr: expect.stringContaining('lets anyone sign in') });
  const two = await run('--oidc-issuer', 'https://login.example.org', '--oidc-audience', 'x');
  expect(two).toMatchObject({ code: 2, stderr: expect.stringContaining('remove --oidc-issuer') });
  // The program lies in a folder of its own, as an installation does.
  const missing = await run('--listen', '127.0.0.1:0');
  expect(missing).toMatchObject({ code: 1, stderr: expect.stringContaining('npm install oidc-provider') });
});
