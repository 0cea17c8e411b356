/** Owns the way in: who asks, what they ask for, and whether the table of rights lets them. */
import type { OperationId } from '../../api/paths.ts';
import { operations } from '../../api/operations.ts';
import {
  NotAnId,
  parseDeviceId,
  parseEnrollmentKeyId,
  parseGroupId,
  parseOrganizationId,
  parseTokenId,
  parseUserId,
} from '../../policy/ids.ts';
import type { Principal } from '../identity/authenticate.ts';
import type { Params, Subjects } from './call.ts';
import { HttpError, notFound } from './errors.ts';
import type { Lookups } from './lookups.ts';
import { decideRights, writes, type Role } from './rights.ts';

const doors: { readonly [Name in keyof Params]: (text: unknown) => Params[Name] } = {
  org_id: parseOrganizationId,
  sg_id: parseGroupId,
  device_id: parseDeviceId,
  user_id: parseUserId,
  token_id: parseTokenId,
  key_id: parseEnrollmentKeyId,
};

const isParam = (name: string): name is keyof Params => name in doors;

/** Every variable of the path through its door; 400 for one that is no id. */
export function parseParams(given: Readonly<Record<string, unknown>>): Params {
  const params: Record<string, string> = {};
  for (const [name, text] of Object.entries(given)) {
    if (!isParam(name)) continue;
    try {
      params[name] = doors[name](text);
    } catch (error) {
      if (error instanceof NotAnId) throw new HttpError('malformed_path', `The path is malformed: ${error.message}.`);
      throw error;
    }
  }
  return params as unknown as Params;
}

const userScoped = (id: OperationId): boolean => operations[id].path.startsWith('/api/user/');
const organizationScoped = (id: OperationId): boolean => operations[id].params.includes('org_id');

/** The roles that come with the credential and the organization in the path. */
async function placeOf(
  id: OperationId,
  principal: Principal,
  params: Params,
  lookups: Lookups,
): Promise<{ readonly roles: Set<Role>; readonly owner_id?: Subjects['owner_id'] }> {
  const scoped = organizationScoped(id);
  if (principal.kind !== 'user') {
    if (scoped && principal.organization_id !== params.org_id) return { roles: new Set(['stranger']) };
    return { roles: new Set([principal.kind === 'device' ? 'device_token' : 'enrollment_key']) };
  }
  const roles = new Set<Role>();
  if (principal.is_admin) roles.add('administrator');
  if (!scoped) return { roles: roles.add('stranger') };
  const membership = await lookups.membership(params.org_id, principal.user_id);
  if (!membership?.is_member) return { roles: roles.add('stranger') };
  roles.add('member');
  if (membership.owner_id === principal.user_id) roles.add('owner');
  return { roles, owner_id: membership.owner_id };
}

/** Reads what the path names, and only that. */
async function subjectsOf(id: OperationId, principal: Principal, params: Params, lookups: Lookups): Promise<Subjects> {
  const { store } = lookups;
  const named = operations[id].params;
  if (named.includes('sg_id')) {
    const group = await lookups.group(params.org_id, params.sg_id, principal.user_id);
    // The user-scoped paths know user-owned groups only.
    if (userScoped(id) && group.record.user_id === undefined) throw notFound('group');
    return { group };
  }
  if (named.includes('device_id')) return { device: await store.devices.get(params.org_id, params.device_id) };
  if (named.includes('token_id')) return { token: await store.tokens.get(params.token_id) };
  if (named.includes('key_id')) return { key: await store.enrollmentKeys.get(params.org_id, params.key_id) };
  return {};
}

/** The roles that come with what the path names. Only a user has them: other credentials have no second role. */
function rolesTowards(subjects: Subjects, id: OperationId, principal: Principal, params: Params): Role[] {
  if (principal.kind !== 'user') return [];
  const me = principal.user_id;
  const roles: Role[] = [];
  if (subjects.group?.record.user_id === me || subjects.token?.user_id === me || subjects.key?.user_id === me) {
    roles.push('owning_user');
  }
  if (id === 'removeMember' && params.user_id === me) roles.push('owning_user');
  if (subjects.device?.record.user_id === me) roles.push('device_user');
  return roles;
}

/**
 * Lets the caller in or throws: 403 or 404 as the table of rights says, 404 when what the path names does not exist.
 * A stranger learns nothing of an organization, not even what exists in it.
 */
export async function admit(
  id: OperationId,
  principal: Principal,
  params: Params,
  lookups: Lookups,
): Promise<Subjects> {
  if (principal.kind === 'user' && principal.scope === 'read-only' && writes(id, operations[id].method)) {
    throw new HttpError('forbidden', 'This token is read-only.');
  }
  // Asked for at once, to wait for the database only once; judged in order.
  const reading = subjectsOf(id, principal, params, lookups).then(
    (subjects) => ({ subjects }),
    (failure: unknown) => ({ failure }),
  );
  const { roles, owner_id } = await placeOf(id, principal, params, lookups);
  if (organizationScoped(id) && roles.has('stranger')) throw notFound('organization');
  const best = decideRights(id, roles, { organizationOwned: true, ownDevice: true });
  if (principal.kind !== 'user' && best === 'no') throw new HttpError('forbidden', refusal(principal));
  const read = await reading;
  if ('failure' in read) throw read.failure;
  const subjects = owner_id === undefined ? read.subjects : { ...read.subjects, owner_id };
  // What holds for any such thing needs no look at this one.
  if (decideRights(id, roles, { organizationOwned: false, ownDevice: false }) === 'yes') return subjects;
  for (const role of rolesTowards(subjects, id, principal, params)) roles.add(role);
  const verdict = decideRights(id, roles, {
    organizationOwned: subjects.group !== undefined && subjects.group.record.user_id === undefined,
    ownDevice: principal.kind === 'device' && principal.device_id === params.device_id,
  });
  if (verdict === 'no') throw new HttpError('forbidden', refusal(principal));
  if (verdict === 'hidden') throw notFound(hiddenThing(subjects));
  return subjects;
}

function refusal(principal: Principal): string {
  if (principal.kind === 'device')
    return 'A device token may not do this: it reads its organization and reports its own endpoint.';
  if (principal.kind === 'enrollment') return 'An enrollment key admits a device and nothing else.';
  return 'You may not do this.';
}

function hiddenThing(subjects: Subjects): Parameters<typeof notFound>[0] {
  if (subjects.token !== undefined) return 'token';
  if (subjects.key !== undefined) return 'enrollment_key';
  return subjects.group === undefined ? 'organization' : 'group';
}
