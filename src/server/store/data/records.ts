/** Owns the types that the store returns: records in their wire form, and the store's own data beside them. */
import type {
  ChangeSetId,
  DeviceId,
  EnrollmentKeyId,
  GroupId,
  OrganizationId,
  TokenId,
  UserId,
} from '../../../policy/ids.ts';
import type { MemberRole } from '../../../organization/decide/caller.ts';
import type { DeviceContent, GroupContent, Timestamp } from '../../../organization/decide/records.ts';
import type { AgentSettings } from '../../../api/organization.ts';
import type { GuardrailKind } from '../../../policy/rule.ts';

export interface GroupRecord extends GroupContent {
  readonly revision: number;
}

export interface DeviceRecord extends DeviceContent {
  readonly revision: number;
}

/** The fields that decide who may reach a device, and which rules of others match it. */
export type DevicePolicyRecord = Pick<
  DeviceRecord,
  | 'id'
  | 'user_id'
  | 'organization_id'
  | 'hostname'
  | 'tunnel_ip'
  | 'addresses'
  | 'labels'
  | 'security_groups'
  | 'isolated'
  | 'revision'
>;

export interface OrganizationRecord {
  readonly id: OrganizationId;
  readonly name: string;
  readonly description: string;
  /** The owner of longest standing. */
  readonly owner_id: UserId;
  /** The organization's own groups, the default first. */
  readonly security_groups: readonly GroupId[];
  readonly observe: AgentSettings['observe'];
  readonly refuse_with: AgentSettings['refuse_with'];
  /** The organization's head. */
  readonly revision: number;
  readonly created_at: Timestamp;
  readonly updated_at: Timestamp;
}

export interface UserRecord {
  readonly id: UserId;
  readonly username: string;
  readonly is_admin: boolean;
  /** Groups the user owns, in all organizations; absent when none. */
  readonly security_groups?: readonly GroupId[];
  readonly created_at: Timestamp;
}

export interface MemberRecord {
  readonly user_id: UserId;
  readonly username: string;
  readonly role: MemberRole;
  /** On an owner who was made one by somebody else and has not accepted. */
  readonly accepted?: false;
  readonly created_at: Timestamp;
}

export type TokenScope = 'read-only' | 'full';

/** A token without its secret, which the store never sees. */
export interface TokenRecord {
  readonly id: TokenId;
  readonly kind: 'user' | 'device';
  readonly user_id: UserId;
  readonly device_id?: DeviceId;
  readonly name: string;
  readonly scope: TokenScope;
  readonly expires_at?: Timestamp;
  /** Within about a minute: use is recorded lazily. */
  readonly last_used_at?: Timestamp;
  readonly created_at: Timestamp;
}

export interface EnrollmentKeyRecord {
  readonly id: EnrollmentKeyId;
  readonly organization_id: OrganizationId;
  readonly user_id: UserId;
  readonly name: string;
  readonly expires_at: Timestamp;
  readonly uses_left: number;
  /** Groups that every device admitted by this key starts with; absent when none. */
  readonly security_groups?: readonly GroupId[];
  /** Labels that every device admitted by this key gets; absent when none. */
  readonly labels?: readonly string[];
  readonly created_at: Timestamp;
}

/** An identity provider, and the client that this server is there. */
export interface SessionProvider {
  readonly issuer: string;
  readonly client_id: string;
}

/** A browser's session that is valid at this moment. */
export interface SessionRecord {
  /** Undefined where a server of an earlier version began it. */
  readonly provider: SessionProvider | undefined;
  /** Ends streams as a token's id does. */
  readonly id: TokenId;
  readonly user_id: UserId;
  readonly username: string;
  readonly is_admin: boolean;
  readonly seen_at: Timestamp;
  /** When the provider was last asked whether it still vouches. */
  readonly checked_at: Timestamp;
  readonly expires_at: Timestamp;
}

/** One entry of the audit. */
export interface AuditRecord {
  readonly id: string;
  readonly at: Timestamp;
  readonly operation: string;
  readonly organization_id?: OrganizationId;
  readonly subject_id?: string;
  readonly revision?: number;
  /** The record already had the requested values. */
  readonly unchanged?: true;
  readonly fields?: readonly string[];
  readonly user_id: UserId;
  readonly username: string;
  readonly credential: {
    readonly kind: 'user_token' | 'device_token' | 'enrollment_key' | 'access_token' | 'session' | 'server';
    readonly id?: string;
  };
  readonly address: string;
  readonly request_id: string;
  /** The change set that it is a part of. */
  readonly change_id?: ChangeSetId;
  /** What was made, changed or ended, as it was called before the write. */
  readonly subject?: { readonly name: string; readonly guardrail?: GuardrailKind };
  /** The fields that the write wrote, before it and after it. Of something new or deleted, the whole record. */
  readonly before?: object;
  readonly after?: object;
}

/** What a device last said about itself. It is no part of the device's record: it takes no revision and makes no event. */
export interface DeviceStatus {
  readonly device_id: DeviceId;
  readonly reported_at: Timestamp;
  readonly status: unknown;
}

/**
 * A device or a group as stored. `json` is the whole record as it goes over the wire, ready to send;
 * `record` is the same as an object, parsed when first asked for.
 */
export interface Stored<T> {
  readonly id: string;
  readonly revision: number;
  readonly json: string;
  readonly record: T;
}

/** The user or device that a valid credential belongs to, at this moment. */
export type Credential =
  | {
      readonly kind: 'user';
      readonly token_id: TokenId;
      readonly by_session?: undefined;
      /** Of its secret, in hexadecimal: a token that gets another secret is another credential. Never shown. */
      readonly digest: string;
      readonly user_id: UserId;
      readonly username: string;
      readonly is_admin: boolean;
      readonly scope: TokenScope;
      readonly expires_at?: Timestamp;
    }
  | {
      readonly kind: 'user';
      /** The credential is a browser's session, and this its id: sessions end as tokens do. */
      readonly token_id: TokenId;
      readonly by_session: true;
      readonly user_id: UserId;
      readonly username: string;
      readonly is_admin: boolean;
      readonly scope: TokenScope;
      readonly expires_at?: Timestamp;
    }
  | {
      readonly kind: 'device';
      readonly token_id: TokenId;
      readonly digest: string;
      /** Since when its secret counts. */
      readonly secret_since: Timestamp;
      /** Somebody wants it to have another secret. */
      readonly renewal_asked: boolean;
      readonly user_id: UserId;
      readonly username: string;
      readonly device_id: DeviceId;
      readonly organization_id: OrganizationId;
      readonly scope: TokenScope;
      readonly expires_at?: Timestamp;
    };
