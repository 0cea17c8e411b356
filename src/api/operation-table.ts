/** Owns the table of operations: every fact about each operation that routes, guards, OpenAPI and tests use, one column for each fact. */
import { AuditEntry } from './audit.ts';
import { changeRows } from './change/operations.ts';
import { simulationRows } from './change/simulation.ts';
import { deviceRows } from './device-operations.ts';
import { evidenceRows } from './evidence/operations.ts';
import { flowRows } from './flows/operations.ts';
import { AddSecurityGroup, SecurityGroup, UpdateSecurityGroup, WrittenGroup } from './group.ts';
import { historyRows } from './history/operations.ts';
import {
  DeleteGroupQuery,
  PastPageQuery,
  AuditQuery,
  PageQuery,
  RemoveMemberQuery,
  RemoveUserQuery,
  TokenPageQuery,
  UpdateGroupQuery,
  WriteGroupQuery,
} from './list.ts';
import {
  AddInvitation,
  AddMember,
  AddOrganization,
  Invitation,
  Member,
  Organization,
  RemovedMember,
  UpdateMember,
  UpdateOrganization,
} from './organization.ts';
import type { Row } from './operation-row.ts';
import type { OperationId } from './paths.ts';
import {
  AddToken,
  AddUser,
  IssuedToken,
  RemovedUser,
  RotatedToken,
  RotateTokenQuery,
  Token,
  User,
  WhoAmI,
} from './user.ts';
import { WatchDocument, WatchRequest } from './watch.ts';
import { webhookRows } from './alerts/operations.ts';
import { policyTestRows } from './policy-tests/operations.ts';
import { trialRows } from './trial/operations.ts';
import { usageRows } from './usage/operations.ts';

const createGroup = {
  idempotent: 'plain',
  query: WriteGroupQuery,
  body: AddSecurityGroup,
  bodySize: 'rules',
  bodyReader: 'handler',
  answer: WrittenGroup,
  etag: true,
  fails: ['phase_limit', 'limit_reached', 'policy_test_failed', 'tests_too_costly'],
} as const;
const listGroups = { query: PastPageQuery, answer: SecurityGroup, fails: ['revision_gone'] } as const;
const readGroup = { answer: SecurityGroup, etag: true } as const;
const updateGroup = {
  query: UpdateGroupQuery,
  body: UpdateSecurityGroup,
  bodySize: 'rules',
  bodyReader: 'handler',
  answer: WrittenGroup,
  etag: true,
  conditional: true,
  fails: [
    'limit_reached',
    'newer_record',
    'would_open',
    'group_in_use',
    'policy_test_failed',
    'tests_too_costly',
    'trial_pending',
  ],
} as const;
const deleteGroup = {
  query: DeleteGroupQuery,
  answer: SecurityGroup,
  etag: true,
  conditional: true,
  fails: ['group_in_use', 'newer_record', 'policy_test_failed', 'tests_too_costly', 'trial_pending'],
} as const;

export const rows = {
  whoAmI: { effect: 'read', cost: 'fixed', tag: 'users', summary: 'Who am I', answer: WhoAmI },
  createUser: {
    effect: 'write',
    cost: 'fixed',
    tag: 'users',
    summary: 'Create a user',
    idempotent: 'plain',
    body: AddUser,
    answer: User,
    fails: ['username_taken'],
  },
  listUsers: { effect: 'read', cost: 'fixed', tag: 'users', summary: 'List users', query: PageQuery, answer: User },
  readUser: { effect: 'read', cost: 'fixed', subject: 'user', tag: 'users', summary: 'Read a user', answer: User },
  removeUser: {
    effect: 'write',
    cost: 'fixed',
    subject: 'user',
    tag: 'users',
    summary: 'Remove a user for good; its tokens, sessions and sign-in end first',
    query: RemoveUserQuery,
    answer: RemovedUser,
    fails: ['conflict', 'last_owner', 'limit_reached', 'newer_record', 'would_open'],
  },
  createMyToken: {
    effect: 'write',
    cost: 'fixed',
    tag: 'users',
    summary: 'Issue a token for myself',
    idempotent: 'secret',
    body: AddToken,
    bodyOptional: true,
    answer: IssuedToken,
    fails: ['limit_reached'],
  },
  listMyTokens: {
    effect: 'read',
    cost: 'fixed',
    tag: 'users',
    summary: 'List my tokens',
    query: TokenPageQuery,
    answer: Token,
  },
  createUserToken: {
    effect: 'write',
    cost: 'fixed',
    subject: 'user',
    tag: 'users',
    summary: 'Issue a token for a user',
    idempotent: 'secret',
    body: AddToken,
    bodyOptional: true,
    answer: IssuedToken,
    fails: ['limit_reached'],
  },
  readToken: {
    effect: 'read',
    cost: 'fixed',
    subject: 'token',
    tag: 'users',
    summary: 'Read a token, without its secret',
    answer: Token,
  },
  rotateToken: {
    effect: 'write',
    cost: 'fixed',
    subject: 'token',
    tag: 'users',
    summary: 'Replace the secret of a token, or have its device renew it',
    query: RotateTokenQuery,
    answer: RotatedToken,
  },
  revokeToken: {
    effect: 'write',
    cost: 'fixed',
    subject: 'token',
    tag: 'users',
    summary: 'Revoke a token',
    answer: Token,
  },

  createOrganization: {
    effect: 'write',
    cost: 'fixed',
    tag: 'organizations',
    summary: 'Create an organization, with its default group',
    idempotent: 'plain',
    body: AddOrganization,
    answer: Organization,
    etag: true,
    fails: ['limit_reached'],
  },
  listOrganizations: {
    effect: 'read',
    cost: 'fixed',
    tag: 'organizations',
    summary: 'List the organizations I am a member of',
    query: PageQuery,
    answer: Organization,
  },
  readOrganization: {
    effect: 'read',
    cost: 'fixed',
    tag: 'organizations',
    summary: 'Read an organization',
    answer: Organization,
    etag: true,
  },
  updateOrganization: {
    effect: 'write',
    cost: 'fixed',
    tag: 'organizations',
    summary: 'Change an organization',
    body: UpdateOrganization,
    answer: Organization,
    etag: true,
    conditional: true,
  },
  deleteOrganization: {
    effect: 'write',
    cost: 'fixed',
    tag: 'organizations',
    summary: 'Delete an organization with everything in it',
    answer: Organization,
    etag: true,
    conditional: true,
  },

  listMembers: {
    effect: 'read',
    cost: 'fixed',
    tag: 'organizations',
    summary: 'List members',
    query: PageQuery,
    answer: Member,
  },
  addMember: {
    effect: 'write',
    cost: 'fixed',
    tag: 'organizations',
    summary: 'Add a member',
    idempotent: 'plain',
    body: AddMember,
    answer: Member,
    fails: ['already_member', 'limit_reached'],
  },
  readMember: {
    effect: 'read',
    cost: 'fixed',
    subject: 'user',
    tag: 'organizations',
    summary: 'Read a member',
    answer: Member,
  },
  updateMember: {
    effect: 'write',
    cost: 'fixed',
    subject: 'user',
    tag: 'organizations',
    summary: "Change a member's role: make an owner, or an owner a member",
    body: UpdateMember,
    answer: Member,
    fails: ['last_owner'],
  },
  acceptMember: {
    effect: 'write',
    cost: 'fixed',
    subject: 'user',
    tag: 'organizations',
    summary: 'Accept that somebody else made me an owner',
    answer: Member,
    fails: ['conflict', 'limit_reached'],
  },
  removeMember: {
    effect: 'write',
    cost: 'fixed',
    subject: 'user',
    tag: 'organizations',
    summary: "Remove a member, with that member's devices and groups in the organization",
    query: RemoveMemberQuery,
    answer: RemovedMember,
    fails: ['last_owner', 'newer_record', 'would_open', 'policy_test_failed', 'tests_too_costly'],
  },

  createInvitation: {
    effect: 'write',
    cost: 'fixed',
    tag: 'organizations',
    summary: 'Invite a person who becomes a member at the next sign-in',
    idempotent: 'plain',
    body: AddInvitation,
    answer: Invitation,
    fails: ['limit_reached'],
  },
  listInvitations: {
    effect: 'read',
    cost: 'fixed',
    tag: 'organizations',
    summary: 'List open invitations',
    query: PageQuery,
    answer: Invitation,
  },
  revokeInvitation: {
    effect: 'write',
    cost: 'fixed',
    tag: 'organizations',
    summary: 'Revoke an invitation',
    answer: Invitation,
  },

  ...deviceRows,
  ...flowRows,

  createSecurityGroup: {
    effect: 'write',
    cost: 'fixed',
    tag: 'security groups',
    summary: 'Create an organization-owned group',
    ...createGroup,
  },
  listSecurityGroups: {
    effect: 'read',
    cost: 'fixed',
    tag: 'security groups',
    summary: 'List the groups I may read',
    ...listGroups,
  },
  readSecurityGroup: {
    effect: 'read',
    cost: 'fixed',
    subject: 'group',
    tag: 'security groups',
    summary: 'Read a group',
    ...readGroup,
  },
  updateSecurityGroup: {
    effect: 'write',
    cost: 'fixed',
    subject: 'group',
    tag: 'security groups',
    summary: 'Change a group',
    ...updateGroup,
  },
  deleteSecurityGroup: {
    effect: 'write',
    cost: 'fixed',
    subject: 'group',
    tag: 'security groups',
    summary: 'Delete a group; on the default group: reset it',
    ...deleteGroup,
  },

  createUserSecurityGroup: {
    effect: 'write',
    cost: 'fixed',
    tag: 'security groups',
    summary: 'Create a group of my own',
    ...createGroup,
  },
  listUserSecurityGroups: {
    effect: 'read',
    cost: 'fixed',
    tag: 'security groups',
    summary: 'List the groups I own',
    ...listGroups,
  },
  readUserSecurityGroup: {
    effect: 'read',
    cost: 'fixed',
    subject: 'user group',
    tag: 'security groups',
    summary: 'Read a user-owned group',
    ...readGroup,
  },
  updateUserSecurityGroup: {
    effect: 'write',
    cost: 'fixed',
    subject: 'user group',
    tag: 'security groups',
    summary: 'Change a group of my own',
    ...updateGroup,
  },
  deleteUserSecurityGroup: {
    effect: 'write',
    cost: 'fixed',
    subject: 'user group',
    tag: 'security groups',
    summary: 'Delete a group of my own',
    ...deleteGroup,
  },

  ...historyRows,
  ...usageRows,

  ...policyTestRows,

  ...trialRows,

  ...webhookRows,
  ...changeRows,

  ...simulationRows,

  listAudit: {
    effect: 'read',
    cost: 'fixed',
    tag: 'audit',
    summary: 'Who changed what in the organization, newest first',
    query: AuditQuery,
    answer: AuditEntry,
  },
  listServerAudit: {
    effect: 'read',
    cost: 'fixed',
    tag: 'audit',
    summary: 'Sign-ins, and changes of users, tokens and the end of organizations, newest first',
    query: AuditQuery,
    answer: AuditEntry,
  },

  ...evidenceRows,

  watchEvents: {
    effect: 'read',
    cost: 'fixed',
    tag: 'events',
    summary: 'Follow the changes of devices and security groups',
    body: WatchRequest,
    bodyReader: 'handler',
    answer: WatchDocument,
    coalesced: true,
    fails: ['revision_gone'],
  },
} as const satisfies { readonly [Id in OperationId]: Row };
