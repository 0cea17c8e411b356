/**
 * Owns the right that a request passes to the store: its credential, and the roles that the table of rights accepts.
 * The store checks it in the write.
 */
import { rightRoles } from '../../../organization/decide/caller.ts';
import { operations } from '../../../api/operations.ts';
import { operationIds, type OperationId } from '../../../api/paths.ts';
import type { Principal } from '../../identity/authenticate.ts';
import { type Right, type RightSubject, type WriteCredential } from '../../store/data/actor.ts';
import type { PathVariables } from '../call.ts';
import { rights, type Cell, type Role } from './rights.ts';

/** The store's role bits for a `yes` of each role. */
const bits: { readonly [Name in Role]: number } = {
  owner: rightRoles.owner,
  member: rightRoles.member,
  owning_user: rightRoles.owningUser,
  device_user: rightRoles.owningUser,
  device_token: rightRoles.ownDevice,
  enrollment_key: rightRoles.enrollmentKey,
  administrator: rightRoles.administrator,
  stranger: rightRoles.anyUser,
};

function bitsOf(role: Role, cell: Cell): number {
  switch (cell) {
    case 'yes':
    case 'itself':
      return bits[role];
    case 'orgs':
      return rightRoles.ownerOfOwn;
    case 'no':
    case 'hidden':
    case '-':
      return 0;
    default:
      return cell satisfies never;
  }
}

type Kind = Principal['kind'];

/** Only a user has several roles; another credential has one. */
const held: { readonly [Name in Kind]: readonly Role[] } = {
  user: ['owner', 'member', 'owning_user', 'device_user', 'administrator', 'stranger'],
  device: ['device_token'],
  enrollment: ['enrollment_key'],
};

const readRoles = (id: OperationId, kind: Kind): number =>
  held[kind].reduce((sum, role) => sum | bitsOf(role, rights[id][role]), 0);

const roleBits = Object.fromEntries(
  operationIds.map((id) => [
    id,
    { user: readRoles(id, 'user'), device: readRoles(id, 'device'), enrollment: readRoles(id, 'enrollment') },
  ]),
) as Readonly<Record<OperationId, Readonly<Record<Kind, number>>>>;

/** The roles by which an operation may be done with such a credential. */
export const rolesOf = (id: OperationId, kind: Kind): number => roleBits[id][kind];

function credentialFor(principal: Principal): WriteCredential {
  if (principal.kind === 'enrollment') return { kind: 'enrollment_key', id: principal.key_id };
  const { expires_at } = principal;
  if (principal.token_id === undefined) return { kind: 'access_token', expires_at };
  if (principal.kind === 'user' && principal.by_session) return { kind: 'session', id: principal.token_id, expires_at };
  return { kind: 'token', digest: principal.digest, expires_at };
}

function subjectFor(id: OperationId, variables: Partial<PathVariables>): RightSubject | undefined {
  const { subject } = operations[id];
  const named = (kind: RightSubject['kind'], value: string | undefined): RightSubject => {
    if (value === undefined) throw new Error(`${id} names no ${kind}`);
    return { kind, id: value };
  };
  switch (subject) {
    case 'group':
    case 'user group':
    case 'current or deleted group':
      return named('group', variables.sg_id);
    case 'device':
      return named('device', variables.device_id);
    case 'token':
      return named('token', variables.token_id);
    case 'enrollment key':
      return named('enrollment_key', variables.key_id);
    case 'user':
      return named('user', variables.user_id);
    case undefined:
      return undefined;
    default:
      return subject satisfies never;
  }
}

/** The right by which the guard admitted the caller. */
export const rightOf = (id: OperationId, principal: Principal, variables: Partial<PathVariables>): Right => ({
  user_id: principal.user_id,
  credential: credentialFor(principal),
  roles: rolesOf(id, principal.kind),
  subject: subjectFor(id, variables),
});
