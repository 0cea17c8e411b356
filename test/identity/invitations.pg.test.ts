/** Invitations at real identity providers: who becomes a member by signing in, and who does not, whatever they claim. */
import { Client } from 'pg';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import type { Json } from '../lib/http.ts';
import { Person } from '../lib/person.ts';
import { audience, startProvider, webClient, type PersonClaims, type TestProvider } from '../lib/provider.ts';
import {
  newPlace,
  newPerson,
  startPostgres,
  startTestServer,
  type Place,
  type TestPostgres,
  type TestServer,
} from '../lib/server.ts';

let provider: TestProvider;
let other: TestProvider;
let postgres: TestPostgres;
let server: TestServer;
let database: Client;
let place: Place;
let now: () => number = Date.now;

beforeAll(async () => {
  [provider, other, postgres] = await Promise.all([startProvider(), startProvider(), startPostgres()]);
  const url = await postgres.freshUrl();
  server = await startTestServer(postgres, {
    url,
    oidcIssuer: [provider.issuer, other.issuer],
    oidcAudience: [audience],
    oidcClientId: webClient.id,
    clock: () => now(),
    issuer: { cooldownMs: 0 },
  });
  provider.serveWeb(server.url, { isPublic: true });
  database = new Client(url);
  await database.connect();
});
afterAll(async () => {
  await database?.end();
  await server?.close();
  await Promise.all([provider?.stop(), other?.stop(), postgres?.stop()]);
});
beforeEach(async () => {
  now = Date.now;
  place = await newPlace(server);
});

let serial = 0;
const unique = (): string => `p${(serial += 1)}`;

const invite = (body: object): Promise<Json> =>
  place.owner.api.expect(201, 'POST', `${place.base}/invitations`, { issuer: provider.issuer, ...body });
/** Signs a new person in, and gives the role that this person has in the organization then. */
async function roleOf(claims: PersonClaims, { at = provider, login = unique() } = {}): Promise<string | undefined> {
  at.describe(login, claims);
  const { accessToken } = await at.signIn(login);
  const { id } = (await server.nobody.as(accessToken).get('/api/users/me')).json;
  const members: Json[] = await place.owner.api.expect(200, 'GET', `${place.base}/members`);
  return members.find(({ user_id }) => user_id === id)?.role;
}
const invitations = (): Promise<Json[]> => place.owner.api.expect(200, 'GET', `${place.base}/invitations`);

it('a person who is invited by e-mail becomes a member at the first sign-in in a browser, once, and the audit says so', async () => {
  const made = await invite({ email: 'Kim@Example.ORG', role: 'owner' });
  expect(made).toMatchObject({ email: 'kim@example.org', role: 'owner', invited_by: place.owner.id });
  provider.describe('kim', { preferred_username: 'kim', email: 'kim@example.org', email_verified: true });
  const person = new Person('kim');
  await person.follow(`${server.url}/api/auth/login?return_to=/ui/`, { stop: `${server.url}/ui/` });
  const members: Json[] = await place.owner.api.expect(200, 'GET', `${place.base}/members`);
  expect(members.find(({ username }) => username === 'kim')).toMatchObject({ role: 'owner' });
  expect(await invitations()).toEqual([]);
  const [joined, invited]: Json[] = await place.owner.api.expect(200, 'GET', `${place.base}/audit`);
  expect(joined).toMatchObject({ operation: 'addMember', username: 'kim', credential: { kind: 'session' } });
  expect(joined).toMatchObject({ fields: ['invitation'], after: { role: 'owner' } });
  expect(invited).toMatchObject({
    operation: 'createInvitation',
    user_id: place.owner.id,
    subject: { name: made.email },
  });
});

it('a person who is invited becomes a member with the first use of an access token, also by the name at the provider', async () => {
  const [email, name] = [`${unique()}@example.org`, unique()];
  await invite({ email });
  expect(await roleOf({ email, email_verified: true })).toBe('member');
  await invite({ username: name });
  expect(await roleOf({ preferred_username: name })).toBe('member');
  // Each is used up.
  expect(await roleOf({ email, email_verified: true })).toBeUndefined();
  expect(await invitations()).toEqual([]);
});

it('a person whom the server knows already becomes a member at the next sign-in', async () => {
  const [login, email] = [unique(), `${unique()}@example.org`];
  expect(await roleOf({ email, email_verified: true }, { login })).toBeUndefined();
  await invite({ email });
  expect(await roleOf({ email, email_verified: true }, { login })).toBe('member');
});

it('an invitation ends with the removal of its person, and another one admits again', async () => {
  const [login, email] = [unique(), `${unique()}@example.org`];
  await roleOf({ email, email_verified: true }, { login });
  const { accessToken } = await provider.signIn(login);
  const { id } = (await server.nobody.as(accessToken).get('/api/users/me')).json;
  // Added by name while the invitation was on its way.
  await invite({ email });
  await place.owner.api.expect(201, 'POST', `${place.base}/members`, { user_id: id });
  await place.owner.api.expect(200, 'DELETE', `${place.base}/members/${id}`);
  expect(await roleOf({ email, email_verified: true }, { login })).toBeUndefined();
  expect(await invitations()).toEqual([]);
  await invite({ email });
  expect(await roleOf({ email, email_verified: true }, { login })).toBe('member');
});

it('an address that is not verified, or only looks like the invited one, admits nobody', async () => {
  await invite({ email: 'kim.lee@example.org' });
  await invite({ username: 'kim' });
  const email = 'kim.lee@example.org';
  for (const claims of [
    { email },
    { email, email_verified: false },
    { email, email_verified: 'true' },
    { email, email_verified: 1 },
    { email: '\u212Aim.lee@example.org', email_verified: true },
    { email: 'kim.lee@example.org.evil.example', email_verified: true },
    { email: 'kim.lee@example.org ', email_verified: true },
    { preferred_username: email, email: 'other@example.org', email_verified: true },
    // The username here would be `kim` or like it; the name at the provider is another.
    { preferred_username: 'k\u200bim' },
    { preferred_username: 'KIM' },
    { preferred_username: '\uff4bim' },
    { preferred_username: 'other', email: 'kim', email_verified: true },
  ] as const)
    expect([claims, await roleOf(claims)]).toEqual([claims, undefined]);
  expect(await invitations()).toHaveLength(2);
});

it('an invitation counts at its own provider only, and the subject is not a name', async () => {
  const [email, name] = [`${unique()}@example.org`, unique()];
  await invite({ email });
  await invite({ username: name });
  expect(await roleOf({ email, email_verified: true, preferred_username: name }, { at: other })).toBeUndefined();
  expect(await roleOf({ preferred_username: 'somebody' }, { login: name })).toBeUndefined();
  expect(await roleOf({ email, email_verified: true })).toBe('member');
});

it('an invitation ends when it expires, is revoked, or its inviter is no longer an owner', async () => {
  const emails = [0, 1, 2, 3].map(() => `${unique()}@example.org`);
  const second = await newPerson(server);
  await place.owner.api.expect(201, 'POST', `${place.base}/members`, { user_id: second.id });
  const role = (to: string) => place.owner.api.expect(200, 'PATCH', `${place.base}/members/${second.id}`, { role: to });
  await role('owner');
  const [expiring, revoked, byDemoted, kept] = emails;
  await invite({ email: expiring, expires_at: new Date(Date.now() + 60_000).toISOString() });
  const { id } = await invite({ email: revoked });
  await second.api.expect(201, 'POST', `${place.base}/invitations`, { email: byDemoted, issuer: provider.issuer });
  await invite({ email: kept });
  await place.owner.api.expect(200, 'DELETE', `${place.base}/invitations/${id}`);
  await place.owner.api.expect(404, 'DELETE', `${place.base}/invitations/${id}`);
  await role('member');
  await role('owner');
  now = () => Date.now() + 61_000;
  expect((await invitations()).map(({ email }) => email)).toEqual([kept]);
  for (const email of [expiring, revoked, byDemoted])
    expect(await roleOf({ email: email ?? '', email_verified: true })).toBeUndefined();
  expect(await roleOf({ email: kept ?? '', email_verified: true })).toBe('member');
});

it('an invitation that is revoked, or whose inviter is demoted, while the person signs in admits nobody', async () => {
  for (const change of [
    'DELETE FROM invitations WHERE org_id = $1',
    `UPDATE members SET role = 'member', owner_since = NULL WHERE org_id = $1 AND user_id = '${place.owner.id}'`,
  ]) {
    const email = `${unique()}@example.org`;
    await invite({ email });
    // Under the organization's lock, which the acceptance waits for.
    await database.query('BEGIN');
    await database.query('SELECT FROM heads WHERE org_id = $1 FOR UPDATE', [place.org]);
    const login = unique();
    provider.describe(login, { email, email_verified: true });
    const { accessToken } = await provider.signIn(login);
    const signing = server.nobody.as(accessToken).get('/api/users/me');
    await expect.poll(async () => (await postgresWaits()).length).toBeGreaterThan(0);
    await database.query(change, [place.org]);
    await database.query('COMMIT');
    const { id } = (await signing).json;
    const { rows } = await database.query('SELECT FROM members WHERE org_id = $1 AND user_id = $2', [place.org, id]);
    expect([change, rows.length]).toEqual([change, 0]);
  }
});

/** Backends that wait for a lock that another holds. */
const postgresWaits = async (): Promise<readonly object[]> =>
  (
    await database.query(
      "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()",
    )
  ).rows;

it('a member who is removed does not come back by an invitation that was open all the time', async () => {
  const [login, email] = [unique(), `${unique()}@example.org`];
  const claims = { email, email_verified: true, preferred_username: login };
  await invite({ username: login });
  await invite({ email });
  expect(await roleOf(claims, { login })).toBe('member');
  expect(await invitations()).toEqual([]);
  const members: Json[] = await place.owner.api.expect(200, 'GET', `${place.base}/members`);
  const { user_id } = members.find(({ username }) => username === login) ?? {};
  await place.owner.api.expect(200, 'DELETE', `${place.base}/members/${user_id}`);
  expect(await roleOf(claims, { login })).toBeUndefined();
});

it('what cannot be an invitation is refused with every problem, and a second one replaces the first', async () => {
  const path = `${place.base}/invitations`;
  const problems = async (body: object): Promise<string[]> =>
    (await place.owner.api.expect(422, 'POST', path, body)).errors.map(
      ({ pointer, code }: Json) => `${pointer} ${code}`,
    );
  const { issuer } = provider;
  expect(await problems({ issuer })).toEqual([' missing_field']);
  expect(await problems({ issuer, email: 'a@b.example', username: 'a' })).toEqual([' contradiction']);
  expect(await problems({ email: 'k\u0131m@b.example', expires_at: '2020-01-01T00:00:00Z' })).toEqual([
    '/email not_an_email',
    '/issuer unknown_issuer',
    '/expires_at out_of_range',
  ]);
  expect(await problems({ issuer: 'https://evil.example', username: 'k\u200bim' })).toEqual([
    '/username not_a_username',
    '/issuer unknown_issuer',
  ]);
  const email = `${unique()}@example.org`;
  const { id } = await invite({ email });
  expect(await invite({ email: email.toUpperCase(), role: 'owner' })).toMatchObject({ id, email, role: 'owner' });
  expect(await invitations()).toHaveLength(1);
});
