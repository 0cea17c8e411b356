/** Owns the address of every operation: its name, method and canonical path, free of schemas so that small programs can import it. */

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** Every operation. Canonical paths carry `/api`; `pathsOf` tells the aliases. */
export const paths = {
  whoAmI: ['GET', '/api/users/me'],
  createUser: ['POST', '/api/users'],
  listUsers: ['GET', '/api/users'],
  readUser: ['GET', '/api/users/{user_id}'],
  removeUser: ['DELETE', '/api/users/{user_id}'],
  createMyToken: ['POST', '/api/users/me/tokens'],
  listMyTokens: ['GET', '/api/users/me/tokens'],
  createUserToken: ['POST', '/api/users/{user_id}/tokens'],
  readToken: ['GET', '/api/tokens/{token_id}'],
  rotateToken: ['POST', '/api/tokens/{token_id}/rotate'],
  revokeToken: ['DELETE', '/api/tokens/{token_id}'],

  createOrganization: ['POST', '/api/organizations'],
  listOrganizations: ['GET', '/api/organizations'],
  readOrganization: ['GET', '/api/organizations/{org_id}'],
  updateOrganization: ['PATCH', '/api/organizations/{org_id}'],
  deleteOrganization: ['DELETE', '/api/organizations/{org_id}'],

  listMembers: ['GET', '/api/organizations/{org_id}/members'],
  addMember: ['POST', '/api/organizations/{org_id}/members'],
  readMember: ['GET', '/api/organizations/{org_id}/members/{user_id}'],
  removeMember: ['DELETE', '/api/organizations/{org_id}/members/{user_id}'],

  createDevice: ['POST', '/api/organizations/{org_id}/devices'],
  listDevicesInOrganization: ['GET', '/api/organizations/{org_id}/devices'],
  readDevice: ['GET', '/api/organizations/{org_id}/devices/{device_id}'],
  updateDevice: ['PATCH', '/api/organizations/{org_id}/devices/{device_id}'],
  deleteDevice: ['DELETE', '/api/organizations/{org_id}/devices/{device_id}'],

  reportDeviceStatus: ['PUT', '/api/organizations/{org_id}/devices/{device_id}/status'],
  listDeviceStatuses: ['GET', '/api/organizations/{org_id}/device_statuses'],

  createEnrollmentKey: ['POST', '/api/organizations/{org_id}/enrollment_keys'],
  listEnrollmentKeys: ['GET', '/api/organizations/{org_id}/enrollment_keys'],
  readEnrollmentKey: ['GET', '/api/organizations/{org_id}/enrollment_keys/{key_id}'],
  revokeEnrollmentKey: ['DELETE', '/api/organizations/{org_id}/enrollment_keys/{key_id}'],

  createSecurityGroup: ['POST', '/api/organizations/{org_id}/security_groups'],
  listSecurityGroups: ['GET', '/api/organizations/{org_id}/security_groups'],
  readSecurityGroup: ['GET', '/api/organizations/{org_id}/security_groups/{sg_id}'],
  updateSecurityGroup: ['PATCH', '/api/organizations/{org_id}/security_groups/{sg_id}'],
  deleteSecurityGroup: ['DELETE', '/api/organizations/{org_id}/security_groups/{sg_id}'],

  createUserSecurityGroup: ['POST', '/api/user/{org_id}/security_groups'],
  listUserSecurityGroups: ['GET', '/api/user/{org_id}/security_groups'],
  readUserSecurityGroup: ['GET', '/api/user/{org_id}/security_groups/{sg_id}'],
  updateUserSecurityGroup: ['PATCH', '/api/user/{org_id}/security_groups/{sg_id}'],
  deleteUserSecurityGroup: ['DELETE', '/api/user/{org_id}/security_groups/{sg_id}'],

  listAudit: ['GET', '/api/organizations/{org_id}/audit'],
  listServerAudit: ['GET', '/api/audit'],

  watchEvents: ['POST', '/api/organizations/{org_id}/events'],
} as const satisfies Record<string, readonly [Method, string]>;

export type OperationId = keyof typeof paths;

/** The names in braces of a path, as a union. */
type ParamsIn<P extends string> = P extends `${string}{${infer Name}}${infer Rest}` ? Name | ParamsIn<Rest> : never;
export type PathParams<Id extends OperationId> = Readonly<Record<ParamsIn<(typeof paths)[Id][1]>, string>>;

export const operationIds = Object.keys(paths) as readonly OperationId[];

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
