/**
 * Holds, for every operation, the worst request that its limits allow, and the organization that it is asked of: many devices, labels and policy tests,
 * devices with 50,000 overlapping ranges and 80,000 rules, much traffic, long histories. A new operation does not compile until its worst request is here.
 */
import type { OperationId } from '../../src/api/paths.ts';
import { worstPolicy } from '../../src/policy/worst-policies.fixture.ts';
import type { Api, Json } from '../lib/http.ts';
import { rounds } from '../lib/thorough.ts';
import { groups as worstGroups } from './budget-inputs.ts';

export interface Someone {
  readonly id: string;
  readonly api: Api;
}

export interface Scene {
  readonly admin: Api;
  readonly owner: Someone;
  readonly member: Someone;
  readonly org: string;
  /** `/api/organizations/{org}` */
  readonly base: string;
  /** Many devices in cohorts by label. */
  readonly fleet: readonly string[];
  /** The member's, with 64 groups of its own. */
  readonly heavy: readonly [string, string];
  /** Of the first of the fleet. */
  readonly deviceToken: Api;
  /** Groups of the heavy devices, and one that applies to the whole fleet. */
  readonly ownGroup: string;
  readonly fleetGroup: string;
  readonly watchedGroup: string;
  /** Of the organization; its newest states are small, and those before are as large as may be. */
  readonly changedGroup: string;
  /** Before anything was made, and when the fleet was there. */
  readonly begun: string;
  readonly revision: number;
  readonly newUser: () => Promise<Someone>;
  /** An organization with some devices and groups, to be taken apart. */
  readonly newOrganization: (owner: Someone) => Promise<Json>;
}

export interface Shot {
  readonly as?: Api;
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: string;
  readonly body?: unknown;
  readonly raw?: string;
  /** Another status than that of success. */
  readonly status?: number;
}

/** Makes the request; what it is aimed at is made before, and does not count. */
export type Worst = (scene: Scene) => Promise<Shot> | Shot;

const devices = rounds(1_000, 10_000);
const cohorts = 50;
const time = (agoMs = 0): string => new Date(Date.now() - agoMs).toISOString();
let serial = 0;
const unique = (): string => `worst-${(serial += 1)}`;
const longText = 'd'.repeat(4_096);
const labelsOf = (n: number): string[] => ['fleet', `l${n % cohorts}`];
const manyLabels = (n: number): string[] => Array.from({ length: 30 }, (_, i) => `x${(n + i) % 60}`);

async function inParallel<T>(count: number, make: (n: number) => Promise<T>): Promise<T[]> {
  const made: T[] = [];
  let next = 0;
  const run = async (): Promise<void> => {
    while (next < count) {
      const n = next;
      next += 1;
      made[n] = await make(n);
    }
  };
  await Promise.all(Array.from({ length: 48 }, run));
  return made;
}

const overlapping = worstPolicy({
  groups: 5,
  rules: 990,
  ranges: 10,
  addresses: 'windows',
  ports: 'short',
  protocols: 'both',
  families: 'v4',
  directions: 1,
  seed: 1,
}).groups.map(({ inbound }) => ({ inbound_rules: inbound }));

/** A rule for each port of its own, so that nothing can be put together. */
const portRules = (g: number): object[] =>
  Array.from({ length: 1_000 }, (_, k) => {
    const port = 1 + ((g * 1_000 + k) % 65_535);
    return { ip_protocol: 'tcp', from_port: port, to_port: port };
  });

export async function makeScene(admin: Api, person: (name: string) => Promise<Someone>): Promise<Scene> {
  const begun = time(1_000);
  const [owner, member] = [await person('owner'), await person('member')];
  const { id: org } = await owner.api.expect(201, 'POST', '/api/organizations', { name: 'large' });
  const base = `/api/organizations/${org}`;
  await owner.api.expect(201, 'POST', `${base}/members`, { user_id: member.id });
  await owner.api.expect(200, 'PATCH', base, { observe: 'all' });
  const fleet = await inParallel(devices, async (n): Promise<Json> =>
    owner.api.expect(201, 'POST', `${base}/devices`, {
      public_key: `key ${n}`,
      hostname: `host-${n}`,
      labels: labelsOf(n),
      tunnel_ip: `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`,
    }),
  );
  const rule = (n: number) => ({
    ip_protocol: 'tcp',
    from_port: 1_000 + n,
    to_port: 1_000 + n,
    peers: Array.from({ length: 10 }, (_, i) => ({ labels: [`l${(n + i) % cohorts}`] })),
  });
  const cohortGroups = await inParallel(cohorts, (n) =>
    owner.api.expect(201, 'POST', `${base}/security_groups`, {
      group_name: `cohort ${n}`,
      applies_to: [{ labels: [`l${n}`] }],
      inbound_rules: [rule(n)],
      outbound_rules: [rule(n)],
    }),
  );
  const { id: fleetGroup } = await owner.api.expect(201, 'POST', `${base}/security_groups`, {
    group_name: 'fleet',
    applies_to: [{ labels: ['fleet'] }],
    inbound_rules: [{ ip_protocol: 'tcp', from_port: 22, to_port: 22, peers: [{ all_devices: true }] }],
  });
  const { id: watchedGroup } = await owner.api.expect(201, 'POST', `${base}/security_groups`, {
    group_name: 'watched',
    mode: 'observe',
    applies_to: [{ all_devices: true }],
    inbound_rules: portRules(0),
  });
  await owner.api.expect(201, 'POST', `${base}/security_groups`, {
    group_name: 'forbidden',
    guardrail: 'forbid',
    applies_to: [{ all_devices: true }],
    inbound_rules: Array.from({ length: 100 }, (_, n) => ({
      ip_protocol: 'tcp',
      from_port: 30_000 + n,
      to_port: 30_000 + n,
      peers: [{ labels: [`l${n % cohorts}`] }],
    })),
  });
  const own: string[] = [];
  for (const body of [
    ...overlapping,
    ...Array.from({ length: 36 }, (_, g) => ({ inbound_rules: portRules(g), outbound_rules: portRules(g) })),
  ]) {
    const made = await member.api.expect(201, 'POST', `/api/user/${org}/security_groups`, {
      group_name: unique(),
      ...body,
    });
    own.push(made.id);
  }
  const heavy: Json[] = [];
  for (const n of [1, 2]) {
    const body = { public_key: `heavy ${n}`, hostname: `heavy-${n}`, tunnel_ip: `100.64.0.${n}`, security_groups: own };
    heavy.push(await member.api.expect(201, 'POST', `${base}/devices`, body));
  }
  await owner.api.expect(200, 'PUT', `${base}/policy_tests`, policyTests());
  const changedGroup = await manyStates(owner, base);
  const { revision } = await owner.api.expect(200, 'GET', `${base}/convergence?limit=1`);
  const reported = fleet.slice(0, 6);
  await inParallel(reported.length, async (n) => {
    const { id, device_token } = reported[n];
    await admin.as(device_token).expect(200, 'POST', `${base}/devices/${id}/flows`, flows(n, 500));
  });
  await inParallel(fleet.length, (n) =>
    admin.as(fleet[n].device_token).expect(200, 'PUT', `${base}/devices/${fleet[n].id}/status`, status(revision)),
  );
  for (const { id } of fleet.slice(-20))
    await owner.api.expect(200, 'POST', `${base}/devices/${id}/isolate`, { reason: 'x', allow: [{ labels: ['l1'] }] });
  return {
    admin,
    owner,
    member,
    org,
    base,
    fleet: fleet.map(({ id }) => id),
    heavy: [heavy[0].id, heavy[1].id],
    deviceToken: admin.as(fleet[0].device_token),
    ownGroup: own[0] ?? '',
    fleetGroup,
    watchedGroup,
    changedGroup,
    begun,
    revision,
    newUser: () => person(unique()),
    newOrganization: (of) => smallOrganization(of, cohortGroups.length),
  };
}

/** Peers of eight long labels: megabytes of text in few rules. */
export const longLabels = (first: number, rules = 100): object[] =>
  Array.from({ length: rules }, (_, rule) => ({
    ip_protocol: 'tcp',
    from_port: 1 + rule,
    to_port: 1 + rule,
    peers: Array.from({ length: 60 }, (__, peer) => ({
      labels: Array.from({ length: 8 }, (___, n) => `${first}-${rule}-${peer}-${n}-`.padEnd(63, 'x')).toSorted(),
    })),
  }));

/** A group with states of three megabytes, and then as many small ones as make the next page long for who goes by the size of the last records. */
async function manyStates({ api }: Someone, base: string): Promise<string> {
  const { id } = await api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'changed' });
  const large = [1, 2].map((first) => ({ inbound_rules: longLabels(first) }));
  for (let n = 0; n < 20; n += 1) await api.expect(200, 'PATCH', `${base}/security_groups/${id}`, large[n % 2]);
  await api.expect(200, 'PATCH', `${base}/security_groups/${id}`, { inbound_rules: [] });
  for (let n = 0; n < 20; n += 1)
    await api.expect(200, 'PATCH', `${base}/security_groups/${id}`, { group_description: `${n}` });
  return id;
}

async function smallOrganization({ api }: Someone, count: number): Promise<Json> {
  const made = await api.expect(201, 'POST', '/api/organizations', { name: unique() });
  const base = `/api/organizations/${made.id}`;
  await inParallel(count, (n) =>
    api.expect(201, 'POST', `${base}/devices`, { public_key: `key ${n}`, labels: labelsOf(n) }),
  );
  return made;
}

const status = (revision: number): object => ({
  state: 'applied',
  revision,
  policy_digest: 'a'.repeat(64),
  policy_digest_form: 3,
  detail: 'x'.repeat(1_000),
});

/** Between each two cohorts that are so far apart. */
const policyTests = (count = 1_000): object[] =>
  Array.from({ length: count }, (_, n) => ({
    name: `test ${n}`,
    from: { labels: [`l${n % cohorts}`] },
    to: { labels: [`l${Math.floor(n / 10) % cohorts}`] },
    protocol: 'tcp',
    port: 40_000 + n,
    expect: 'refuse',
    note: 'n'.repeat(40),
  }));

const flows = (n: number, perKind = 4_096): object => ({
  since: time(120_000),
  until: time(60_000 - n),
  observed: 'all',
  tuples: (['in', 'out'] as const).flatMap((direction) =>
    ([4, 6] as const).flatMap((family) =>
      Array.from({ length: perKind }, (_, i) => ({
        direction,
        verdict: i % 2 === 0 ? 'refused' : 'admitted',
        far: family === 4 ? `10.0.${(i >> 8) & 255}.${i & 255}` : `fd00::${(i + 1).toString(16)}`,
        protocol: 'tcp',
        port: 1 + ((i * 13) % 65_535),
        packets: 1 + i,
      })),
    ),
  ),
  not_recorded: 0,
});

const [largestGroup] = worstGroups();
const groupAt =
  (sg_id: (scene: Scene) => string, rest: Omit<Shot, 'params'> = {}): Worst =>
  (scene) => ({
    as: scene.owner.api,
    params: { sg_id: sg_id(scene) },
    ...rest,
  });
const deviceAt =
  (n: (scene: Scene) => string, rest: Omit<Shot, 'params'> = {}): Worst =>
  (scene) => ({
    params: { device_id: n(scene) },
    ...rest,
  });
const heaviest = ({ heavy: [one] }: Scene): string => one;
const ofFleet = ({ fleet }: Scene): string => fleet[0] ?? '';
const newToken = async ({ owner }: Scene): Promise<string> =>
  (await owner.api.expect(201, 'POST', '/api/users/me/tokens', { name: 'x'.repeat(255) })).id;
const newMember = async ({ owner, base, newUser }: Scene): Promise<Someone> => {
  const user = await newUser();
  await owner.api.expect(201, 'POST', `${base}/members`, { user_id: user.id });
  return user;
};
const memberWithDevices = async (scene: Scene): Promise<Someone> => {
  const member = await newMember(scene);
  await inParallel(10, () => member.api.expect(201, 'POST', `${scene.base}/devices`, { public_key: unique() }));
  return member;
};
const newDevice = async ({ owner, base }: Scene, body: object = {}): Promise<string> =>
  (await owner.api.expect(201, 'POST', `${base}/devices`, { public_key: unique(), ...body })).id;
const newKey = async ({ owner, base }: Scene): Promise<string> =>
  (await owner.api.expect(201, 'POST', `${base}/enrollment_keys`, {})).id;
const newGroup = async ({ owner, base }: Scene, body: object = {}): Promise<string> =>
  (await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: unique(), ...body })).id;
const newOwnGroup = async ({ member, org }: Scene, body: object = {}): Promise<string> =>
  (await member.api.expect(201, 'POST', `/api/user/${org}/security_groups`, { group_name: unique(), ...body })).id;
const onWholeFleet = { applies_to: [{ all_devices: true }] };
/** A change of a group that the whole fleet has, on trial. */
const newTrial = async ({ owner, base }: Scene): Promise<string> => {
  const path = `${base}/security_groups?confirm_within=3600&scope=label:l1`;
  const body = {
    group_name: unique(),
    ...onWholeFleet,
    inbound_rules: [{ ip_protocol: 'tcp', from_port: 1, to_port: 9 }],
  };
  return (await owner.api.expect(201, 'POST', path, body)).trial.id;
};
const webhookBody = { url: `https://hooks.example.com/${'p'.repeat(1_900)}`, events: ['device.failed'] };
const newWebhook = async ({ owner, base }: Scene): Promise<string> =>
  (await owner.api.expect(201, 'POST', `${base}/webhooks`, webhookBody)).id;
const onWebhook =
  (rest: Omit<Shot, 'params'> = {}): Worst =>
  async (scene) => ({
    params: { webhook_id: await newWebhook(scene) },
    ...rest,
  });
const onTrial =
  (rest: Omit<Shot, 'params'> = {}): Worst =>
  async (scene) => ({
    params: { trial_id: await newTrial(scene) },
    ...rest,
  });
/** New labels for these devices. */
const relabelling = (some: readonly string[]): object => {
  serial += 1;
  return { devices: some.map((id, n) => ({ id, labels: [...labelsOf(n), `turn-${serial}`].toSorted() })) };
};
/** As many records as a change may have; two one after the other have no device in common. */
const newChangeSet = async ({ owner, base, fleet }: Scene): Promise<string> => {
  const half = fleet.slice(0, 1_000).filter((_, n) => n % 2 === serial % 2);
  return (await owner.api.expect(200, 'POST', `${base}/changes`, relabelling(half))).change_id;
};

/** Asked as the owner unless something else is said. */
export const worst: { readonly [Id in OperationId]: Worst } = {
  whoAmI: () => ({}),
  createUser: ({ admin }) => ({ as: admin, body: { username: `${unique()}${'u'.repeat(200)}` } }),
  listUsers: ({ admin }) => ({ as: admin }),
  readUser: ({ admin, owner }) => ({ as: admin, params: { user_id: owner.id } }),
  removeUser: async (scene) => ({ as: scene.admin, params: { user_id: (await memberWithDevices(scene)).id } }),
  createMyToken: () => ({ body: { name: 'x'.repeat(255) } }),
  listMyTokens: () => ({}),
  createUserToken: ({ admin, member }) => ({ as: admin, params: { user_id: member.id }, body: {} }),
  readToken: async (scene) => ({ params: { token_id: await newToken(scene) } }),
  rotateToken: async (scene) => ({ params: { token_id: await newToken(scene) } }),
  revokeToken: async (scene) => ({ params: { token_id: await newToken(scene) } }),

  createOrganization: () => ({ body: { name: unique(), description: longText } }),
  listOrganizations: () => ({}),
  readOrganization: () => ({}),
  updateOrganization: () => ({ body: { description: `${longText.slice(9)}${unique()}`.slice(-4_096) } }),
  deleteOrganization: async ({ owner, newOrganization }) => ({ params: { org_id: (await newOrganization(owner)).id } }),
  listMembers: () => ({}),
  addMember: async ({ newUser }) => ({ body: { user_id: (await newUser()).id } }),
  readMember: ({ member }) => ({ params: { user_id: member.id } }),
  updateMember: async (scene) => ({ params: { user_id: (await newMember(scene)).id }, body: { role: 'owner' } }),
  removeMember: async (scene) => ({ params: { user_id: (await memberWithDevices(scene)).id } }),
  acceptMember: async (scene) => {
    const { id, api } = await newMember(scene);
    await scene.owner.api.expect(200, 'PATCH', `${scene.base}/members/${id}`, { role: 'owner' });
    return { as: api, params: { user_id: id } };
  },
  // This server has no provider.
  createInvitation: () => ({ body: { email: `${'i'.repeat(60)}@example.org` }, status: 422 }),
  listInvitations: () => ({}),
  revokeInvitation: () => ({ params: { invitation_id: '00000000-0000-4000-8000-000000000000' }, status: 404 }),

  createDevice: () => ({
    body: {
      public_key: unique(),
      labels: [...manyLabels(serial), 'fleet', 'l1'].toSorted(),
      addresses: Array.from({ length: 16 }, (_, n) => `fd01::${serial.toString(16)}:${n + 1}`),
      child_prefix: Array.from({ length: 256 }, (_, n) => `fd02:${n + 1}::/32`),
    },
  }),
  listDevicesInOrganization: ({ revision }) => ({ query: `?at_revision=${revision}` }),
  readDevice: deviceAt(heaviest),
  updateDevice: (scene) => ({
    params: { device_id: ofFleet(scene) },
    body: { labels: [...manyLabels((serial += 1)), 'fleet', 'l2'].toSorted() },
  }),
  deleteDevice: async (scene) => ({ params: { device_id: await newDevice(scene, { labels: ['fleet', 'l3'] }) } }),
  listDeviceHistory: deviceAt(ofFleet),
  listDeviceNamesakes: deviceAt(ofFleet),
  moveDevice: async (scene) => ({
    params: { device_id: await newDevice(scene) },
    body: { user_id: scene.member.id },
  }),
  isolateDevice: async (scene) => ({
    params: { device_id: await newDevice(scene, { labels: ['fleet'], tunnel_ip: `10.200.0.${(serial += 1) % 250}` }) },
    body: { reason: 'r'.repeat(255), allow: Array.from({ length: 64 }, (_, n) => ({ labels: [`l${n}`] })) },
  }),
  previewIsolation: deviceAt(ofFleet),
  liftIsolation: async (scene) => {
    const device_id = await newDevice(scene, { labels: ['fleet'] });
    await scene.owner.api.expect(200, 'POST', `${scene.base}/devices/${device_id}/isolate`, { reason: 'x' });
    return { params: { device_id } };
  },
  listDeviceGroups: deviceAt(heaviest),
  reportDeviceStatus: ({ deviceToken, fleet: [device_id = ''], revision }) => ({
    as: deviceToken,
    params: { device_id },
    body: status(revision),
  }),
  reportFlows: ({ deviceToken, fleet: [device_id = ''] }) => ({
    as: deviceToken,
    params: { device_id },
    body: flows((serial += 1)),
  }),
  listFlows: ({ begun }) => ({ query: `?since=${new Date(Date.parse(begun) - 86_400_000).toISOString()}&limit=10000` }),
  readFlowCoverage: () => ({}),
  listDeviceStatuses: () => ({}),
  readConvergence: () => ({}),
  explainConnection: ({ heavy: [from, to] }) => ({ query: `?from=${from}&to=${to}&protocol=tcp&port=65535` }),
  readOverview: () => ({ query: '?hours=336' }),

  createEnrollmentKey: () => ({ body: { labels: manyLabels(0).toSorted(), uses: 100_000 } }),
  listEnrollmentKeys: () => ({}),
  readEnrollmentKey: async (scene) => ({ params: { key_id: await newKey(scene) } }),
  revokeEnrollmentKey: async (scene) => ({ params: { key_id: await newKey(scene) } }),

  createSecurityGroup: () => ({ raw: largestGroup?.raw ?? '' }),
  listSecurityGroups: ({ revision }) => ({ query: `?at_revision=${revision}` }),
  readSecurityGroup: groupAt(({ ownGroup }) => ownGroup),
  updateSecurityGroup: groupAt(({ fleetGroup }) => fleetGroup, { raw: largestGroup?.raw ?? '' }),
  deleteSecurityGroup: async (scene) => ({
    params: { sg_id: await newGroup(scene, onWholeFleet) },
    query: '?detach=true',
  }),
  readSecurityGroupUsage: groupAt(({ watchedGroup }) => watchedGroup),
  readUnusedRules: () => ({}),
  readSecurityGroupObservation: groupAt(({ watchedGroup }) => watchedGroup, { query: '?limit=10000' }),
  listSecurityGroupHistory: groupAt(({ changedGroup }) => changedGroup, { query: '?limit=10000' }),
  restoreSecurityGroup: async (scene) => {
    const { owner, base, fleetGroup } = scene;
    const { revision } = await owner.api.expect(200, 'GET', `${base}/security_groups/${fleetGroup}`);
    await owner.api.expect(200, 'PATCH', `${base}/security_groups/${fleetGroup}`, { group_description: unique() });
    return { params: { sg_id: fleetGroup }, body: { revision } };
  },
  createUserSecurityGroup: ({ member }) => ({
    as: member.api,
    body: { group_name: unique(), inbound_rules: portRules(1), outbound_rules: portRules(2) },
  }),
  listUserSecurityGroups: ({ member }) => ({ as: member.api }),
  readUserSecurityGroup: ({ member, ownGroup }) => ({ as: member.api, params: { sg_id: ownGroup } }),
  updateUserSecurityGroup: ({ member, ownGroup }) => ({
    as: member.api,
    params: { sg_id: ownGroup },
    body: overlapping[(serial += 1) % 2],
  }),
  deleteUserSecurityGroup: async (scene) => ({
    as: scene.member.api,
    params: { sg_id: await newOwnGroup(scene) },
    query: '?detach=true',
  }),

  listPolicyTests: () => ({}),
  replacePolicyTests: () => ({ body: policyTests() }),

  listTrials: () => ({}),
  readTrial: onTrial(),
  widenTrial: onTrial({ body: { scope: null } }),
  confirmTrial: onTrial(),
  revertTrial: onTrial({ body: {} }),

  createWebhook: () => ({ body: webhookBody }),
  listWebhooks: () => ({}),
  readWebhook: onWebhook(),
  updateWebhook: onWebhook({ body: { name: 'n'.repeat(255) } }),
  deleteWebhook: onWebhook(),
  testWebhook: onWebhook(),
  listWebhookDeliveries: onWebhook(),

  applyChanges: ({ fleet }) => ({ body: relabelling(fleet.slice(0, 1_000)) }),
  readChangeSet: async (scene) => ({ params: { change_id: await newChangeSet(scene) } }),
  revertChangeSet: async (scene) => ({ params: { change_id: await newChangeSet(scene) } }),
  simulateChanges: ({ fleet }) => ({ body: { delete: fleet.slice(0, 1_000) } }),
  proposeRules: ({ fleet }) => ({ body: { device_ids: fleet.slice(0, 1_000) } }),

  listAudit: () => ({ query: '?limit=10000' }),
  listServerAudit: ({ admin }) => ({ as: admin, query: '?limit=10000' }),
  createEvidence: ({ heavy: [device_id] }) => ({ params: { device_id }, body: { at: time() } }),
  listEvidenceKeys: () => ({}),
  rotateEvidenceKey: () => ({}),
  watchEvents: () => ({ body: [{ kind: 'device' }, { kind: 'security-groups' }] }),
};
