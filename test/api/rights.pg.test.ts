/** Proves the table of rights: every role × every operation that the server describes, each on a target of its own. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { OperationId } from '../../src/api/paths.ts';
import { readWebhookHost } from '../../src/server/limits/webhook-hosts.ts';
import type { Api } from '../lib/http.ts';
import { Person } from '../lib/person.ts';
import { audience, startProvider, webClient, type TestProvider } from '../lib/provider.ts';
import { startPostgres, startTestServer, type TestPostgres, type TestServer } from '../lib/server.ts';
import { rounds, sample } from '../lib/thorough.ts';
import { flowReport } from './write-scenarios.ts';
import {
  expected,
  isRefusedOutsider,
  judged,
  kindsFor,
  promised,
  readByPost,
  roles,
  type Kind,
  type Role,
} from './rights-table.ts';

/** What a person may sign requests with. */
const credentials = ['user_token', 'access_token', 'session', 'read_only'] as const;
type By = (typeof credentials)[number];
interface Someone {
  readonly id: string;
  readonly api: Api;
  readonly by: Readonly<Record<By, Api>>;
}

let provider: TestProvider;
let postgres: TestPostgres;
let server: TestServer;
let people: { readonly owner: Someone; readonly member: Someone; readonly stranger: Someone };
let place: typeof people & { readonly org: string; readonly base: string };
/** A member who owns what the operations aim at. */
let holder: Someone;
let ownDevice: { id: string; device_token: string };
let described: { readonly id: string; readonly method: string; readonly path: string }[];

beforeAll(async () => {
  [provider, postgres] = await Promise.all([startProvider(), startPostgres()]);
  server = await startTestServer(postgres, {
    oidcIssuer: [provider.issuer],
    oidcAudience: [audience],
    oidcClientId: webClient.id,
    // Nothing is sent there: the name is reserved for examples.
    webhookHosts: [readWebhookHost('hooks.example.com')],
    webhooks: { workEveryMs: 3_600_000 },
  });
  provider.serveWeb(server.url, { isPublic: true });
  people = { owner: await someone('owner'), member: await someone('member'), stranger: await someone('stranger') };
  holder = await someone('holder');
  await newOrganization();
  const document = (await server.nobody.get('/api/openapi.json')).json;
  described = Object.entries(
    document.paths as Record<string, Record<string, { operationId: string; tags: string[] }>>,
  ).flatMap(([path, methods]) =>
    Object.entries(methods)
      // Sign-in and sign-out of a browser's session: the requester has no identity yet.
      .filter(([, { tags }]) => !tags.includes('sign-in'))
      .map(([method, { operationId }]) => ({ id: operationId, method, path })),
  );
});
afterAll(async () => {
  await server?.close();
  await postgres?.stop();
  await provider?.stop();
});

/** The place of the next attempts. One that has seen hundreds of them makes each operation on all of it dearer. */
async function newOrganization(): Promise<void> {
  const { owner, member } = people;
  const { id: org } = await owner.api.expect(201, 'POST', '/api/organizations', { name: 'acme' });
  place = { ...people, org, base: `/api/organizations/${org}` };
  for (const { id } of [member, holder]) await owner.api.expect(201, 'POST', `${place.base}/members`, { user_id: id });
  ownDevice = await holder.api.expect(201, 'POST', `${place.base}/devices`, { public_key: 'of the token' });
}

/** A person of the provider, with every credential that a person can have. */
async function someone(login: string): Promise<Someone> {
  const byToken = server.nobody.as((await provider.signIn(login)).accessToken);
  const { id } = await byToken.expect(200, 'GET', '/api/users/me');
  const issued = async (scope: string): Promise<Api> =>
    server.nobody.as((await byToken.expect(201, 'POST', '/api/users/me/tokens', { scope })).token);
  const browser = new Person(login);
  await browser.follow(`${server.url}/api/auth/login`, { stop: `${server.url}/ui/` });
  const by = {
    user_token: await issued('full'),
    access_token: byToken,
    session: server.nobody.asBrowser(browser.cookieHeader),
    read_only: await issued('read-only'),
  };
  return { id, api: by.user_token, by };
}

let serial = 0;
const unique = (): string => `r${(serial += 1)}`;
const newInvitation = async (): Promise<string> => {
  const body = { email: `${unique()}@example.org` };
  return (await place.owner.api.expect(201, 'POST', `${place.base}/invitations`, body)).id;
};

/** A group of the holder's, applied to a device so that every member sees it. */
async function userGroup(): Promise<string> {
  const { id } = await holder.api.expect(201, 'POST', `/api/user/${place.org}/security_groups`, {
    group_name: unique(),
  });
  const body = { public_key: unique(), security_groups: [id] };
  await holder.api.expect(201, 'POST', `${place.base}/devices`, body);
  return id;
}
const organizationGroup = async (): Promise<string> =>
  (await place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, { group_name: unique() })).id;
const device = async (): Promise<string> =>
  (await holder.api.expect(201, 'POST', `${place.base}/devices`, { public_key: unique() })).id;

interface Target {
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: string;
  readonly body?: unknown;
}

/**
 * The target, fresh for each attempt; `kind` distinguishes the two kinds of groups and devices where the table does.
 */
type Scenario = (kind: Kind, role: Role) => Promise<Target> | Target;

const group =
  (more: Omit<Target, 'params'> = {}): Scenario =>
  async (kind, role) => ({
    params: { sg_id: kind === 'first' && role !== 'owning_user' ? await organizationGroup() : await userGroup() },
    ...more,
  });
const userScopedGroup =
  (more: Omit<Target, 'params'> = {}): Scenario =>
  async () => ({ params: { sg_id: await userGroup() }, ...more });
const aDevice =
  (more: Omit<Target, 'params'> = {}): Scenario =>
  async (kind, role) => ({
    params: { device_id: kind === 'first' && role === 'device_token' ? ownDevice.id : await device() },
    ...more,
  });

/** One that ends again: an organization may have only so many. */
const webhook =
  (more: Omit<Target, 'params'> = {}): Scenario =>
  async () => {
    const old: { id: string }[] = await place.owner.api.expect(200, 'GET', `${place.base}/webhooks`);
    for (const { id } of old) await place.owner.api.expect(200, 'DELETE', `${place.base}/webhooks/${id}`);
    const body = { url: 'https://hooks.example.com/', events: ['device.failed'] };
    const { id } = await place.owner.api.expect(201, 'POST', `${place.base}/webhooks`, body);
    return { params: { webhook_id: id }, ...more };
  };

/** A trial of a group that the requester may change: the member's own, or the organization's. */
const aTrial =
  (more: Omit<Target, 'params'> = {}): Scenario =>
  async (_kind, role) => {
    const [api, base] =
      role === 'member' ? [place.member.api, `/api/user/${place.org}`] : [place.owner.api, place.base];
    const path = `${base}/security_groups?confirm_within=3600`;
    const { trial } = await api.expect(201, 'POST', path, { group_name: unique() });
    return { params: { trial_id: trial.id }, ...more };
  };

const scenarios: { readonly [Id in OperationId]: Scenario } = {
  whoAmI: () => ({}),
  createUser: () => ({ body: { username: unique() } }),
  listUsers: () => ({}),
  readUser: () => ({ params: { user_id: holder.id } }),
  removeUser: async () => ({
    params: { user_id: (await server.admin.expect(201, 'POST', '/api/users', { username: unique() })).id },
  }),
  createMyToken: () => ({ body: {} }),
  listMyTokens: () => ({}),
  createUserToken: () => ({ params: { user_id: holder.id }, body: {} }),
  readToken: async () => ({
    params: { token_id: (await holder.api.expect(201, 'POST', '/api/users/me/tokens')).id },
  }),
  rotateToken: async () => ({
    params: { token_id: (await holder.api.expect(201, 'POST', '/api/users/me/tokens')).id },
  }),
  revokeToken: async () => ({
    params: { token_id: (await holder.api.expect(201, 'POST', '/api/users/me/tokens')).id },
  }),
  createOrganization: () => ({ body: { name: unique() } }),
  listOrganizations: () => ({}),
  readOrganization: () => ({}),
  updateOrganization: () => ({ body: { name: unique() } }),
  deleteOrganization: () => ({}),
  listMembers: () => ({}),
  addMember: async () => ({
    body: { user_id: (await server.admin.expect(201, 'POST', '/api/users', { username: unique() })).id },
  }),
  readMember: async () => ({ params: { user_id: (await newMember()).id } }),
  updateMember: async (_kind, role) => ({
    params: { user_id: role === 'owning_user' ? holder.id : (await newMember()).id },
    body: { role: role === 'owning_user' ? 'owner' : 'member' },
  }),
  acceptMember: async () => ({ params: { user_id: (await newMember()).id } }),
  removeMember: async (_kind, role) => ({
    params: { user_id: role === 'owning_user' ? holder.id : (await newMember()).id },
  }),
  createInvitation: () => ({ body: { email: `${unique()}@example.org` } }),
  listInvitations: () => ({}),
  revokeInvitation: async () => ({ params: { invitation_id: await newInvitation() } }),
  createDevice: () => ({ body: { public_key: unique() } }),
  listDevicesInOrganization: () => ({}),
  readDevice: aDevice(),
  updateDevice: aDevice({ body: { symmetric_nat: true } }),
  deleteDevice: aDevice(),
  moveDevice: async (kind, role) => aDevice({ body: { user_id: (await newMember()).id } })(kind, role),
  // What an owner isolates here is the owner's: a member with an isolated device could not leave in the end.
  isolateDevice: async (kind, role) => {
    const target = await aDevice({ body: { reason: 'r' } })(kind, role);
    if (role !== 'owner') return target;
    const { id } = await place.owner.api.expect(201, 'POST', `${place.base}/devices`, { public_key: unique() });
    return { ...target, params: { device_id: id } };
  },
  previewIsolation: aDevice(),
  liftIsolation: aDevice(),
  listDeviceGroups: aDevice(),
  listDeviceHistory: aDevice(),
  listDeviceNamesakes: aDevice(),
  reportDeviceStatus: aDevice({ body: { state: 'applied' } }),
  reportFlows: aDevice({ body: flowReport }),
  listFlows: () => ({}),
  readFlowCoverage: () => ({}),
  listDeviceStatuses: () => ({}),
  readConvergence: () => ({}),
  simulateChanges: () => ({ body: { security_groups: [] } }),
  proposeRules: () => ({ body: { labels: ['db'] } }),
  explainConnection: async () => {
    const body = { public_key: unique(), tunnel_ip: '100.64.0.1' };
    const { id } = await holder.api.expect(201, 'POST', `${place.base}/devices`, body);
    return { query: `?from=${id}&to=100.64.0.2&port=22` };
  },
  readOverview: () => ({}),
  createEnrollmentKey: () => ({ body: {} }),
  listEnrollmentKeys: () => ({}),
  readEnrollmentKey: async () => ({
    params: { key_id: (await holder.api.expect(201, 'POST', `${place.base}/enrollment_keys`)).id },
  }),
  revokeEnrollmentKey: async () => ({
    params: { key_id: (await holder.api.expect(201, 'POST', `${place.base}/enrollment_keys`)).id },
  }),
  createSecurityGroup: () => ({ body: { group_name: unique() } }),
  listSecurityGroups: () => ({}),
  readSecurityGroup: group(),
  updateSecurityGroup: group({ body: { group_name: unique() } }),
  deleteSecurityGroup: group({ query: '?detach=true' }),
  readSecurityGroupUsage: group(),
  readUnusedRules: () => ({}),
  readSecurityGroupObservation: group(),
  listSecurityGroupHistory: group(),
  restoreSecurityGroup: async (kind, role) => {
    const { params = {} } = await group()(kind, role);
    const reader = role === 'owning_user' || kind === 'second' ? holder.api : place.owner.api;
    const { revision } = await reader.expect(200, 'GET', `${place.base}/security_groups/${params['sg_id']}`);
    return { params, body: { revision } };
  },
  createUserSecurityGroup: () => ({ body: { group_name: unique() } }),
  listUserSecurityGroups: () => ({}),
  readUserSecurityGroup: userScopedGroup(),
  updateUserSecurityGroup: userScopedGroup({ body: { group_name: unique() } }),
  deleteUserSecurityGroup: userScopedGroup({ query: '?detach=true' }),
  listPolicyTests: () => ({}),
  replacePolicyTests: () => ({ body: [] }),
  listTrials: () => ({}),
  readTrial: aTrial(),
  widenTrial: aTrial({ body: { scope: null } }),
  confirmTrial: aTrial(),
  revertTrial: aTrial(),
  createWebhook: () => ({ body: { url: 'https://hooks.example.com/', events: ['device.failed'] } }),
  listWebhooks: () => ({}),
  readWebhook: webhook(),
  updateWebhook: webhook({ body: { name: 'another' } }),
  deleteWebhook: webhook(),
  testWebhook: webhook(),
  listWebhookDeliveries: webhook(),
  applyChanges: (_kind, role) => ({ body: ownGroup(role) }),
  readChangeSet: async (_kind, role) => ({ params: { change_id: await newChangeSet(role) } }),
  revertChangeSet: async (_kind, role) => ({ params: { change_id: await newChangeSet(role) } }),
  createEvidence: async (kind, role) => {
    const target = await aDevice()(kind, role);
    return { ...target, body: { at: new Date().toISOString() } };
  },
  listEvidenceKeys: () => ({}),
  rotateEvidenceKey: () => ({}),
  listAudit: () => ({}),
  listServerAudit: () => ({}),
  watchEvents: () => ({ body: [{ kind: 'device' }] }),
};

/** A change set that owners and members alike may write: a group of one's own. */
const ownGroup = (role: Role): object => {
  const { id } = role === 'member' ? place.member : role === 'owner' ? place.owner : holder;
  return { security_groups: [{ group_name: unique(), user_id: id }] };
};

async function newChangeSet(role: Role): Promise<string> {
  const { api } = role === 'member' ? place.member : role === 'owner' ? place.owner : holder;
  return (await api.expect(200, 'POST', `${place.base}/changes`, ownGroup(role))).change_id;
}

async function newMember(): Promise<{ id: string }> {
  const user = await server.admin.expect(201, 'POST', '/api/users', { username: unique() });
  await place.owner.api.expect(201, 'POST', `${place.base}/members`, { user_id: user.id });
  return user;
}

/** Someone in this role towards what the scenarios aim at. */
async function inRole(role: Role, by: By): Promise<Api> {
  switch (role) {
    case 'owner':
      return place.owner.by[by];
    case 'member':
      return place.member.by[by];
    case 'owning_user':
    case 'device_user':
      return holder.by[by];
    case 'device_token':
      return server.nobody.as(ownDevice.device_token);
    case 'enrollment_key':
      return server.nobody.as((await holder.api.expect(201, 'POST', `${place.base}/enrollment_keys`)).key);
    case 'administrator':
      return server.admin;
    case 'stranger':
      return place.stranger.by[by];
    default:
      return role satisfies never;
  }
}

const verdict = (status: number): string =>
  status === 403 ? 'no' : status === 404 ? 'hidden' : status < 300 ? 'yes' : `${status}`;

async function attempt(
  id: OperationId,
  role: Role,
  kind: Kind,
  { by = 'user_token', target = scenarios[id](kind, role) }: { by?: By; target?: Promise<Target> | Target } = {},
): Promise<string> {
  const operation = described.find((one) => one.id === id);
  if (operation === undefined) throw new Error(`${id} is not described`);
  const { params = {}, query = '', body } = await target;
  const filled = operation.path.replace(/\{(\w+)\}/g, (_, name: string) => params[name] ?? place.org);
  const api = await inRole(role, by);
  return verdict(await api.status(operation.method.toUpperCase(), `${filled}${query}`, { body }));
}

/** Whether a read-only token may do it: what is asked by GET, the stream, and simulations. */
const reads = (id: OperationId): boolean =>
  readByPost.includes(id) || described.some((one) => one.id === id && one.method === 'get');

/** These end the place or a membership that later tries need, or need an owner who has not accepted: they are tried last, and what is allowed in places of their own. */
const ending: readonly OperationId[] = ['acceptMember', 'deleteOrganization', 'removeMember'];

describe('the table of rights', () => {
  test('has a row for every operation that the server describes, and no other', () => {
    expect(described.map(({ id }) => id).toSorted()).toEqual(judged.toSorted());
  });

  /** Tries every `step`-th operation in these roles, each role another one; gives how often, and what came out otherwise than `judge` says. */
  async function tryAll(
    tried: readonly Role[],
    by: By,
    step: number,
    judge: (id: OperationId, cellSays: string) => string = (_id, cellSays) => cellSays,
  ): Promise<{ readonly count: number; readonly wrong: readonly string[] }> {
    const wrong: string[] = [];
    let count = 0;
    const ids = (described.map((one) => one.id) as OperationId[]).toSorted(
      (a, b) => ending.indexOf(a) - ending.indexOf(b),
    );
    for (const [turn, id] of ids.entries()) {
      if (turn % 5 === 0) await newOrganization();
      const shared = new Map<Kind, Target>();
      for (const role of sample(tried, step, turn)) {
        const cell = promised(id, role);
        if (cell === '-' || (ending.includes(id) && cell === 'yes')) continue;
        for (const kind of kindsFor(id, role, cell)) {
          const want = judge(id, expected(cell, kind));
          const isShared = isRefusedOutsider(role, cell);
          const target = (isShared ? shared.get(kind) : undefined) ?? (await scenarios[id](kind, role));
          if (isShared) shared.set(kind, target);
          const got = await attempt(id, role, kind, { by, target });
          count += 1;
          if (got !== want) wrong.push(`${id} ${role} by ${by}: ${got}, not ${want}`);
        }
      }
    }
    return { count, wrong };
  }

  test('is what the server does: every role × every operation', async () => {
    const { count, wrong } = await tryAll(roles, 'user_token', 1);
    expect(wrong).toEqual([]);
    expect(count).toBeGreaterThan(550);
  });

  const persons = ['owner', 'member', 'owning_user', 'device_user', 'stranger'] as const;

  // How a person signs in is settled before an operation is chosen: `npm test` tries each operation in some role, and each role in many operations.
  test.each(['access_token', 'session'] as const)('is the same for people who ask by %s', async (by) => {
    const { count, wrong } = await tryAll(persons, by, 5);
    expect(wrong).toEqual([]);
    expect(count).toBeGreaterThan(rounds(35, 150));
  });

  test('has nothing but reading for a read-only token, whoever holds it', async () => {
    const { count, wrong } = await tryAll(persons, 'read_only', 5, (id, cellSays) => (reads(id) ? cellSays : 'no'));
    expect(wrong).toEqual([]);
    expect(count).toBeGreaterThan(rounds(35, 150));
  });

  test('lets the owner remove a member, a member leave, and the owner delete the organization', async () => {
    for (const [id, role] of [
      ['removeMember', 'owner'],
      ['removeMember', 'owning_user'],
      ['deleteOrganization', 'owner'],
    ] as const) {
      expect(promised(id, role)).toBe('yes');
      expect(await attempt(id, role, 'first'), `${id} ${role}`).toBe('yes');
    }
  });
});
