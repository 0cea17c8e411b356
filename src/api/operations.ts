/** Owns what every operation takes and answers: the table that routes, OpenAPI, rights and their tests are built from. */
import type { TArray, TObject, TSchema } from 'typebox';
import { AuditEntry } from './audit.ts';
import { errors, type ErrorCode } from './codes.ts';
import { AddDevice, Device, DeviceReport, DeviceStatus, RegisteredDevice, UpdateDevice } from './device.ts';
import { AddSecurityGroup, SecurityGroup, UpdateSecurityGroup } from './group.ts';
import { DeleteGroupQuery, PageQuery, RevisionPageQuery } from './list.ts';
import { AddMember, AddOrganization, Member, Organization, UpdateOrganization } from './organization.ts';
import { paths, type Method, type OperationId } from './paths.ts';
import {
  AddEnrollmentKey,
  AddToken,
  AddUser,
  EnrollmentKey,
  IssuedEnrollmentKey,
  IssuedToken,
  Token,
  User,
  WhoAmI,
} from './user.ts';
import { WatchDocument, WatchRequest } from './watch.ts';

export type Tag = 'users' | 'organizations' | 'devices' | 'security groups' | 'events' | 'audit';

/** What comes back when all went well. */
export interface Answer {
  readonly kind: 'created' | 'record' | 'list' | 'deleted' | 'stream';
  /** One record; of a list, one entry; of a stream, one document. */
  readonly schema: TSchema;
  /** Whether the answer carries `ETag: "<revision>"`. */
  readonly etag: boolean;
}

interface Row {
  readonly tag: Tag;
  readonly summary: string;
  readonly answer: Answer;
  readonly query?: TObject;
  readonly body?: TObject | TArray;
  /** An absent body is the same as `{}`. */
  readonly bodyOptional?: true;
  /** Whether `If-Match` is honoured. */
  readonly conditional?: true;
  /** Failures besides those that follow from the shape of the operation. */
  readonly fails?: readonly ErrorCode[];
}

export interface Operation extends Row {
  readonly id: OperationId;
  readonly method: Method;
  /** Canonical path. */
  readonly path: string;
  /** Names of its path variables, all UUIDs. */
  readonly params: readonly string[];
  readonly status: 200 | 201;
  /** Every status it may answer with on failure, ascending. */
  readonly failures: readonly number[];
}

const created = (schema: TSchema, etag = false): Answer => ({ kind: 'created', schema, etag });
const record = (schema: TSchema, etag = false): Answer => ({ kind: 'record', schema, etag });
const list = (schema: TSchema): Answer => ({ kind: 'list', schema, etag: false });
const deleted = (schema: TSchema, etag = false): Answer => ({ kind: 'deleted', schema, etag });

const createGroup = { body: AddSecurityGroup, answer: created(SecurityGroup, true), fails: ['phase_limit'] } as const;
const listGroups = { query: RevisionPageQuery, answer: list(SecurityGroup) } as const;
const readGroup = { answer: record(SecurityGroup, true) } as const;
const updateGroup = { body: UpdateSecurityGroup, answer: record(SecurityGroup, true), conditional: true } as const;
const deleteGroup = {
  query: DeleteGroupQuery,
  answer: deleted(SecurityGroup, true),
  conditional: true,
  fails: ['group_in_use'],
} as const;

const rows: { readonly [Id in OperationId]: Row } = {
  whoAmI: { tag: 'users', summary: 'Who am I', answer: record(WhoAmI) },
  createUser: {
    tag: 'users',
    summary: 'Create a user',
    body: AddUser,
    answer: created(User),
    fails: ['username_taken'],
  },
  listUsers: { tag: 'users', summary: 'List users', query: PageQuery, answer: list(User) },
  readUser: { tag: 'users', summary: 'Read a user', answer: record(User) },
  removeUser: { tag: 'users', summary: 'Remove a user for good', answer: deleted(User), fails: ['conflict'] },
  createMyToken: {
    tag: 'users',
    summary: 'Issue a token for myself',
    body: AddToken,
    bodyOptional: true,
    answer: created(IssuedToken),
  },
  listMyTokens: { tag: 'users', summary: 'List my tokens', query: PageQuery, answer: list(Token) },
  createUserToken: {
    tag: 'users',
    summary: 'Issue a token for a user',
    body: AddToken,
    bodyOptional: true,
    answer: created(IssuedToken),
  },
  readToken: { tag: 'users', summary: 'Read a token, without its secret', answer: record(Token) },
  rotateToken: { tag: 'users', summary: 'Give a token another secret', answer: record(IssuedToken) },
  revokeToken: { tag: 'users', summary: 'Revoke a token', answer: deleted(Token) },

  createOrganization: {
    tag: 'organizations',
    summary: 'Create an organization, with its default group',
    body: AddOrganization,
    answer: created(Organization, true),
  },
  listOrganizations: {
    tag: 'organizations',
    summary: 'List the organizations I am a member of',
    query: PageQuery,
    answer: list(Organization),
  },
  readOrganization: { tag: 'organizations', summary: 'Read an organization', answer: record(Organization, true) },
  updateOrganization: {
    tag: 'organizations',
    summary: 'Change an organization',
    body: UpdateOrganization,
    answer: record(Organization, true),
    conditional: true,
  },
  deleteOrganization: {
    tag: 'organizations',
    summary: 'Delete an organization with everything in it',
    answer: deleted(Organization, true),
    conditional: true,
  },

  listMembers: { tag: 'organizations', summary: 'List members', query: PageQuery, answer: list(Member) },
  addMember: {
    tag: 'organizations',
    summary: 'Add a member',
    body: AddMember,
    answer: created(Member),
    fails: ['already_member'],
  },
  readMember: { tag: 'organizations', summary: 'Read a member', answer: record(Member) },
  removeMember: {
    tag: 'organizations',
    summary: "Remove a member, with that member's devices and groups in the organization",
    answer: deleted(Member),
    fails: ['conflict'],
  },

  createDevice: {
    tag: 'devices',
    summary: 'Register a device',
    body: AddDevice,
    answer: created(RegisteredDevice, true),
    fails: ['public_key_taken'],
  },
  listDevicesInOrganization: {
    tag: 'devices',
    summary: 'List devices',
    query: RevisionPageQuery,
    answer: list(Device),
  },
  readDevice: { tag: 'devices', summary: 'Read a device', answer: record(Device, true) },
  updateDevice: {
    tag: 'devices',
    summary: 'Change a device',
    body: UpdateDevice,
    answer: record(Device, true),
    conditional: true,
    fails: ['public_key_taken'],
  },
  deleteDevice: { tag: 'devices', summary: 'Delete a device', answer: deleted(Device, true), conditional: true },
  reportDeviceStatus: {
    tag: 'devices',
    summary: 'Report the status of a device, as its agent',
    body: DeviceReport,
    answer: record(DeviceStatus),
  },
  listDeviceStatuses: {
    tag: 'devices',
    summary: 'List what the agents last reported',
    query: PageQuery,
    answer: list(DeviceStatus),
  },

  createEnrollmentKey: {
    tag: 'devices',
    summary: 'Issue an enrollment key',
    body: AddEnrollmentKey,
    bodyOptional: true,
    answer: created(IssuedEnrollmentKey),
  },
  listEnrollmentKeys: {
    tag: 'devices',
    summary: 'List my enrollment keys',
    query: PageQuery,
    answer: list(EnrollmentKey),
  },
  readEnrollmentKey: {
    tag: 'devices',
    summary: 'Read an enrollment key, without its secret',
    answer: record(EnrollmentKey),
  },
  revokeEnrollmentKey: { tag: 'devices', summary: 'Revoke an enrollment key', answer: deleted(EnrollmentKey) },

  createSecurityGroup: { tag: 'security groups', summary: 'Create an organization-owned group', ...createGroup },
  listSecurityGroups: { tag: 'security groups', summary: 'List the groups I may read', ...listGroups },
  readSecurityGroup: { tag: 'security groups', summary: 'Read a group', ...readGroup },
  updateSecurityGroup: { tag: 'security groups', summary: 'Change a group', ...updateGroup },
  deleteSecurityGroup: {
    tag: 'security groups',
    summary: 'Delete a group; on the default group: reset it',
    ...deleteGroup,
  },

  createUserSecurityGroup: { tag: 'security groups', summary: 'Create a group of my own', ...createGroup },
  listUserSecurityGroups: { tag: 'security groups', summary: 'List the groups I own', ...listGroups },
  readUserSecurityGroup: { tag: 'security groups', summary: 'Read a user-owned group', ...readGroup },
  updateUserSecurityGroup: { tag: 'security groups', summary: 'Change a group of my own', ...updateGroup },
  deleteUserSecurityGroup: { tag: 'security groups', summary: 'Delete a group of my own', ...deleteGroup },

  listAudit: {
    tag: 'audit',
    summary: 'Who changed what in the organization, newest first',
    query: PageQuery,
    answer: list(AuditEntry),
  },
  listServerAudit: {
    tag: 'audit',
    summary: 'Sign-ins, and changes of users, tokens and the end of organizations, newest first',
    query: PageQuery,
    answer: list(AuditEntry),
  },

  watchEvents: {
    tag: 'events',
    summary: 'Follow the changes of devices and security groups',
    body: WatchRequest,
    answer: { kind: 'stream', schema: WatchDocument, etag: false },
    fails: ['revision_gone'],
  },
};

function failuresOf(row: Row, params: readonly string[]): readonly number[] {
  const codes: ErrorCode[] = [
    'malformed_request',
    'unauthenticated',
    'forbidden',
    'not_acceptable',
    'rate_limited',
    'unavailable',
  ];
  if (params.length > 0) codes.push('not_found');
  if (row.body !== undefined) codes.push('payload_too_large', 'unsupported_media_type', 'invalid');
  if (row.query !== undefined) codes.push('invalid');
  if (row.conditional) codes.push('precondition_failed');
  codes.push(...(row.fails ?? []));
  return [...new Set(codes.map((code) => errors[code][0]))].toSorted((a, b) => a - b);
}

function operation(id: OperationId): Operation {
  const [method, path] = paths[id];
  const params = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] ?? '');
  const row = rows[id];
  return {
    ...row,
    id,
    method,
    path,
    params,
    status: row.answer.kind === 'created' ? 201 : 200,
    failures: failuresOf(row, params),
  };
}

/** Every operation by its id. */
export const operations = Object.fromEntries(
  (Object.keys(rows) as OperationId[]).map((id) => [id, operation(id)]),
) as unknown as { readonly [Id in OperationId]: Operation };
