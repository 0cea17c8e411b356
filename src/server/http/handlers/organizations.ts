/** Owns the operations on organizations and their members. */
import type { Member, RemovedMember } from '../../../api/organization.ts';
import { pathFor } from '../../../api/paths.ts';
import { parseUserId } from '../../../policy/ids.ts';
import { HttpError, invalid, StoreError } from '../../problems.ts';
import type { MemberRecord, OrganizationRecord } from '../../store/data/records.ts';
import { record, type Handler } from '../call.ts';
import { expectedRevision } from '../request/conditions.ts';
import { answerList } from '../request/paging.ts';

const answer = (organization: OrganizationRecord, location?: string) =>
  record(organization, { revision: organization.revision, ...(location === undefined ? {} : { location }) });

const create: Handler<'createOrganization'> = async (call, { store }) => {
  const { name, description = '' } = call.body;
  const answerOf = (made: OrganizationRecord) => answer(made, pathFor('readOrganization', { org_id: made.id }));
  return answerOf(await store.organizations.create(call.by.user_id, { name, description }, call.creator(answerOf)));
};

const list: Handler<'listOrganizations'> = async (call, { store }) => {
  const { principal } = call;
  // A device token sees its own organization only, not the others of its user.
  const read: Parameters<typeof answerList<OrganizationRecord>>[1] =
    principal.kind === 'user'
      ? (part) => store.organizations.list({ ...part, member: principal.user_id })
      : async () => [await store.organizations.get(principal.organization_id)];
  return answerList(call, read, { id: (row) => row.id, json: (row) => JSON.stringify(row) });
};

const readOne: Handler<'readOrganization'> = async (call, { store }) =>
  answer(await store.organizations.get(call.params.org_id));

const update: Handler<'updateOrganization'> = async (call, { store, receipts }) => {
  const { org_id } = call.params;
  const now = call.ifMatch === undefined ? undefined : await store.organizations.get(org_id);
  const expected = now === undefined ? {} : expectedRevision(call.ifMatch, now.revision);
  const updated = await store.organizations.update(org_id, call.by, call.body, expected);
  const { observe, refuse_with } = call.body;
  // The answer to a report carries the settings, so agents learn them at once.
  if (observe !== undefined || refuse_with !== undefined) receipts.ask(org_id, updated.revision);
  return answer(updated);
};

const remove: Handler<'deleteOrganization'> = async (call, { store }) => {
  const { org_id } = call.params;
  const now = call.ifMatch === undefined ? undefined : await store.organizations.get(org_id);
  const expected = now === undefined ? {} : expectedRevision(call.ifMatch, now.revision);
  return answer(await store.organizations.delete(org_id, call.by, expected));
};

const shown = ({ user_id, username, role, accepted, created_at }: MemberRecord): Member => ({
  user_id,
  username,
  role,
  ...(accepted !== undefined && { accepted }),
  created_at,
});

const listMembers: Handler<'listMembers'> = async (call, { store }) => {
  const { org_id } = call.params;
  return answerList(call, (part) => store.members.list(org_id, part), {
    id: (row) => row.user_id,
    json: (row) => JSON.stringify(shown(row)),
  });
};

/** Before it is looked up: otherwise the answer would tell. */
function refuseGuesses(seconds: number): void {
  if (seconds === 0) return;
  throw new HttpError('rate_limited', `You have named too many users that do not exist. Wait ${seconds} s.`, {
    headers: { 'Retry-After': String(seconds) },
  });
}

const addMember: Handler<'addMember'> = async (call, { store, unknownUsers }) => {
  const { user_id, username } = call.body;
  if ((user_id === undefined) === (username === undefined)) {
    const detail = 'Give either user_id or username.';
    throw invalid([{ pointer: '', code: user_id === undefined ? 'missing_field' : 'contradiction', detail }]);
  }
  refuseGuesses(unknownUsers.wait(call.by.user_id));
  const { org_id } = call.params;
  const answerOf = (made: MemberRecord) =>
    record(shown(made), { location: pathFor('readMember', { org_id, user_id: made.user_id }) });
  const member = await store.members
    .add(
      org_id,
      call.creator(answerOf),
      user_id === undefined ? { username: username ?? '' } : { user_id: parseUserId(user_id) },
    )
    .catch((error: unknown) => {
      if (!(error instanceof StoreError) || error.problem.code !== 'not_found' || error.problem.what !== 'user')
        throw error;
      unknownUsers.take(call.by.user_id);
      const pointer = user_id === undefined ? '/username' : '/user_id';
      throw invalid([{ pointer, code: 'unknown_user', detail: 'This user does not exist.' }]);
    });
  return answerOf(member);
};

const readMember: Handler<'readMember'> = async (call, { store }) =>
  record(shown(await store.members.get(call.params.org_id, call.params.user_id)));

const updateMember: Handler<'updateMember'> = async (call, { store }) => {
  const { org_id, user_id } = call.params;
  return record(shown(await store.members.setRole(org_id, call.by, user_id, call.body.role)));
};

const acceptMember: Handler<'acceptMember'> = async (call, { store }) => {
  const { org_id, user_id } = call.params;
  return record(shown(await store.members.accept(org_id, call.by, user_id)));
};

const removeMember: Handler<'removeMember'> = async (call, { store }) => {
  const { org_id, user_id } = call.params;
  const { keep, detach = false } = call.query;
  if (keep !== undefined && user_id === call.principal.user_id) {
    const detail = 'You cannot keep the devices when you leave: an owner must remove you and take them over.';
    throw invalid([{ pointer: '/keep', code: 'contradiction', detail }]);
  }
  const { member, revision, ...ids } = await store.members.remove(org_id, call.by, user_id, {
    keepDevices: keep === 'devices',
    detach,
  });
  const removed: RemovedMember = { ...shown(member), ...ids, ...(revision !== undefined && { revision }) };
  return record(removed);
};

export const organizationHandlers = {
  createOrganization: create,
  listOrganizations: list,
  readOrganization: readOne,
  updateOrganization: update,
  deleteOrganization: remove,
  listMembers,
  addMember,
  readMember,
  updateMember,
  acceptMember,
  removeMember,
} as const;
