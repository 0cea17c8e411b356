/** Owns what every operation that writes can be aimed at: a target of its own for each try, in an organization of its own. */
import type { rows } from '../../src/api/operation-table.ts';
import { operations } from '../../src/api/operations.ts';
import { operationIds, type OperationId } from '../../src/api/paths.ts';
import type { Api } from '../lib/http.ts';
import type { TestServer } from '../lib/server.ts';
import type { Role } from './rights-table.ts';

type Rows = typeof rows;

/** Every operation that is no read. A new one does not compile until it has a scenario. */
export type WriteId = { [Id in OperationId]: Rows[Id]['effect'] extends 'read' ? never : Id }[OperationId];
export const writeIds = operationIds.filter((id): id is WriteId => operations[id].effect !== 'read');

export interface Someone {
  readonly id: string;
  readonly api: Api;
}

/** A separate organization for each attempt: its owner, who stays, and the requester in this role. */
export interface Stage {
  readonly server: TestServer;
  readonly role: Role;
  readonly org: string;
  /** `/api/organizations/{org}` */
  readonly base: string;
  readonly keeper: Someone;
  readonly actor: Someone;
}

export interface Target {
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: string;
  readonly body?: unknown;
}

let serial = 0;
export const unique = (): string => `w${(serial += 1)}`;

export async function newUser({ admin, nobody }: TestServer): Promise<Someone> {
  const { id } = await admin.expect(201, 'POST', '/api/users', { username: unique() });
  const { token } = await admin.expect(201, 'POST', `/api/users/${id}/tokens`, {});
  return { id, api: nobody.as(token) };
}

export const newId = async (api: Api, path: string, body: object): Promise<string> =>
  (await api.expect(201, 'POST', path, body)).id;

export async function newMember({ server, keeper, base }: Stage): Promise<Someone> {
  const user = await newUser(server);
  await keeper.api.expect(201, 'POST', `${base}/members`, { user_id: user.id });
  return user;
}

const holderOf = ({ role, actor, keeper }: Stage): Someone =>
  role === 'owning_user' || role === 'device_user' ? actor : keeper;

const newGroup = (stage: Stage): Promise<string> =>
  stage.role === 'owning_user'
    ? newId(stage.actor.api, `/api/user/${stage.org}/security_groups`, { group_name: unique() })
    : newId(stage.keeper.api, `${stage.base}/security_groups`, { group_name: unique() });

type Scenario = (stage: Stage) => Promise<Target> | Target;
type Rest = Omit<Target, 'params'>;

const onGroup =
  (rest: Rest): Scenario =>
  async (stage) => ({ params: { sg_id: await newGroup(stage) }, ...rest });
const onDevice =
  (rest: Rest): Scenario =>
  async (stage) => ({
    params: { device_id: await newId(holderOf(stage).api, `${stage.base}/devices`, { public_key: unique() }) },
    ...rest,
  });
export const flowReport = {
  since: '2026-11-18T08:00:00Z',
  until: '2026-11-18T08:01:00Z',
  observed: 'all',
  tuples: [],
  not_recorded: 0,
};
const policyTest = () => ({
  name: unique(),
  from: { labels: ['nobody'] },
  to: { all_devices: true },
  protocol: 'icmp',
  expect: 'refuse',
});
/** Of a group of the organization; for a member one that the member started, whose device is deleted since, so that the member owns nothing. */
const onTrial =
  (rest: Rest): Scenario =>
  async ({ role, actor, keeper, base }) => {
    const { id, trial } = await keeper.api.expect(201, 'POST', `${base}/security_groups?confirm_within=3600`, {
      group_name: unique(),
    });
    if (role !== 'member') return { params: { trial_id: trial.id }, ...rest };
    await keeper.api.expect(200, 'POST', `${base}/trials/${trial.id}/confirm`);
    const device = `${base}/devices/${await newId(actor.api, `${base}/devices`, { public_key: unique() })}`;
    const tried = await actor.api.expect(200, 'PATCH', `${device}?confirm_within=3600`, { security_groups: [id] });
    await actor.api.expect(200, 'DELETE', device);
    return { params: { trial_id: tried.trial.id }, ...rest };
  };
const webhookBody = { url: 'https://hooks.example.com/', events: ['device.failed'] };
const onWebhook =
  (rest: Rest): Scenario =>
  async ({ keeper, base }) => ({
    params: { webhook_id: await newId(keeper.api, `${base}/webhooks`, webhookBody) },
    ...rest,
  });
const onToken: Scenario = async (stage) => ({
  params: { token_id: await newId(holderOf(stage).api, '/api/users/me/tokens', {}) },
});

export const scenarios: { readonly [Id in WriteId]: Scenario } = {
  createUser: () => ({ body: { username: unique() } }),
  removeUser: async ({ server }) => ({ params: { user_id: (await newUser(server)).id } }),
  createMyToken: () => ({ body: {} }),
  createUserToken: ({ keeper }) => ({ params: { user_id: keeper.id }, body: {} }),
  rotateToken: onToken,
  revokeToken: onToken,
  createOrganization: () => ({ body: { name: unique() } }),
  updateOrganization: () => ({ body: { name: unique() } }),
  deleteOrganization: () => ({}),
  addMember: async ({ server }) => ({ body: { user_id: (await newUser(server)).id } }),
  updateMember: async (stage) => ({ params: { user_id: (await newMember(stage)).id }, body: { role: 'owner' } }),
  acceptMember: async ({ keeper, actor, base }) => {
    await keeper.api.expect(200, 'PATCH', `${base}/members/${actor.id}`, { role: 'owner' });
    return { params: { user_id: actor.id } };
  },
  removeMember: async (stage) => ({
    params: { user_id: stage.role === 'owning_user' ? stage.actor.id : (await newMember(stage)).id },
  }),
  createInvitation: () => ({ body: { email: `${unique()}@example.org` } }),
  revokeInvitation: async (stage) => ({
    params: {
      invitation_id: await newId(stage.keeper.api, `${stage.base}/invitations`, { email: `${unique()}@example.org` }),
    },
  }),
  createDevice: () => ({ body: { public_key: unique() } }),
  updateDevice: onDevice({ body: { symmetric_nat: true } }),
  deleteDevice: onDevice({}),
  moveDevice: async (stage) => onDevice({ body: { user_id: (await newMember(stage)).id } })(stage),
  isolateDevice: onDevice({ body: { reason: 'r' } }),
  liftIsolation: async (stage) => {
    const device_id = await newId(holderOf(stage).api, `${stage.base}/devices`, { public_key: unique() });
    await stage.keeper.api.expect(200, 'POST', `${stage.base}/devices/${device_id}/isolate`, { reason: 'r' });
    return { params: { device_id } };
  },
  reportDeviceStatus: onDevice({ body: { state: 'applied' } }),
  reportFlows: onDevice({ body: flowReport }),
  createEnrollmentKey: () => ({ body: { name: unique() } }),
  revokeEnrollmentKey: async (stage) => ({
    params: { key_id: await newId(holderOf(stage).api, `${stage.base}/enrollment_keys`, {}) },
  }),
  createSecurityGroup: () => ({ body: { group_name: unique() } }),
  updateSecurityGroup: onGroup({ body: { group_name: 'another' } }),
  deleteSecurityGroup: onGroup({}),
  restoreSecurityGroup: async (stage) => {
    const sg_id = await newGroup(stage);
    const path = `${stage.base}/security_groups/${sg_id}`;
    const { revision } = await holderOf(stage).api.expect(200, 'PATCH', path, { group_name: 'another' });
    return { params: { sg_id }, body: { revision: revision - 1 } };
  },
  createUserSecurityGroup: () => ({ body: { group_name: unique() } }),
  updateUserSecurityGroup: onGroup({ body: { group_name: 'another' } }),
  deleteUserSecurityGroup: onGroup({}),
  applyChanges: ({ actor }) => ({ body: { security_groups: [{ group_name: unique(), user_id: actor.id }] } }),
  revertChangeSet: async ({ actor, org, base }) => {
    // A set that deleted one of the requester's own groups: before the revert the requester owns nothing.
    const own = await newId(actor.api, `/api/user/${org}/security_groups`, { group_name: unique() });
    const { change_id } = await actor.api.expect(200, 'POST', `${base}/changes`, { delete: [own] });
    return { params: { change_id } };
  },
  replacePolicyTests: () => ({ body: [policyTest()] }),
  widenTrial: onTrial({ body: { scope: null } }),
  confirmTrial: onTrial({}),
  revertTrial: onTrial({}),
  createWebhook: () => ({ body: webhookBody }),
  updateWebhook: onWebhook({ body: { name: 'another' } }),
  deleteWebhook: onWebhook({}),
  testWebhook: onWebhook({}),
  createEvidence: async (stage) => {
    const target = await onDevice({})(stage);
    return { ...target, body: { at: new Date().toISOString() } };
  },
  rotateEvidenceKey: () => ({}),
};
