/**
 * Owns the path of every operation: its name, method, canonical path and kind of answer, free of schemas so that small
 * programs can import it.
 */

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** What comes back when all went well. */
export type AnswerKind = 'created' | 'record' | 'list' | 'deleted' | 'stream';

/** Every operation. Canonical paths begin with `/api`; `pathsOf` returns the aliases. */
export const paths = {
  whoAmI: ['GET', '/api/users/me', 'record'],
  createUser: ['POST', '/api/users', 'created'],
  listUsers: ['GET', '/api/users', 'list'],
  readUser: ['GET', '/api/users/{user_id}', 'record'],
  removeUser: ['DELETE', '/api/users/{user_id}', 'deleted'],
  createMyToken: ['POST', '/api/users/me/tokens', 'created'],
  listMyTokens: ['GET', '/api/users/me/tokens', 'list'],
  createUserToken: ['POST', '/api/users/{user_id}/tokens', 'created'],
  readToken: ['GET', '/api/tokens/{token_id}', 'record'],
  rotateToken: ['POST', '/api/tokens/{token_id}/rotate', 'record'],
  revokeToken: ['DELETE', '/api/tokens/{token_id}', 'deleted'],

  createOrganization: ['POST', '/api/organizations', 'created'],
  listOrganizations: ['GET', '/api/organizations', 'list'],
  readOrganization: ['GET', '/api/organizations/{org_id}', 'record'],
  updateOrganization: ['PATCH', '/api/organizations/{org_id}', 'record'],
  deleteOrganization: ['DELETE', '/api/organizations/{org_id}', 'deleted'],

  listMembers: ['GET', '/api/organizations/{org_id}/members', 'list'],
  addMember: ['POST', '/api/organizations/{org_id}/members', 'created'],
  readMember: ['GET', '/api/organizations/{org_id}/members/{user_id}', 'record'],
  updateMember: ['PATCH', '/api/organizations/{org_id}/members/{user_id}', 'record'],
  removeMember: ['DELETE', '/api/organizations/{org_id}/members/{user_id}', 'deleted'],
  acceptMember: ['POST', '/api/organizations/{org_id}/members/{user_id}/accept', 'record'],

  createInvitation: ['POST', '/api/organizations/{org_id}/invitations', 'created'],
  listInvitations: ['GET', '/api/organizations/{org_id}/invitations', 'list'],
  revokeInvitation: ['DELETE', '/api/organizations/{org_id}/invitations/{invitation_id}', 'deleted'],

  createDevice: ['POST', '/api/organizations/{org_id}/devices', 'created'],
  listDevicesInOrganization: ['GET', '/api/organizations/{org_id}/devices', 'list'],
  readDevice: ['GET', '/api/organizations/{org_id}/devices/{device_id}', 'record'],
  updateDevice: ['PATCH', '/api/organizations/{org_id}/devices/{device_id}', 'record'],
  deleteDevice: ['DELETE', '/api/organizations/{org_id}/devices/{device_id}', 'deleted'],
  listDeviceHistory: ['GET', '/api/organizations/{org_id}/devices/{device_id}/history', 'list'],
  listDeviceNamesakes: ['GET', '/api/organizations/{org_id}/devices/{device_id}/namesakes', 'list'],
  moveDevice: ['POST', '/api/organizations/{org_id}/devices/{device_id}/move', 'record'],
  isolateDevice: ['POST', '/api/organizations/{org_id}/devices/{device_id}/isolate', 'record'],
  previewIsolation: ['GET', '/api/organizations/{org_id}/devices/{device_id}/isolate', 'record'],
  liftIsolation: ['DELETE', '/api/organizations/{org_id}/devices/{device_id}/isolate', 'record'],

  listDeviceGroups: ['GET', '/api/organizations/{org_id}/devices/{device_id}/groups', 'list'],
  reportDeviceStatus: ['PUT', '/api/organizations/{org_id}/devices/{device_id}/status', 'record'],
  reportFlows: ['POST', '/api/organizations/{org_id}/devices/{device_id}/flows', 'record'],
  listFlows: ['GET', '/api/organizations/{org_id}/flows', 'list'],
  readFlowCoverage: ['GET', '/api/organizations/{org_id}/flows/coverage', 'record'],
  listDeviceStatuses: ['GET', '/api/organizations/{org_id}/device_statuses', 'list'],
  readConvergence: ['GET', '/api/organizations/{org_id}/convergence', 'record'],
  explainConnection: ['GET', '/api/organizations/{org_id}/explain', 'record'],
  readOverview: ['GET', '/api/organizations/{org_id}/overview', 'record'],

  createEnrollmentKey: ['POST', '/api/organizations/{org_id}/enrollment_keys', 'created'],
  listEnrollmentKeys: ['GET', '/api/organizations/{org_id}/enrollment_keys', 'list'],
  readEnrollmentKey: ['GET', '/api/organizations/{org_id}/enrollment_keys/{key_id}', 'record'],
  revokeEnrollmentKey: ['DELETE', '/api/organizations/{org_id}/enrollment_keys/{key_id}', 'deleted'],

  createSecurityGroup: ['POST', '/api/organizations/{org_id}/security_groups', 'created'],
  listSecurityGroups: ['GET', '/api/organizations/{org_id}/security_groups', 'list'],
  readSecurityGroup: ['GET', '/api/organizations/{org_id}/security_groups/{sg_id}', 'record'],
  updateSecurityGroup: ['PATCH', '/api/organizations/{org_id}/security_groups/{sg_id}', 'record'],
  deleteSecurityGroup: ['DELETE', '/api/organizations/{org_id}/security_groups/{sg_id}', 'deleted'],
  readSecurityGroupUsage: ['GET', '/api/organizations/{org_id}/security_groups/{sg_id}/usage', 'record'],
  readUnusedRules: ['GET', '/api/organizations/{org_id}/unused_rules', 'record'],
  readSecurityGroupObservation: ['GET', '/api/organizations/{org_id}/security_groups/{sg_id}/observation', 'record'],
  listSecurityGroupHistory: ['GET', '/api/organizations/{org_id}/security_groups/{sg_id}/history', 'list'],
  restoreSecurityGroup: ['POST', '/api/organizations/{org_id}/security_groups/{sg_id}/restore', 'record'],

  createUserSecurityGroup: ['POST', '/api/user/{org_id}/security_groups', 'created'],
  listUserSecurityGroups: ['GET', '/api/user/{org_id}/security_groups', 'list'],
  readUserSecurityGroup: ['GET', '/api/user/{org_id}/security_groups/{sg_id}', 'record'],
  updateUserSecurityGroup: ['PATCH', '/api/user/{org_id}/security_groups/{sg_id}', 'record'],
  deleteUserSecurityGroup: ['DELETE', '/api/user/{org_id}/security_groups/{sg_id}', 'deleted'],

  listPolicyTests: ['GET', '/api/organizations/{org_id}/policy_tests', 'list'],
  replacePolicyTests: ['PUT', '/api/organizations/{org_id}/policy_tests', 'list'],

  listTrials: ['GET', '/api/organizations/{org_id}/trials', 'list'],
  readTrial: ['GET', '/api/organizations/{org_id}/trials/{trial_id}', 'record'],
  widenTrial: ['PATCH', '/api/organizations/{org_id}/trials/{trial_id}', 'record'],
  confirmTrial: ['POST', '/api/organizations/{org_id}/trials/{trial_id}/confirm', 'record'],
  revertTrial: ['POST', '/api/organizations/{org_id}/trials/{trial_id}/revert', 'record'],

  createWebhook: ['POST', '/api/organizations/{org_id}/webhooks', 'created'],
  listWebhooks: ['GET', '/api/organizations/{org_id}/webhooks', 'list'],
  readWebhook: ['GET', '/api/organizations/{org_id}/webhooks/{webhook_id}', 'record'],
  updateWebhook: ['PATCH', '/api/organizations/{org_id}/webhooks/{webhook_id}', 'record'],
  deleteWebhook: ['DELETE', '/api/organizations/{org_id}/webhooks/{webhook_id}', 'deleted'],
  testWebhook: ['POST', '/api/organizations/{org_id}/webhooks/{webhook_id}/test', 'record'],
  listWebhookDeliveries: ['GET', '/api/organizations/{org_id}/webhooks/{webhook_id}/deliveries', 'list'],

  applyChanges: ['POST', '/api/organizations/{org_id}/changes', 'record'],
  readChangeSet: ['GET', '/api/organizations/{org_id}/changes/{change_id}', 'record'],
  revertChangeSet: ['POST', '/api/organizations/{org_id}/changes/{change_id}/revert', 'record'],
  simulateChanges: ['POST', '/api/organizations/{org_id}/simulate', 'record'],
  proposeRules: ['POST', '/api/organizations/{org_id}/propose', 'record'],

  listAudit: ['GET', '/api/organizations/{org_id}/audit', 'list'],
  listServerAudit: ['GET', '/api/audit', 'list'],

  createEvidence: ['POST', '/api/organizations/{org_id}/devices/{device_id}/evidence', 'record'],
  listEvidenceKeys: ['GET', '/api/organizations/{org_id}/evidence_keys', 'list'],
  rotateEvidenceKey: ['POST', '/api/organizations/{org_id}/evidence_keys', 'record'],

  watchEvents: ['POST', '/api/organizations/{org_id}/events', 'stream'],
} as const satisfies Record<string, readonly [Method, string, AnswerKind]>;

export type OperationId = keyof typeof paths;

/** The names in braces of a path, as a union. */
type ParamsIn<P extends string> = P extends `${string}{${infer Name}}${infer Rest}` ? Name | ParamsIn<Rest> : never;
export type ParamNames<Id extends OperationId> = ParamsIn<(typeof paths)[Id][1]>;
export type PathParams<Id extends OperationId> = Readonly<Record<ParamNames<Id>, string>>;

export const operationIds = Object.keys(paths) as readonly OperationId[];

/** The names of the variables in an operation's path, in their order. */
export const pathParams = (id: OperationId): readonly string[] =>
  Array.from(paths[id][1].matchAll(/\{(\w+)\}/g), ([, name = '']) => name);

/** The canonical path of an operation with its variables filled in. */
export function pathFor<Id extends OperationId>(id: Id, params: PathParams<Id>): string {
  const values: Readonly<Record<string, string>> = params;
  return paths[id][1].replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(values[name] ?? ''));
}

/** Every path an operation answers on, canonical first: with and without `/api`, `user` and `users` alike (reference 4.1). */
export function pathsOf(id: OperationId): readonly string[] {
  const canonical = paths[id][1];
  const spelling = /^\/api\/users?(?=\/|$)/;
  const spellings = spelling.test(canonical)
    ? [canonical, canonical.replace(spelling, canonical.startsWith('/api/users') ? '/api/user' : '/api/users')]
    : [canonical];
  return [...spellings, ...spellings.map((path) => path.slice('/api'.length))];
}
