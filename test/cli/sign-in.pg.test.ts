/** Proves the sign-in of the command line at a real identity provider: by code, by browser, renewed by itself, and ended. */
import { once } from 'node:events';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freePort } from '../lib/free-port.ts';
import type { Json } from '../lib/http.ts';
import { Person } from '../lib/person.ts';
import { Program, type Outcome } from '../lib/program.ts';
import { audience, startProvider, type ServedResource, type TestProvider } from '../lib/provider.ts';
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
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  provider.serveResource(url);
  server = await startTestServer(postgres, {
    listen: { host: '127.0.0.1', port },
    oidcIssuer: [provider.issuer],
    oidcAudience: [url, audience],
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

/** Answers the question whether the token may go to the server. */
const agreed = { RINGFENCE_YES: '1' };

async function signIn(login: string, ...args: readonly string[]): Promise<{ person: Program; outcome: Outcome }> {
  const person = await program.as(login);
  const { shown, ended } = agreeing(login, args.includes('--browser') ? byBrowser : byCode);
  const outcome = await person.run(['login', server.url, ...args], { shown, env: agreed });
  await ended();
  return { person, outcome };
}

it('on a terminal, where the server has a provider, login shows a code and waits until somebody has agreed', async () => {
  const person = await program.as('ada');
  const { shown, ended } = agreeing('ada', byCode);
  const typed = [[/Send your token .*\[y\/N\]/, 'y\n']] as const;
  const outcome = await person.inTerminal(['login', server.url, '--no-color'], { shown, typed });
  await ended();
  expect(outcome).toMatchObject({ code: 0 });
  expect(outcome.stdout).toMatch(
    new RegExp(`open ${provider.issuer}/device in any browser and enter the code\n {2}\\S+`),
  );
  expect(outcome.stdout).toMatch(/expires in 10 minutes/);
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
  expect(outcome.stderr).toContain('The sign-in at the provider has ended.');
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
  const shown = { pattern: byBrowser, act };
  const outcome = await person.run(['login', server.url, '--browser'], { shown, env: agreed });
  expect(outcome).toMatchObject({ code: 0, stdout: '' });
  expect([await forged, await ended]).toMatchObject([404, { status: 200, text: expect.stringContaining('Signed in') }]);
  expect((await profileOf(person)).sign_in.refresh_token).toEqual(expect.any(String));
  expect((await person.run(['whoami', '-o', 'json'])).stdout).toContain('linus@example.org');
});

it('a sign-in that is denied or given up leaves nothing behind', async () => {
  const person = await program.as('mallory');
  const { shown, ended } = agreeing('mallory', byCode, { abort: 'yes' });
  const denied = await person.run(['login', server.url, '--device'], { shown, env: agreed });
  await ended();
  expect(denied).toMatchObject({ code: 4, stdout: '' });
  expect(denied.stderr).toMatch(/ringfence: the sign-in was denied\n$/);
  for (const way of ['--device', '--browser']) {
    const until = { pattern: way === '--device' ? /Press Ctrl-C to cancel/ : byBrowser, signal: 'SIGINT' as const };
    expect(await person.run(['login', server.url, way], { until, env: agreed })).toMatchObject({
      code: 130,
      stdout: '',
    });
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
    expect(outcome.stderr).toMatch(/has no identity provider/);
    expect(await person.run(['login', plain.url, '--device', '--browser'])).toMatchObject({ code: 2 });
  } finally {
    await plain.close();
  }
});

it('what the server asks for and where the token goes is shown first, asked about once, and again when it changes', async () => {
  const person = await program.as('careful');
  const unasked = await person.run(['login', server.url, '--device']);
  expect(unasked).toMatchObject({ code: 2, stdout: '' });
  expect(unasked.stderr).toContain(`Send your token from ${provider.issuer} to ${server.url}?`);
  expect(unasked.stderr).not.toContain('enter the code');
  const { shown, ended } = agreeing('careful', byCode);
  const first = await person.run(['login', server.url, '--device'], { shown, env: agreed });
  await ended();
  expect(first.code).toBe(0);
  const [before = ''] = first.stderr.split('To sign in, open');
  for (const word of [provider.issuer, 'tests', 'openid profile offline_access', server.url]) {
    expect(before).toContain(word);
  }
  const again = agreeing('careful', byCode);
  expect(await person.run(['login', server.url, '--device'], { shown: again.shown })).toMatchObject({ code: 0 });
  const profiles = JSON.parse(await readFile(fileOf(person), 'utf8'));
  profiles.profiles.default.confirmed.scopes = 'openid';
  await writeFile(fileOf(person), JSON.stringify(profiles));
  expect(await person.run(['login', server.url, '--device'])).toMatchObject({ code: 2 });
});

it('a token that the provider renews for somebody else is not sent', async () => {
  const { person } = await signIn('renewed', '--device');
  provider.serveResource(server.url, { audience });
  try {
    const refused = await person.run(['whoami']);
    expect(refused).toMatchObject({ code: 4, stdout: '' });
    expect(refused.stderr).toContain(`the provider gave no token for ${server.url}`);
  } finally {
    provider.serveResource(server.url);
  }
});

/** A server of an attacker: it names the provider, the client and whatever else it likes, and keeps the credentials that it is sent. */
async function startHostile(parameters: Readonly<Record<string, string>>) {
  const received: string[] = [];
  const hostile = createServer((request, response) => {
    const { authorization } = request.headers;
    if (authorization !== undefined) received.push(authorization);
    const command_line = { client_id: 'tests', scopes: 'openid profile offline_access', parameters };
    const methods = { token: true, provider: { name: 'x', issuer: provider.issuer, browser: false, command_line } };
    const answers: Record<string, unknown> = {
      '/api/auth': methods,
      '/api/users/me': { id: '00000000-0000-7000-8000-000000000001', username: 'ada' },
    };
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(answers[request.url ?? ''] ?? []));
  }).listen(0, '127.0.0.1');
  await once(hostile, 'listening');
  const url = `http://127.0.0.1:${(hostile.address() as AddressInfo).port}`;
  const close = async (): Promise<void> => {
    hostile.closeAllConnections();
    hostile.close();
    await once(hostile, 'close');
  };
  return { url, received, close };
}

it.each<readonly [what: string, parameters: Record<string, string>, served: ServedResource | undefined, says: RegExp]>([
  ['asks for a token for the real server', { resource: 'REAL' }, undefined, /meant for http:\S+, not for http/],
  ['is unknown to the provider', {}, undefined, /the identity provider does not know this server as a resource/],
  ['is at a provider that heeds no resource', {}, { audience: 'REAL' }, /meant for http:\S+, not for http/],
  ['is at a provider that names servers by words', {}, { audience }, /meant for urn:ringfence:test, .*--audience urn/s],
  ['is at a provider whose tokens cannot be read', {}, { format: 'opaque' }, /issued a token without an audience/],
  [
    'wants the answer elsewhere',
    { request_uri: 'https://evil.example' },
    undefined,
    /`request_uri` to the provider; a server may not/,
  ],
])('a hostile server that %s gets no token', async (what, parameters, served, says) => {
  const real = (text: string): string => text.replace('REAL', server.url);
  const told = Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, real(value)]));
  const hostile = await startHostile(told);
  try {
    const { audience: named, ...rest } = served ?? {};
    const resource = { ...rest, ...(named !== undefined && { audience: real(named) }) };
    if (served !== undefined) provider.serveResource(hostile.url, resource);
    const person = await program.as(`victim of one that ${what}`);
    const { shown, ended } = agreeing('victim', byCode);
    const outcome = await person.run(['login', hostile.url, '--device'], { shown, env: agreed });
    await ended();
    expect(hostile.received).toEqual([]);
    expect(outcome.stderr).toMatch(says);
    expect(outcome).toMatchObject({ code: expect.toSatisfy((code) => code === 1 || code === 4), stdout: '' });
    await expect(stat(fileOf(person))).rejects.toThrow('ENOENT');
  } finally {
    await hostile.close();
  }
});

it('where the audience is a name, a person says whether it is this server, and a second server never gets it', async () => {
  const named = await startTestServer(postgres, {
    oidcIssuer: [provider.issuer],
    oidcAudience: [audience],
    oidcCliClientId: 'tests',
  });
  const hostile = await startHostile({ resource: audience });
  try {
    const person = await program.as('decides');
    const attempt = async (url: string, ...more: readonly string[]): Promise<Outcome> => {
      const { shown, ended } = agreeing('decides', byCode);
      const typed = [
        [/Send your token .*\[y\/N\]/, 'y\n'],
        [/Is http.* the server for urn:ringfence:test\? \[y\/N\]/, 'y\n'],
      ] as const;
      const outcome = await person.inTerminal(['login', url, '--no-color', ...more], { shown, typed });
      await ended();
      return outcome;
    };
    const first = await attempt(named.url);
    expect(first).toMatchObject({ code: 0 });
    expect(first.stdout).toContain(
      `If it belongs to another server, ${named.url} can use the token there in your name.`,
    );
    const second = await attempt(hostile.url, '--profile', 'other');
    expect(second).toMatchObject({
      code: 4,
      stdout: expect.stringContaining(`${named.url} (profile default) takes it`),
    });
    expect(hostile.received).toEqual([]);
    // In a script the person names it.
    const script = await program.as('script');
    const { shown, ended } = agreeing('decides', byCode);
    const args = ['login', named.url, '--device', '--audience', audience];
    expect(await script.run(args, { shown, env: agreed })).toMatchObject({ code: 0 });
    await ended();
    expect(await script.run(['whoami'])).toMatchObject({ code: 0 });
  } finally {
    await hostile.close();
    await named.close();
  }
});
