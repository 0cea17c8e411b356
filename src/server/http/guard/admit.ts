/** Owns the admission of a request: who asks, what they ask for, and whether the table of rights allows it. */
import type { OperationId } from '../../../api/paths.ts';
import { operations, type Operation } from '../../../api/operations.ts';
import {
  NotAnId,
  parseChangeSetId,
  parseDeviceId,
  parseEnrollmentKeyId,
  parseInvitationId,
  parseGroupId,
  parseOrganizationId,
  parseTokenId,
  parseTrialId,
  parseUserId,
  parseWebhookId,
} from '../../../policy/ids.ts';
import { groupReader, type Principal } from '../../identity/authenticate.ts';
import { HttpError, problemTable, StoreError } from '../../problems.ts';
import type { Subject, Visible, VisibleSubject } from '../../store/accounts/access.ts';
import type { GroupRecord } from '../../store/data/records.ts';
import type { Membership } from '../../store/data/members.ts';
import type { Params, PathVariables, Subjects } from '../call.ts';
import type { Lookups } from './lookups.ts';
import { decideRights, type Role } from './rights.ts';

const parameterParsers: { readonly [Name in keyof PathVariables]: (text: unknown) => PathVariables[Name] } = {
  org_id: parseOrganizationId,
  sg_id: parseGroupId,
  device_id: parseDeviceId,
  user_id: parseUserId,
  token_id: parseTokenId,
  key_id: parseEnrollmentKeyId,
  webhook_id: parseWebhookId,
  change_id: parseChangeSetId,
  trial_id: parseTrialId,
  invitation_id: parseInvitationId,
};

const isVariable = (name: string): name is keyof PathVariables => Object.hasOwn(parameterParsers, name);

/** Every variable of the path, parsed. For a malformed id it returns the error, which the guard throws once the caller is authenticated. */
export function parseVariables(given: Readonly<Record<string, unknown>>): Partial<PathVariables> | HttpError {
  const parse = <Name extends keyof PathVariables>(name: Name): Pick<PathVariables, Name> =>
    ({ [name]: parameterParsers[name](given[name]) }) as Pick<PathVariables, Name>;
  const variables: Partial<PathVariables> = {};
  try {
    for (const name of Object.keys(given)) if (isVariable(name)) Object.assign(variables, parse(name));
  } catch (error) {
    if (error instanceof NotAnId) return new HttpError('malformed_path', `The path is malformed: ${error.message}.`);
    throw error;
  }
  return variables;
}

/** The subject of the path, if it can be read together with the credential. */
export function subjectOf(id: OperationId, variables: Partial<PathVariables> | HttpError): Subject | undefined {
  const { subject, effect } = operations[id];
  if (variables instanceof HttpError || variables.org_id === undefined) return undefined;
  const { org_id: org, sg_id, device_id } = variables;
  switch (subject) {
    case 'group':
    case 'user group':
    case 'current or deleted group':
      return sg_id === undefined ? undefined : { kind: 'group', org, id: sg_id };
    case 'device':
      // For a device's report about itself its token is enough, and many reports come at once.
      return device_id === undefined || effect === 'report' ? undefined : { kind: 'device', org, id: device_id };
    case 'enrollment key':
    case 'token':
    case 'user':
    case undefined:
      return undefined;
    default:
      return subject satisfies never;
  }
}

/** Whether these are all the variables of the operation's path. */
export const areParamsOf = <Id extends OperationId>(
  id: Id,
  variables: Partial<PathVariables>,
): variables is Params<Id> & Partial<PathVariables> =>
  operations[id].params.every((name) => isVariable(name) && variables[name] !== undefined);

/** A variable that the operation's path has. */
function need<Name extends keyof PathVariables>(variables: Partial<PathVariables>, name: Name): PathVariables[Name] {
  const value: PathVariables[Name] | undefined = variables[name];
  if (value === undefined) throw new Error(`the path has no ${name}`);
  return value;
}

/** Who asks, by a good credential, and what is known already of what the path names. */
interface AuthenticatedCaller {
  readonly principal: Principal;
  readonly visible: VisibleSubject | undefined;
}

type Missing = Parameters<typeof problemTable.not_found>[0]['what'];

/** What the database says about the path: the caller's membership, and the record that it names. */
interface Found {
  readonly membership?: Membership | undefined;
  readonly subjects: Subjects;
  /** The record that the path names and the caller cannot see. */
  readonly missing?: Missing | undefined;
}

/** Reads what the path names, in as few questions as there can be. */
async function look(
  operation: Operation,
  { principal, visible }: AuthenticatedCaller,
  variables: Partial<PathVariables>,
  lookups: Lookups,
): Promise<Found> {
  const me = principal.user_id;
  const { org_id } = variables;
  const place = org_id === undefined ? undefined : () => lookups.membership(org_id, me);
  const groupOf = async (): Promise<Visible<GroupRecord>> =>
    visible?.group ??
    lookups.group({
      org: need(variables, 'org_id'),
      user: me,
      id: need(variables, 'sg_id'),
      reader: groupReader(principal),
    });
  const { subject } = operation;
  switch (subject) {
    case 'group':
    case 'user group': {
      const { membership, thing } = await groupOf();
      const hidden = thing === undefined || (subject === 'user group' && thing.user_id === undefined);
      if (hidden) return { membership, subjects: {}, missing: 'group' };
      return { membership, subjects: { group: thing.stored, user_id: thing.user_id } };
    }
    case 'current or deleted group': {
      const [org, id] = [need(variables, 'org_id'), need(variables, 'sg_id')];
      const reader = groupReader(principal);
      const { membership, thing } = await groupOf();
      if (thing !== undefined) return { membership, subjects: { group: thing.stored, user_id: thing.user_id } };
      const deleted = await lookups.store.history.deletedGroup(org, id, reader);
      if (deleted === undefined) return { membership, subjects: {}, missing: 'group' };
      return { membership, subjects: { deletedGroup: deleted.stored, user_id: deleted.user_id } };
    }
    case 'device': {
      // For a device's report about itself its token is enough. The write checks that the device still exists.
      const speaker = principal.kind === 'device' ? principal.device_id : undefined;
      if (operation.effect === 'report' && speaker === variables.device_id) return { subjects: {} };
      const { membership, thing } =
        visible?.device ?? (await lookups.device(need(variables, 'org_id'), me, need(variables, 'device_id')));
      if (thing === undefined) return { membership, subjects: {}, missing: 'device' };
      return { membership, subjects: { device: thing.stored, user_id: thing.user_id } };
    }
    case 'token': {
      const token = await orAbsent(lookups.store.tokens.get(need(variables, 'token_id')));
      return token === undefined ? { subjects: {}, missing: 'token' } : { subjects: { token, user_id: token.user_id } };
    }
    case 'enrollment key': {
      const reading = lookups.store.enrollmentKeys.get(need(variables, 'org_id'), need(variables, 'key_id'));
      const [membership, key] = await Promise.all([place?.(), orAbsent(reading)]);
      return key === undefined
        ? { membership, subjects: {}, missing: 'enrollment_key' }
        : { membership, subjects: { key, user_id: key.user_id } };
    }
    case 'user':
      return { membership: await place?.(), subjects: { user_id: need(variables, 'user_id') } };
    case undefined:
      return { membership: await place?.(), subjects: {} };
    default:
      return subject satisfies never;
  }
}

async function orAbsent<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof StoreError && error.code === 'not_found') return undefined;
    throw error;
  }
}

/** The roles that come with the credential and the organization in the path. */
function placeOf(principal: Principal, { org_id }: Partial<PathVariables>, { membership }: Found): Set<Role> {
  const scoped = org_id !== undefined;
  if (principal.kind !== 'user') {
    if (scoped && principal.organization_id !== org_id) return new Set(['stranger']);
    return new Set([principal.kind === 'device' ? 'device_token' : 'enrollment_key']);
  }
  const roles = new Set<Role>();
  if (principal.is_admin) roles.add('administrator');
  if (!scoped || membership?.role === undefined) return roles.add('stranger');
  roles.add('member');
  return membership.role === 'owner' ? roles.add('owner') : roles;
}

/** The roles that come with what the path names. Only a user has them: other credentials have no second role. */
function rolesTowards({ subjects }: Found, principal: Principal): Role[] {
  if (principal.kind !== 'user' || subjects.user_id !== principal.user_id) return [];
  return [subjects.device === undefined ? 'owning_user' : 'device_user'];
}

/**
 * Lets the caller in or throws: 403 or 404 as the table of rights says, 404 when what the path names does not exist.
 * A stranger learns nothing of an organization, not even what exists in it.
 */
export async function admit(
  id: OperationId,
  caller: AuthenticatedCaller,
  variables: Partial<PathVariables>,
  lookups: Lookups,
): Promise<Subjects> {
  const operation = operations[id];
  const { principal } = caller;
  if (principal.kind === 'user' && principal.scope === 'read-only' && operation.effect !== 'read') {
    throw new HttpError('forbidden', 'This token is read-only.');
  }
  const found = await look(operation, caller, variables, lookups);
  const roles = placeOf(principal, variables, found);
  if (variables.org_id !== undefined && roles.has('stranger')) throw problemTable.not_found({ what: 'organization' });
  const best = decideRights(id, roles, { organizationOwned: true, ownDevice: true });
  if (principal.kind !== 'user' && best === 'no') throw new HttpError('forbidden', refusal(principal));
  if (found.missing !== undefined) throw problemTable.not_found({ what: found.missing });
  const { subjects } = found;
  for (const role of rolesTowards(found, principal)) roles.add(role);
  const verdict = decideRights(id, roles, {
    organizationOwned: groupIn(subjects) && subjects.user_id === undefined,
    ownDevice: principal.kind === 'device' && principal.device_id === variables.device_id,
  });
  if (verdict === 'no') throw new HttpError('forbidden', refusal(principal));
  if (verdict === 'hidden') throw problemTable.not_found({ what: hiddenThing(subjects) });
  return roles.has('owner') ? { ...subjects, byOwner: true } : subjects;
}

const groupIn = ({ group, deletedGroup }: Subjects): boolean => (group ?? deletedGroup) !== undefined;

function refusal(principal: Principal): string {
  if (principal.kind === 'device')
    return 'A device token cannot do this: it can only read its organization and report its own endpoint.';
  if (principal.kind === 'enrollment') return 'An enrollment key can only register a device.';
  return 'You do not have permission to do this.';
}

function hiddenThing(subjects: Subjects): Missing {
  if (subjects.token !== undefined) return 'token';
  if (subjects.key !== undefined) return 'enrollment_key';
  return groupIn(subjects) ? 'group' : 'organization';
}
