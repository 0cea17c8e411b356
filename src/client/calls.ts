/** Owns what each operation takes and answers, as types: the compiler holds the client to the table of operations. */
import type { AuditEntry } from '../api/audit.ts';
import type { Convergence } from '../api/enforcement/convergence.ts';
import type { Explanation } from '../api/enforcement/explanation.ts';
import type { Overview } from '../api/enforcement/overview.ts';
import type {
  AddDevice,
  AppliedGroup,
  Device,
  DeviceReport,
  DeviceStatus,
  RegisteredDevice,
  ReportedStatus,
  UpdateDevice,
} from '../api/device.ts';
import type { DevicePolicyState, GroupState, RestoreSecurityGroup } from '../api/history/states.ts';
import type { AddSecurityGroup, SecurityGroup, UpdateSecurityGroup, WrittenGroup } from '../api/group.ts';
import type {
  AddMember,
  AddOrganization,
  Member,
  Organization,
  RemovedMember,
  UpdateMember,
  UpdateOrganization,
} from '../api/organization.ts';
import type { OperationId } from '../api/paths.ts';
import type {
  AddEnrollmentKey,
  AddToken,
  AddUser,
  EnrollmentKey,
  IssuedEnrollmentKey,
  IssuedToken,
  RemovedUser,
  Token,
  User,
  WhoAmI,
} from '../api/user.ts';

import type { AddWebhook, MadeWebhook, UpdateWebhook, Webhook, WebhookDelivery } from '../api/alerts/webhook.ts';

/** An operation by its answer, its body and its query. */
interface Call<Answer, Body = undefined, Query = object> {
  readonly answer: Answer;
  readonly body: Body;
  readonly query: Query;
}

export interface Page {
  /** At most so many; without it, the whole list. */
  readonly limit?: number;
  /** Where the page before ended. */
  readonly after?: string;
}
export interface TokenPage extends Page {
  /** Only my own, or only those of my devices. */
  readonly kind?: 'user' | 'device';
}
export interface RevisionPage extends Page {
  /** Only records with a greater revision. */
  readonly gt_revision?: number;
}
export interface GroupPage extends RevisionPage {
  /** The groups as they stood at this revision of the organization. */
  readonly at_revision?: number;
}
export interface WriteGroup {
  /** Also where a `forbid` guardrail leaves nothing of a direction. */
  readonly force?: boolean;
}
export interface MayOpen {
  /** Also where a device is left with no group, so that the default group applies to it. */
  readonly detach?: boolean;
}
export interface UpdateGroup extends WriteGroup, MayOpen {}
export interface DeleteGroup {
  /** Take the group off the devices that use it, in the same transaction. */
  readonly detach?: boolean;
}

/** On which devices a revision is in force; with `wait`, once it is on all of them or that many seconds are over. */
export interface ConvergenceQuestion extends Page {
  /** The organization's head unless given. */
  readonly revision?: number;
  /** Seconds to hold the answer back while a device is pending; at most 120. */
  readonly wait?: number;
}

/** Whether one end may connect to the other: each the id of a device, or an address. */
export interface ExplainQuestion {
  readonly from: string;
  readonly to: string;
  /** `tcp` unless given; `udp`, `icmp`, or the number of another. */
  readonly protocol?: string;
  /** With tcp and udp. */
  readonly port?: number;
}

export interface RemoveMember {
  /** Hand the member's devices to the caller instead of deleting them. */
  readonly keep?: 'devices';
  /** With `keep`: also where a device is left with the default group. */
  readonly detach?: boolean;
}

export interface Calls {
  readonly whoAmI: Call<WhoAmI>;
  readonly createUser: Call<User, AddUser>;
  readonly listUsers: Call<readonly User[], undefined, Page>;
  readonly readUser: Call<User>;
  readonly removeUser: Call<RemovedUser>;
  readonly createMyToken: Call<IssuedToken, AddToken>;
  readonly listMyTokens: Call<readonly Token[], undefined, TokenPage>;
  readonly createUserToken: Call<IssuedToken, AddToken>;
  readonly readToken: Call<Token>;
  readonly rotateToken: Call<IssuedToken>;
  readonly revokeToken: Call<Token>;

  readonly createOrganization: Call<Organization, AddOrganization>;
  readonly listOrganizations: Call<readonly Organization[], undefined, Page>;
  readonly readOrganization: Call<Organization>;
  readonly updateOrganization: Call<Organization, UpdateOrganization>;
  readonly deleteOrganization: Call<Organization>;

  readonly listMembers: Call<readonly Member[], undefined, Page>;
  readonly addMember: Call<Member, AddMember>;
  readonly readMember: Call<Member>;
  readonly updateMember: Call<Member, UpdateMember>;
  readonly removeMember: Call<RemovedMember, undefined, RemoveMember>;

  readonly createDevice: Call<RegisteredDevice, AddDevice>;
  readonly listDevicesInOrganization: Call<readonly Device[], undefined, RevisionPage>;
  readonly readDevice: Call<Device>;
  readonly updateDevice: Call<Device, UpdateDevice, MayOpen>;
  readonly deleteDevice: Call<Device>;
  readonly listDeviceHistory: Call<readonly DevicePolicyState[], undefined, Page>;
  readonly listDeviceNamesakes: Call<readonly DevicePolicyState[], undefined, Page>;

  readonly listDeviceGroups: Call<readonly AppliedGroup[]>;
  readonly reportDeviceStatus: Call<ReportedStatus, DeviceReport>;
  readonly listDeviceStatuses: Call<readonly DeviceStatus[], undefined, Page>;
  readonly readConvergence: Call<Convergence, undefined, ConvergenceQuestion>;
  readonly explainConnection: Call<Explanation, undefined, ExplainQuestion>;
  readonly readOverview: Call<Overview, undefined, { readonly hours?: number }>;

  readonly createEnrollmentKey: Call<IssuedEnrollmentKey, AddEnrollmentKey>;
  readonly listEnrollmentKeys: Call<readonly EnrollmentKey[], undefined, Page>;
  readonly readEnrollmentKey: Call<EnrollmentKey>;
  readonly revokeEnrollmentKey: Call<EnrollmentKey>;

  readonly createWebhook: Call<MadeWebhook, AddWebhook>;
  readonly listWebhooks: Call<readonly Webhook[], undefined, Page>;
  readonly readWebhook: Call<Webhook>;
  readonly updateWebhook: Call<Webhook, UpdateWebhook>;
  readonly deleteWebhook: Call<Webhook>;
  readonly testWebhook: Call<WebhookDelivery>;
  readonly listWebhookDeliveries: Call<readonly WebhookDelivery[], undefined, Page>;

  readonly listAudit: Call<readonly AuditEntry[], undefined, Page>;
  readonly listServerAudit: Call<readonly AuditEntry[], undefined, Page>;

  readonly createSecurityGroup: Call<WrittenGroup, AddSecurityGroup, WriteGroup>;
  readonly listSecurityGroups: Call<readonly SecurityGroup[], undefined, GroupPage>;
  readonly readSecurityGroup: Call<SecurityGroup>;
  readonly updateSecurityGroup: Call<WrittenGroup, UpdateSecurityGroup, UpdateGroup>;
  readonly deleteSecurityGroup: Call<SecurityGroup, undefined, DeleteGroup>;
  readonly listSecurityGroupHistory: Call<readonly GroupState[], undefined, Page>;
  readonly restoreSecurityGroup: Call<WrittenGroup, RestoreSecurityGroup, UpdateGroup>;

  readonly createUserSecurityGroup: Call<WrittenGroup, AddSecurityGroup, WriteGroup>;
  readonly listUserSecurityGroups: Call<readonly SecurityGroup[], undefined, GroupPage>;
  readonly readUserSecurityGroup: Call<SecurityGroup>;
  readonly updateUserSecurityGroup: Call<WrittenGroup, UpdateSecurityGroup, UpdateGroup>;
  readonly deleteUserSecurityGroup: Call<SecurityGroup, undefined, DeleteGroup>;
}

/** The stream is no call: `watch` opens it. */
export type CallId = keyof Calls;

/** Does not compile while an operation has no row above, or a row has no operation. */
type Complete = [Exclude<OperationId, 'watchEvents'>, CallId] extends [CallId, OperationId] ? true : never;
export const callsAreComplete: Complete = true;

/** The calls that answer with a list. */
export type ListId = { [Id in CallId]: Calls[Id]['answer'] extends readonly unknown[] ? Id : never }[CallId];
export type Entry<Id extends ListId> = Calls[Id]['answer'][number];
