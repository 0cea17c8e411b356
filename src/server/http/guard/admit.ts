/** Owns the way in: who asks, what they ask for, and whether the table of rights lets them. */
import type { OperationId } from '../../../api/paths.ts';
import { operations } from '../../../api/operations.ts';
import {
  NotAnId,
  parseDeviceId,
  parseEnrollmentKeyId,
  parseGroupId,
  parseOrganizationId,
  parseTokenId,
  parseUserId,
} from '../../../policy/ids.ts';
import type { Principal } from '../../identity/authenticate.ts';
import { StoreError } from '../../store/contract/errors.ts';
import type { Membership } from '../../store/contract/members.ts';
import type { Params, Subjects } from '../call.ts';
import { HttpError, notFound } from '../errors.ts';
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

/** Streams come in thousands when a server comes back, and last: they are let in together. */
export const isPatient = (id: OperationId): boolean => id === 'watchEvents';

/** What the database says about the path: the caller's place in the organization, and the thing that is named. */
interface Found {
  readonly membership?: Membership | undefined;
  readonly subjects: Subjects;
  /** What the path names and the caller does not get to see. */
  readonly missing?: Parameters<typeof notFound>[0] | undefined;
}

const absent = (error: unknown): boolean => error instanceof StoreError && error.code === 'not_found';

/** Reads what the path names, in as few questions as there can be. */
async function look(id: OperationId, principal: Principal, params: Params, lookups: Lookups): Promise<Found> {
  const named = operations[id].params;
  const me = principal.user_id;
  if (named.includes('sg_id')) {
    const { membership, thing } = await lookups.group(params.org_id, me, params.sg_id);
    // The user-scoped paths know user-owned groups only.
    const hidden = thing === undefined || (userScoped(id) && thing.user_id === undefined);
    if (hidden) return { membership, subjects: {}, missing: 'group' };
    return { membership, subjects: { group: thing.stored, user_id: thing.user_id } };
  }
  if (named.includes('device_id')) {
    const { membership, thing } = await lookups.device(params.org_id, me, params.device_id);
    if (thing === undefined) return { membership, subjects: {}, missing: 'device' };
    return { membership, subjects: { device: thing.stored, user_id: thing.user_id } };
  }
  const membership = organizationScoped(id) ? lookups.membership(params.org_id, me, isPatient(id)) : undefined;
  const [place, credential] = await Promise.all([membership, lookAtCredential(named, params, lookups)]);
  return { ...credential, membership: place };
}

/** Tokens and keys by their ids; anything else in the path needs no look. */
async function lookAtCredential(named: readonly string[], params: Params, { store }: Lookups): Promise<Found> {
  const [what, reading] = named.includes('token_id')
    ? (['token', store.tokens.get(params.token_id)] as const)
    : named.includes('key_id')
      ? (['enrollment_key', store.enrollmentKeys.get(params.org_id, params.key_id)] as const)
      : [];
  if (reading === undefined) return { subjects: {} };
  try {
    const credential = await reading;
    const user_id = credential.user_id;
    return { subjects: 'uses_left' in credential ? { key: credential, user_id } : { token: credential, user_id } };
  } catch (error) {
    if (!absent(error)) throw error;
    return { subjects: {}, missing: what };
  }
}

/** The roles that come with the credential and the organization in the path. */
function placeOf(id: OperationId, principal: Principal, params: Params, { membership }: Found): Set<Role> {
  const scoped = organizationScoped(id);
  if (principal.kind !== 'user') {
    if (scoped && principal.organization_id !== params.org_id) return new Set(['stranger']);
    return new Set([principal.kind === 'device' ? 'device_token' : 'enrollment_key']);
  }
  const roles = new Set<Role>();
  if (principal.is_admin) roles.add('administrator');
  if (!scoped || !membership?.is_member) return roles.add('stranger');
  roles.add('member');
  return membership.owner_id === principal.user_id ? roles.add('owner') : roles;
}

/** The roles that come with what the path names. Only a user has them: other credentials have no second role. */
function rolesTowards({ subjects }: Found, id: OperationId, principal: Principal, params: Params): Role[] {
  const me = principal.user_id;
  if (principal.kind !== 'user') return [];
  if (id === 'removeMember' || id === 'readUser') return params.user_id === me ? ['owning_user'] : [];
  if (subjects.user_id !== me) return [];
  return [subjects.device === undefined ? 'owning_user' : 'device_user'];
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
  const found = await look(id, principal, params, lookups);
  const roles = placeOf(id, principal, params, found);
  if (organizationScoped(id) && roles.has('stranger')) throw notFound('organization');
  const best = decideRights(id, roles, { organizationOwned: true, ownDevice: true });
  if (principal.kind !== 'user' && best === 'no') throw new HttpError('forbidden', refusal(principal));
  if (found.missing !== undefined) throw notFound(found.missing);
  const { subjects } = found;
  for (const role of rolesTowards(found, id, principal, params)) roles.add(role);
  const verdict = decideRights(id, roles, {
    organizationOwned: subjects.group !== undefined && subjects.user_id === undefined,
    ownDevice: principal.kind === 'device' && principal.device_id === params.device_id,
  });
  if (verdict === 'no') throw new HttpError('forbidden', refusal(principal));
  if (verdict === 'hidden') throw notFound(hiddenThing(subjects));
  return found.membership === undefined ? subjects : { ...subjects, owner_id: found.membership.owner_id };
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
