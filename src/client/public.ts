/** Owns the published surface: what `import … from 'ringfence/client'` gives, and nothing else is promised. */
export type { ErrorCode, RequestProblem, RequestProblemCode } from '../api/codes.ts';
export type { Convergence, PendingDevice } from '../api/enforcement/convergence.ts';
export type { ExplainedSide, Explanation } from '../api/enforcement/explanation.ts';
export type {
  AddDevice,
  AppliedGroup,
  Device,
  DeviceIdentity,
  DeviceReport,
  DeviceStatus,
  RegisteredDevice,
  ReportedStatus,
  UpdateDevice,
} from '../api/device.ts';
export type { AddSecurityGroup, GroupWarning, SecurityGroup, UpdateSecurityGroup, WrittenGroup } from '../api/group.ts';
export { inForceWords, type InForce } from '../api/enforcement/in-force.ts';
export { watchKinds, type WatchKind } from '../api/kinds.ts';
export type {
  AddInvitation,
  AddMember,
  AddOrganization,
  Invitation,
  Member,
  Organization,
  UpdateOrganization,
} from '../api/organization.ts';
export type {
  AddEnrollmentKey,
  AddToken,
  AddUser,
  EnrollmentKey,
  IssuedEnrollmentKey,
  IssuedToken,
  Token,
  User,
  WhoAmI,
} from '../api/user.ts';
export type { DepartedGroup, Watched, WatchedByIdentity, WatchItem } from '../api/watch.ts';
export type { Peer, SecurityRule, Selector, StoredRule } from '../policy/rule.ts';
export type { BackoffOptions } from './backoff.ts';
export type { Change, View } from './cache.ts';
export type {
  Call,
  CallId,
  CallOptions,
  Calls,
  ConvergenceQuestion,
  ExplainQuestion,
  DeleteGroup,
  EachCall,
  MayOpen,
  Page,
  RemoveMember,
  RevisionPage,
  UpdateGroup,
  WriteGroup,
  CreateOptions,
  WriteOptions,
} from './calls.ts';
export { systemClock, type Clock } from './clock.ts';
export type { ChangeEvent, DeleteEvent, TailEvent, WatchEvent } from './document.ts';
export { RingfenceError, type ClientErrorCode } from './error.ts';
export { entityTag, revisionOf } from './headers.ts';
export { Client, type ClientOptions, type ClientResponse, type Request } from './http.ts';
export { createInformer, type IdentityInformerOptions, type Informer, type InformerOptions } from './informer.ts';
export type { Unsubscribe } from './listeners.ts';
export type { Credential, Fetch, FetchInit, FetchResponse } from './request.ts';
export type { ConnectionPhase, ConnectionState } from './state.ts';
export { watch, type WatchOptions } from './watch.ts';
