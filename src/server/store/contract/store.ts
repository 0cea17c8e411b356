/**
 * Owns the store's interface: what may be asked of the database, and what is promised about the answers.
 *
 * Promises, for everything below:
 * - **Revisions.** Each organization has one counter, shared by devices, groups and the organization's own record. Every
 *   changed resource takes a revision of its own; revisions are gap-free and become visible in order: whoever sees N+1
 *   can read N. A write that changes nothing takes none and answers with the record as it stands.
 * - **Serial.** All writes to one organization, from any number of servers, happen one after the other. What an operation
 *   says it requires (membership, existence, uniqueness, phase limits, expected revision) holds at the moment it commits.
 * - **Own outcome.** Concurrent writes may share a transaction; the failure of one never changes another's outcome.
 * - **Durable.** A resolved write survives a crash of this process and of PostgreSQL. A write that failed with
 *   `unavailable` may or may not have happened.
 * - **Errors.** Everything here fails with `StoreError` only.
 * - Lists are in the order of creation (ids are time-ordered) and page by `after`, the last id seen: a page never repeats
 *   or skips a record that existed throughout.
 */
import type { Asking } from '../../gather.ts';
import type { DeviceId, EnrollmentKeyId, GroupId, OrganizationId, TokenId, UserId } from '../../../policy/ids.ts';
import type { StoredRule } from '../../../policy/rule.ts';
import type { ChangeLog } from './change-log.ts';
import type {
  AuditRecord,
  Credential,
  DeviceFields,
  DeviceRecord,
  DeviceStatus,
  EnrollmentKeyRecord,
  GroupRecord,
  MemberRecord,
  OrganizationRecord,
  SessionRecord,
  Stored,
  TokenRecord,
  TokenScope,
  UserRecord,
} from './records.ts';

/** 1 = the default group only; 2 = one group a device; 3 = a list of up to 64 groups a device. */
export type Phase = 1 | 2 | 3;

/** Who acts. Where an operation takes one, that user must be a member of the organization when it commits: `not_a_member`. */
export interface Actor {
  readonly user_id: UserId;
  /** Tells the write in the audit, in its own transaction: both happen or neither. A refused write is not told. */
  readonly audit?: AuditNote | undefined;
}

export interface Page {
  /** At most this many; absent: all. */
  readonly limit?: number | undefined;
  /** Only records whose id is greater than this. */
  readonly after?: string | undefined;
}

export interface RevisionPage extends Page {
  /** Only records with a greater revision. */
  readonly gt_revision?: number | undefined;
}

/** `if_match`: the revision that the caller believes to be current; another one fails with `precondition_failed`. */
export interface Expected {
  readonly if_match?: number | undefined;
}

/** Whose groups: the organization's own (the default among them), or one user's. */
export type GroupOwner = 'organization' | UserId;

/** SHA-256 of a secret, 32 bytes. The secret itself never enters the store. */
export type Digest = Uint8Array;

export interface NewGroup {
  readonly group_name: string;
  readonly group_description: string;
  readonly inbound_rules: readonly StoredRule[];
  readonly outbound_rules: readonly StoredRule[];
}

export interface Groups {
  /** The organization's groups that `reader` may see: organization-owned, its own, and those applied to any device. `owner` narrows. */
  list(
    org: OrganizationId,
    query: RevisionPage & { readonly reader: UserId; readonly owner?: GroupOwner | undefined },
  ): Promise<readonly Stored<GroupRecord>[]>;
  /** One group that `reader` may see; `not_found` otherwise. */
  get(
    org: OrganizationId,
    id: GroupId,
    query: { readonly reader: UserId; readonly owner?: GroupOwner | undefined },
  ): Promise<Stored<GroupRecord>>;
  /** Fails with `phase_forbids` in phase 1. A user's group needs the user to be a member. */
  create(org: OrganizationId, by: Actor, owner: GroupOwner, group: NewGroup): Promise<Stored<GroupRecord>>;
  /** `not_found` unless the group belongs to `owner`. */
  update(
    org: OrganizationId,
    by: Actor,
    owner: GroupOwner,
    id: GroupId,
    patch: Partial<NewGroup>,
    options?: Expected,
  ): Promise<Stored<GroupRecord>>;
  /**
   * Gives the record as last known with the revision of its deletion. In use: `group_in_use`, or with `detach` the group is
   * taken off its devices first, each with a revision of its own. The default group is *reset*: it goes, and a
   * fresh one with another id comes in the same transaction (the next revision).
   */
  delete(
    org: OrganizationId,
    by: Actor,
    owner: GroupOwner,
    id: GroupId,
    options?: Expected & { readonly detach?: boolean | undefined },
  ): Promise<Stored<GroupRecord>>;
}

export interface NewDevice {
  /** The device's user: a member. */
  readonly user_id: UserId;
  readonly fields: DeviceFields;
  readonly security_groups: readonly GroupId[];
  /** The device token's digest, stored in the same transaction. */
  readonly token?: { readonly digest: Digest; readonly name: string } | undefined;
  /**
   * Admits the device by this key instead of `by`'s word: one use is taken in the same transaction (`enrollment_key_spent` when none
   * is left), the device's user is the key's, and while the device names no groups, it gets those of the key's preset groups that still exist.
   */
  readonly enrollment_key?: EnrollmentKeyId | undefined;
}

export type DevicePatch = Partial<DeviceFields> & { readonly security_groups?: readonly GroupId[] };

export interface Devices {
  list(org: OrganizationId, query?: RevisionPage): Promise<readonly Stored<DeviceRecord>[]>;
  get(org: OrganizationId, id: DeviceId): Promise<Stored<DeviceRecord>>;
  create(org: OrganizationId, by: Actor, device: NewDevice): Promise<Stored<DeviceRecord>>;
  update(
    org: OrganizationId,
    by: Actor,
    id: DeviceId,
    patch: DevicePatch,
    options?: Expected,
  ): Promise<Stored<DeviceRecord>>;
  /** Its tokens go with it. */
  delete(org: OrganizationId, by: Actor, id: DeviceId, options?: Expected): Promise<Stored<DeviceRecord>>;
  /** Keeps what a device says about itself; no revision, no event. */
  report(org: OrganizationId, id: DeviceId, status: unknown): Promise<void>;
  statuses(org: OrganizationId, query?: Page): Promise<readonly DeviceStatus[]>;
}

export interface Organizations {
  /** Makes the organization, its owner's membership and its default group in one transaction. */
  create(
    owner: UserId,
    organization: { readonly name: string; readonly description: string },
    audit?: AuditNote,
  ): Promise<OrganizationRecord>;
  /** Those that `member` belongs to. */
  list(query: Page & { readonly member: UserId }): Promise<readonly OrganizationRecord[]>;
  get(org: OrganizationId): Promise<OrganizationRecord>;
  /** Takes a revision, which no stream shows. */
  update(
    org: OrganizationId,
    by: Actor,
    patch: { readonly name?: string | undefined; readonly description?: string | undefined },
    options?: Expected,
  ): Promise<OrganizationRecord>;
  /** Everything in it goes, tokens of its devices included, without events: open streams see the organization gone. */
  delete(org: OrganizationId, by: Actor, options?: Expected): Promise<OrganizationRecord>;
}

/** What a request's guard needs to know of a user in an organization. */
export interface Membership {
  readonly owner_id: UserId;
  readonly is_member: boolean;
}

/** A thing in an organization, and the reader's place there. */
export interface Seen<T> {
  /** Undefined when the organization does not exist. */
  readonly membership: Membership | undefined;
  /** Undefined when it does not exist or the reader may not see it. `user_id`: the device's user, or the group's owner if it has one. */
  readonly thing: { readonly user_id: UserId | undefined; readonly stored: Stored<T> } | undefined;
}

/** What `members.of` and a `get` would say, in one read. */
export interface Access {
  device(org: OrganizationId, reader: UserId, id: DeviceId): Promise<Seen<DeviceRecord>>;
  group(org: OrganizationId, reader: UserId, id: GroupId): Promise<Seen<GroupRecord>>;
}

export interface Members {
  /** Undefined when the organization does not exist. */
  of(org: OrganizationId, user: UserId, asking?: Asking): Promise<Membership | undefined>;
  get(org: OrganizationId, user: UserId): Promise<MemberRecord>;
  list(org: OrganizationId, query?: Page): Promise<readonly MemberRecord[]>;
  /** By id or by name. `already_member` when it is one, `not_found` when there is no such user. */
  add(
    org: OrganizationId,
    by: Actor,
    user: { readonly user_id: UserId } | { readonly username: string },
  ): Promise<MemberRecord>;
  /**
   * Deletes the member's devices (their tokens too), groups and enrollment keys in this organization, with events, in one transaction.
   * `owner_must_stay` for the owner.
   */
  remove(org: OrganizationId, by: Actor, user: UserId): Promise<MemberRecord>;
}

export interface Users {
  create(user: { readonly username: string; readonly is_admin?: boolean }, audit?: AuditNote): Promise<UserRecord>;
  list(query?: Page): Promise<readonly UserRecord[]>;
  get(id: UserId): Promise<UserRecord>;
  byName(username: string): Promise<UserRecord | undefined>;
  /**
   * The user that an identity provider names, made at first sight. The username is what the provider suggests; taken by another,
   * it gets a short suffix. `user_removed` when the user was removed: it does not come back by signing in.
   */
  forIdentity(
    identity: { readonly issuer: string; readonly subject: string; readonly username: string },
    asking?: Asking,
  ): Promise<UserRecord>;
  /**
   * Ends every membership (as `members.remove`, organization by organization) and every token, then hides the user for good: its name and
   * identity stay taken. `owns_organizations` while it owns any. Where this fails half-way, it can be repeated.
   */
  remove(id: UserId, audit?: AuditNote): Promise<UserRecord>;
  /** On a database without users makes the administrator, its organization and its token, once, however many servers start; else undefined. */
  bootstrap(admin: {
    readonly username: string;
    readonly organization: string;
    readonly token: Digest;
  }): Promise<{ readonly user: UserRecord; readonly organization: OrganizationRecord } | undefined>;
}

export interface NewToken {
  readonly digest: Digest;
  readonly name: string;
  readonly scope: TokenScope;
  readonly expires_at?: Date | undefined;
}

export interface Tokens {
  /** Who this digest belongs to; undefined when unknown, revoked or expired. Its use is recorded lazily. */
  authenticate(digest: Digest, asking?: Asking): Promise<Credential | undefined>;
  issue(user: UserId, token: NewToken, audit?: AuditNote): Promise<TokenRecord>;
  /** A further token for a device (the first comes with its creation). */
  issueForDevice(org: OrganizationId, device: DeviceId, token: NewToken): Promise<TokenRecord>;
  /** The user's own tokens and those of its devices. */
  list(user: UserId, query?: Page): Promise<readonly TokenRecord[]>;
  get(id: TokenId): Promise<TokenRecord>;
  /** Gives the token another secret; the old one stops at once. */
  rotate(id: TokenId, digest: Digest, audit?: AuditNote): Promise<TokenRecord>;
  /** Open streams of the token are told through hints. */
  revoke(id: TokenId, audit?: AuditNote): Promise<TokenRecord>;
}

export interface Sessions {
  /** `not_found` for a user who is no longer there. */
  begin(
    user: UserId,
    session: { readonly digest: Digest; readonly sealed?: Uint8Array | undefined; readonly expires_at: Date },
  ): Promise<TokenId>;
  /** The session of this digest; undefined when unknown, ended, expired, or not seen for longer than `idleMs`. That it was seen is recorded lazily. */
  authenticate(digest: Digest, idleMs: number, asking?: Asking): Promise<SessionRecord | undefined>;
  /**
   * Takes the turn to ask the provider: gives what was sealed to one caller of all servers, undefined to the others and where nothing
   * was sealed.
   */
  takeCheck(session: Pick<SessionRecord, 'id' | 'checked_at'>): Promise<Uint8Array | undefined>;
  reseal(id: TokenId, sealed: Uint8Array): Promise<void>;
  /** What was sealed; undefined when nothing was or the session has ended. */
  sealed(id: TokenId): Promise<Uint8Array | undefined>;
  /** Open streams of the session are told through hints. */
  end(id: TokenId): Promise<void>;
  endAllOf(user: UserId): Promise<void>;
  /** Forgets sessions that are past their time. */
  forget(): Promise<void>;
}

export interface NewEnrollmentKey {
  readonly digest: Digest;
  readonly name: string;
  readonly expires_at: Date;
  readonly uses: number;
  readonly security_groups: readonly GroupId[];
}

export interface EnrollmentKeys {
  /** The key of this digest; undefined when unknown, expired or used up. Using it up happens in `devices.create`. */
  authenticate(digest: Digest): Promise<EnrollmentKeyRecord | undefined>;
  issue(org: OrganizationId, by: Actor, key: NewEnrollmentKey): Promise<EnrollmentKeyRecord>;
  /** The keys of one user, or all of the organization's. */
  list(
    org: OrganizationId,
    query?: Page & { readonly user_id?: UserId | undefined },
  ): Promise<readonly EnrollmentKeyRecord[]>;
  get(org: OrganizationId, id: EnrollmentKeyId): Promise<EnrollmentKeyRecord>;
  revoke(org: OrganizationId, by: Actor, id: EnrollmentKeyId): Promise<EnrollmentKeyRecord>;
}

/** What a request is to the audit: what was asked, by whom, with which credential and from where. */
export interface AuditNote {
  readonly operation: string;
  /** Names of the fields that were given, never their values. */
  readonly fields?: readonly string[] | undefined;
  readonly user_id: UserId;
  readonly credential: AuditRecord['credential'];
  readonly address: string;
  readonly request_id: string;
}

/** A note, and what came of it. */
export interface NewAuditRecord extends AuditNote {
  readonly organization_id?: string | undefined;
  readonly subject_id?: string | undefined;
  readonly revision?: number | undefined;
}

export interface Audit {
  /** For what is no write, such as a sign-in. Resolves when the entry is durable. */
  record(entry: NewAuditRecord): Promise<void>;
  /** Newest first; `after` is the last id seen. Without an organization: what concerns the whole server. */
  list(org: OrganizationId | undefined, page?: Page): Promise<readonly AuditRecord[]>;
  /** Forgets entries past their retention. */
  forget(): Promise<void>;
}

export interface Store {
  readonly users: Users;
  readonly tokens: Tokens;
  readonly sessions: Sessions;
  readonly organizations: Organizations;
  readonly members: Members;
  readonly access: Access;
  readonly groups: Groups;
  readonly devices: Devices;
  readonly enrollmentKeys: EnrollmentKeys;
  readonly log: ChangeLog;
  readonly audit: Audit;
  /** Resolves when the database answers; fails with `unavailable` otherwise. */
  ping(): Promise<void>;
  /** What stored data goes beyond this phase's limits, one sentence each; empty when the phase may be used. */
  phaseObstacles(phase: Phase): Promise<readonly string[]>;
  /** Finishes what is in flight, records the last uses of tokens, closes every connection. */
  close(): Promise<void>;
}

export interface StoreOptions {
  /** A PostgreSQL connection string; with a unix socket: `postgres://user@/database?host=/socket/dir`. */
  readonly url: string;
  readonly phase: Phase;
  /** Milliseconds since the epoch. */
  readonly clock?: (() => number) | undefined;
  /** Fills bytes for ids. */
  readonly random?: ((bytes: Uint8Array) => void) | undefined;
  /** How long deletions are kept; 90 days by default. */
  readonly deletionRetentionMs?: number | undefined;
  /** How long the audit is kept; a year by default. */
  readonly auditRetentionMs?: number | undefined;
  /** How long the exact log is kept; 10 minutes by default. */
  readonly logRetentionMs?: number | undefined;
  /** Connections for reading (2), for writes (16) and for transactions of several steps (4), each opened when needed; one more carries hints. */
  readonly readConnections?: number | undefined;
  readonly writeConnections?: number | undefined;
  readonly transactionConnections?: number | undefined;
  /** Told of what happens in the background: lost connections, failed hints. */
  readonly onWarning?: ((message: string, cause: unknown) => void) | undefined;
}
