/** Proves the sign-in of the command line at a real identity provider: by code, by browser, renewed by itself, and ended. */
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Json } from '../lib/http.ts';
import { Person } from '../lib/person.ts';
import { Program, type Outcome } from '../lib/program.ts';
import { audience, startProvider, type TestProvider } from '../lib/provider.ts';
import { startPostgres, startTestServer, type TestPostgres, type TestServer } from '../lib/server.ts';

let provider: TestProvider;
let postgres: TestPostgres;
let server: TestServer;
let program: Program;

beforeAll(async () => {
  // So short that every command has to renew its token before it is used.
  [provider, postgres, program] = await Promise.all([
    startProvider({ tokenSeconds: 20 }),
    startPostgres(),
    Program.install(),
  ]);
  server = await startTestServer(postgres, {
    oidcIssuer: [provider.issuer],
    oidcAudience: [audience],
    oidcCliClientId: 'tests',
  });
});
afterAll(async () => {
  await server?.close();
  await postgres?.stop();
  await provider?.stop();
  await program?.remove();
});

const fileOf = ({ home }: Program): string => join(home, '.config/ringfence/profiles.json');
const profileOf = async (person: Program): Promise<Json> =>
  JSON.parse(await readFile(fileOf(person), 'utf8')).profiles.default;

/** Agrees, or does not, to what the program asks for, in a browser elsewhere. */
function agreeing(login: string, pattern: RegExp, answers: Record<string, string> = {}) {
  let ended: Promise<unknown> = Promise.resolve();
  const act = ([, address = '']: RegExpExecArray): void => {
    ended = new Person(login).follow(address, { answers, enough: /interrupted/ });
    ended.catch(() => {});
  };
  return { shown: { pattern, act }, ended: () => ended };
}

/** To the end of the line: a terminal hands over what it has, which may be half an address. */
const byCode = /or open (\S+)\s/;
const byBrowser = /on this machine:\s+(\S+)\s/;

async function signIn(login: string, ...args: readonly string[]): Promise<{ person: Program; outcome: Outcome }> {
  const person = await program.as(login);
  const { shown, ended } = agreeing(login, args.includes('--browser') ? byBrowser : byCode);
  const outcome = await person.run(['login', server.url, ...args], { shown });
  await ended();
  return { person, outcome };
}

it('on a terminal, where the server has a provider, login shows a code and waits until somebody has agreed', async () => {
  const person = await program.as('ada');
  const { shown, ended } = agreeing('ada', byCode);
  const outcome = await person.inTerminal(['login', server.url, '--no-color'], { shown });
  await ended();
  expect(outcome).toMatchObject({ code: 0 });
  expect(outcome.stdout).toMatch(
    new RegExp(`open ${provider.issuer}/device in any browser and enter the code\n {2}\\S+`),
  );
  expect(outcome.stdout).toMatch(/good for 10 minutes/);
  expect(outcome.stdout).toContain(`Signed in to ${server.url} as ada@example.org`);
  expect((await stat(fileOf(person))).mode & 0o777).toBe(0o600);
  const { token, sign_in } = await profileOf(person);
  expect(sign_in).toEqual({
    issuer: provider.issuer,
    client_id: 'tests',
    refresh_token: expect.any(String),
    expires_at: expect.stringMatching(/Z$/),
  });
  for (const secret of [token, sign_in.refresh_token]) expect(outcome.stdout).not.toContain(secret);
});

it('a token is renewed before it ends, by one of all programs that run at once', async () => {
  const { person, outcome } = await signIn('grace', '--device');
  expect(outcome).toMatchObject({ code: 0, stdout: '' });
  const first = await profileOf(person);
  const runs = await Promise.all(Array.from({ length: 4 }, () => person.run(['whoami', '-o', 'json'])));
  for (const { code, stdout, stderr } of runs) {
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(JSON.parse(stdout)).toMatchObject({ username: 'grace@example.org', credential: { kind: 'access_token' } });
  }
  const second = await profileOf(person);
  expect(second.token).not.toBe(first.token);
  expect(second.sign_in.refresh_token).not.toBe(first.sign_in.refresh_token);
  await expect(stat(`${fileOf(person)}.lock`)).rejects.toThrow('ENOENT');

  // Refused by the server although it should be good: renewed once more, and the command goes on.
  const worn = {
    ...second,
    token: first.token,
    sign_in: { ...second.sign_in, expires_at: '2100-01-01T00:00:00.000Z' },
  };
  await writeFile(
    fileOf(person),
    JSON.stringify({ current: 'default', profiles: { default: { ...worn, token: 'worn' } } }),
  );
  const made = await person.run(['org', 'create', 'navy', '-o', 'json']);
  expect(made).toMatchObject({ code: 0, stderr: '' });
  expect((await profileOf(person)).token).not.toBe('worn');

  // The account is closed: one line, code 4.
  provider.disown('grace');
  const closed = await person.run(['whoami']);
  expect(closed).toMatchObject({ code: 4, stdout: '' });
  expect(closed.stderr).toMatch(/^ringfence: .*your sign-in has ended; run `ringfence login` again\n$/);
});

it('logout ends the sign-in at the provider', async () => {
  const { person } = await signIn('leaver', '--device');
  const { sign_in } = await profileOf(person);
  const outcome = await person.run(['logout']);
  expect(outcome.code).toBe(0);
  expect(outcome.stderr).toContain('The sign-in was ended at the provider.');
  expect(await readFile(fileOf(person), 'utf8')).not.toContain(sign_in.refresh_token);
  const form = { grant_type: 'refresh_token', client_id: 'tests', refresh_token: sign_in.refresh_token };
  const answer = await fetch(`${provider.issuer}/token`, { method: 'POST', body: new URLSearchParams(form) });
  expect([answer.status, await answer.json()]).toEqual([400, expect.objectContaining({ error: 'invalid_grant' })]);
});

it('by browser, the provider sends the answer back to this program, which takes it from nobody else', async () => {
  const person = await program.as('linus');
  let forged: Promise<number> = Promise.resolve(0);
  let ended: Promise<unknown> = Promise.resolve();
  const act = ([, address = '']: RegExpExecArray): void => {
    const back = new URL(address).searchParams.get('redirect_uri') ?? '';
    forged = fetch(`${back}?code=forged&state=forged`).then(({ status }) => status);
    ended = forged.then(() => new Person('linus').follow(address));
  };
  const outcome = await person.run(['login', server.url, '--browser'], { shown: { pattern: byBrowser, act } });
  expect(outcome).toMatchObject({ code: 0, stdout: '' });
  expect([await forged, await ended]).toMatchObject([404, { status: 200, text: expect.stringContaining('Signed in') }]);
  expect((await profileOf(person)).sign_in.refresh_token).toEqual(expect.any(String));
  expect((await person.run(['whoami', '-o', 'json'])).stdout).toContain('linus@example.org');
});

it('a sign-in that is denied or given up leaves nothing behind', async () => {
  const person = await program.as('mallory');
  const { shown, ended } = agreeing('mallory', byCode, { abort: 'yes' });
  const denied = await person.run(['login', server.url, '--device'], { shown });
  await ended();
  expect(denied).toMatchObject({ code: 4, stdout: '' });
  expect(denied.stderr).toMatch(/ringfence: the sign-in was denied\n$/);
  for (const way of ['--device', '--browser']) {
    const until = { pattern: way === '--device' ? /Ctrl-C gives up/ : byBrowser, signal: 'SIGINT' as const };
    expect(await person.run(['login', server.url, way], { until })).toMatchObject({ code: 130, stdout: '' });
  }
  await expect(stat(fileOf(person))).rejects.toThrow('ENOENT');
});

it('a token still signs in where it is named or piped, and a server without a provider says so', async () => {
  const person = await program.as('scripted');
  expect(await person.run(['login', server.url], { input: server.adminToken })).toMatchObject({ code: 0 });
  expect((await profileOf(person)).sign_in).toBeUndefined();
  const plain = await startTestServer(postgres);
  try {
    const outcome = await person.run(['login', plain.url, '--device']);
    expect(outcome).toMatchObject({ code: 2, stdout: '' });
    expect(outcome.stderr).toMatch(/offers no sign-in at an identity provider/);
    expect(await person.run(['login', plain.url, '--device', '--browser'])).toMatchObject({ code: 2 });
  } finally {
    await plain.close();
  }
});
