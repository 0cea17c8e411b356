/** Owns the operations on users and their credentials: tokens and enrollment keys. */
import { normalLabels } from '../../../api/device-body.ts';
import { pathFor } from '../../../api/paths.ts';
import type { EnrollmentKey, RemovedUser, Token, User, WhoAmI } from '../../../api/user.ts';
import { readUsername } from '../../../policy/names/username.ts';
import { isUuid, parseGroupId, parseUserId, type UserId } from '../../../policy/ids.ts';
import { show } from '../../../policy/problem.ts';
import { mint } from '../../identity/secret.ts';
import type { RemoveUser } from '../../store/accounts/user-removal.ts';
import type { EnrollmentKeyRecord, TokenRecord, UserRecord } from '../../store/data/records.ts';
import { HttpError, invalid, StoreError } from '../../problems.ts';
import { credentialOf } from '../observe/audit-entry.ts';
import { record, type Call, type Handler, type RecordResult, type Services } from '../call.ts';
import { answerList } from '../request/paging.ts';

const showUser = ({ id, username, is_admin, security_groups, created_at }: UserRecord): User => ({
  id,
  username,
  ...(is_admin ? { is_administrator: true as const } : {}),
  ...(security_groups === undefined || security_groups.length === 0 ? {} : { security_groups }),
  created_at,
});

const whoAmI: Handler<'whoAmI'> = async ({ principal }, { store }) => {
  const { id, username, created_at, ...rest } = showUser(await store.users.get(principal.user_id));
  // A device's credential may be in other hands than its user's: it says whose it is, and nothing of what that user has.
  const user = { id, username, ...(principal.kind === 'user' ? rest : {}), created_at };
  const place = principal.kind === 'user' ? {} : { organization_id: principal.organization_id };
  const device = principal.kind === 'device' ? { device_id: principal.device_id } : {};
  const scope = principal.kind === 'enrollment' ? {} : { scope: principal.scope };
  const end =
    principal.kind === 'enrollment' || principal.expires_at === undefined ? {} : { expires_at: principal.expires_at };
  const credential = { ...credentialOf(principal), ...end };
  return record({ ...user, ...device, ...place, ...scope, credential } satisfies WhoAmI);
};

const createUser: Handler<'createUser'> = async (call, { store }) => {
  const username = readUsername(call.body.username);
  if (username === undefined) {
    const detail =
      'A username must not contain invisible characters or line breaks, and must not mix scripts such as Latin with Cyrillic or Greek.';
    throw invalid([{ pointer: '/username', code: 'not_a_username', detail }]);
  }
  const answerOf = (made: UserRecord) =>
    record(showUser(made), { location: pathFor('readUser', { user_id: made.id }) });
  return answerOf(await store.users.create({ username }, call.creator(answerOf)));
};

const listUsers: Handler<'listUsers'> = async (call, { store }) => {
  return answerList(call, (part) => store.users.list(part), {
    id: (row) => row.id,
    json: (row) => JSON.stringify(showUser(row)),
  });
};

const readUser: Handler<'readUser'> = async (call, { store }) =>
  record(showUser(await store.users.get(call.params.user_id)));

const showToken = ({
  id,
  kind,
  user_id,
  device_id,
  name,
  scope,
  created_at,
  expires_at,
  last_used_at,
}: TokenRecord): Token => ({
  id,
  kind,
  user_id,
  ...(device_id === undefined ? {} : { device_id }),
  name,
  scope,
  created_at,
  ...(expires_at === undefined ? {} : { expires_at }),
  ...(last_used_at === undefined ? {} : { last_used_at }),
});

/** A moment yet to come; undefined stays undefined. */
function futureExpiry(text: string | undefined, clock: () => number): Date | undefined {
  if (text === undefined) return undefined;
  const expiry = new Date(text);
  if (expiry.getTime() > clock()) return expiry;
  throw invalid([{ pointer: '/expires_at', code: 'expiry_past', detail: 'expires_at must be in the future.' }]);
}

async function issueToken(
  call: Call<'createMyToken' | 'createUserToken'>,
  { store, random, clock }: Services,
  user: UserId,
) {
  const { name = '', scope = 'full', expires_at } = call.body;
  const { secret, digest } = mint('user', random);
  const fresh = { digest, name, scope, expires_at: futureExpiry(expires_at, clock) };
  const answerOf = (made: TokenRecord) =>
    record({ ...showToken(made), token: secret }, { location: pathFor('readToken', { token_id: made.id }) });
  return answerOf(await store.tokens.issue(user, fresh, call.creator(answerOf)));
}

const createMyToken: Handler<'createMyToken'> = (call, services) => issueToken(call, services, call.principal.user_id);

const createUserToken: Handler<'createUserToken'> = async (call, services) => {
  const user = await services.store.users.get(call.params.user_id);
  return issueToken(call, services, user.id);
};

const listMyTokens: Handler<'listMyTokens'> = async (call, { store }) => {
  return answerList(call, (part) => store.tokens.list(call.principal.user_id, part), {
    id: (row) => row.id,
    json: (row) => JSON.stringify(showToken(row)),
  });
};

const readToken: Handler<'readToken'> = async (call, { store }) =>
  record(showToken(await store.tokens.get(call.params.token_id)));

const revokeToken: Handler<'revokeToken'> = async (call, { store }) =>
  record(showToken(await store.tokens.revoke(call.params.token_id, call.by)));

const rotateToken: Handler<'rotateToken'> = async (call, { store, random, receipts }) => {
  const { token_id } = call.params;
  if (call.query.by_device === true) {
    if (call.subjects.token?.kind === 'user') {
      const detail = 'Only the token of a device can be renewed by its device.';
      throw invalid([{ pointer: '/by_device', code: 'contradiction', detail }]);
    }
    const { token, organization } = await store.tokens.askRenewal(token_id, call.by);
    if (token.device_id !== undefined && call.by.isDryRun !== true) receipts.ask(organization, 0, [token.device_id]);
    return record(showToken(token));
  }
  const { secret, digest } = mint(call.subjects.token?.kind ?? 'user', random);
  return record({ ...showToken(await store.tokens.rotate(token_id, digest, call.by)), token: secret });
};

const showKey = (key: EnrollmentKeyRecord): EnrollmentKey => ({
  id: key.id,
  organization_id: key.organization_id,
  user_id: key.user_id,
  name: key.name,
  uses_left: key.uses_left,
  ...(key.security_groups === undefined || key.security_groups.length === 0
    ? {}
    : { security_groups: key.security_groups }),
  ...(key.labels === undefined ? {} : { labels: key.labels }),
  created_at: key.created_at,
  expires_at: key.expires_at,
});

const day = 24 * 60 * 60 * 1000;

const createEnrollmentKey: Handler<'createEnrollmentKey'> = async (call, { store, random, clock, publicUrl }) => {
  const { name = '', uses = 1, expires_at, security_groups = [], labels = [] } = call.body;
  const { secret, digest } = mint('enroll', random);
  const { org_id } = call.params;
  const answerOf = (key: EnrollmentKeyRecord): RecordResult =>
    record(
      { ...showKey(key), key: secret, ...(publicUrl !== undefined && { public_url: publicUrl }) },
      { location: pathFor('readEnrollmentKey', { org_id, key_id: key.id }) },
    );
  const made = await store.enrollmentKeys.issue(org_id, call.creator(answerOf), {
    digest,
    name,
    uses,
    expires_at: futureExpiry(expires_at, clock) ?? new Date(clock() + day),
    security_groups: security_groups.map(parseGroupId),
    labels: normalLabels(labels),
  });
  return answerOf(made);
};

const listEnrollmentKeys: Handler<'listEnrollmentKeys'> = async (call, { store }) => {
  const me = call.principal.user_id;
  const { org_id } = call.params;
  // The owner sees every key of the organization, a member its own.
  const whose = call.subjects.byOwner ? {} : { user_id: me };
  return answerList(call, (part) => store.enrollmentKeys.list(org_id, { ...part, ...whose }), {
    id: (row) => row.id,
    json: (row) => JSON.stringify(showKey(row)),
  });
};

const readEnrollmentKey: Handler<'readEnrollmentKey'> = async (call, { store }) =>
  record(showKey(await store.enrollmentKeys.get(call.params.org_id, call.params.key_id)));

const revokeEnrollmentKey: Handler<'revokeEnrollmentKey'> = async (call, { store }) => {
  const { org_id, key_id } = call.params;
  return record(showKey(await store.enrollmentKeys.revoke(org_id, call.by, key_id)));
};

/** `delete`, or `to:` with an id or a username. A text of the form of an id is never a name. */
async function readFate(
  fate: string,
  removed: UserId,
  { users }: Services['store'],
): Promise<NonNullable<RemoveUser['organizations']>> {
  if (fate === 'delete') return fate;
  const [word, ...rest] = fate.split(':');
  if (word !== 'to' || rest.length === 0) {
    const problem = `organizations must be \`delete\` or \`to:USER\`, got ${show(fate)}.`;
    throw invalid([{ pointer: '/organizations', code: 'not_one_of', detail: problem }]);
  }
  const text = rest.join(':');
  const found = isUuid(text)
    ? await users.get(parseUserId(text)).catch((error: unknown) => {
        if (error instanceof StoreError && error.code === 'not_found') return undefined;
        throw error;
      })
    : await users.byName(text);
  if (found !== undefined && found.id !== removed) return { to: found.id };
  const detail = found === undefined ? `There is no user ${show(text)}.` : 'This is the user who is to be removed.';
  throw invalid([{ pointer: '/organizations', code: 'unknown_user', detail }]);
}

const removeUser: Handler<'removeUser'> = async (call, { store }) => {
  const { user_id } = call.params;
  // Someone has to be left who can make users.
  if (user_id === call.principal.user_id) throw new HttpError('conflict', 'Administrators cannot remove themselves.');
  const { organizations: fate, detach } = call.query;
  const options = {
    detach,
    organizations: fate === undefined ? undefined : await readFate(fate, user_id, store),
  };
  const { user, changed, deleted, handedOver } = await store.users.remove(user_id, call.by, options);
  const memberships = await Promise.all(
    changed.map(({ organization_id }) => store.members.of(organization_id, call.principal.user_id)),
  );
  const organizations = changed.filter((_, index) => memberships[index]?.role !== undefined);
  return record({
    ...showUser(user),
    organizations,
    other_organizations: changed.length - organizations.length,
    ...(deleted.length > 0 && { deleted_organizations: deleted }),
    ...(handedOver.length > 0 && { handed_over_organizations: handedOver }),
  } satisfies RemovedUser);
};

export const userHandlers = {
  whoAmI,
  createUser,
  listUsers,
  readUser,
  removeUser,
  createMyToken,
  listMyTokens,
  createUserToken,
  readToken,
  rotateToken,
  revokeToken,
  createEnrollmentKey,
  listEnrollmentKeys,
  readEnrollmentKey,
  revokeEnrollmentKey,
} as const;
