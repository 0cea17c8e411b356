/** Owns the actor of a write: its user, the right that must hold when it commits, and its audit note. */
import type { EnrollmentKeyId, TokenId, UserId } from '../../../policy/ids.ts';
import type { AuditNote } from './audit.ts';
import type { IdempotentWrite } from './idempotency.ts';
import type { Timestamp } from './records.ts';

/** What a caller can be, as bits: a write needs one of those that its right names. The store checks them in the writing transaction. */
export const rightRoles = {
  /** An owner of the organization. */
  owner: 1,
  /** An owner of the organization, where the record is the organization's own. */
  ownerOfOwn: 2,
  /** A member of the organization. */
  member: 4,
  /** The user whom the record belongs to: of a group, a device, a token, a key, or the user in the path. */
  owningUser: 8,
  /** The device token of the device in the path. */
  ownDevice: 16,
  enrollmentKey: 32,
  /** An administrator of this server. */
  administrator: 64,
  /** A user who is not removed. */
  anyUser: 128,
  /** The server itself. */
  server: 256,
} as const;

/** The credential of a write, which must still be good. */
export type WriteCredential =
  /** By its digest in hexadecimal, not by its id: a rotated token keeps its id. */
  | { readonly kind: 'token'; readonly digest: string; readonly expires_at?: Timestamp | undefined }
  | { readonly kind: 'session'; readonly id: TokenId; readonly expires_at?: Timestamp | undefined }
  /** An identity provider vouches for the user until then. The store has no row for it. */
  | { readonly kind: 'access_token'; readonly expires_at?: Timestamp | undefined }
  | { readonly kind: 'enrollment_key'; readonly id: EnrollmentKeyId; readonly expires_at?: undefined }
  | { readonly kind: 'none'; readonly expires_at?: undefined };

/** What the path of the operation names, where its owner matters to the right. */
export interface RightSubject {
  readonly kind: 'device' | 'group' | 'enrollment_key' | 'token' | 'user';
  readonly id: string;
}

/**
 * The right to a write. It is judged by what holds inside the writing transaction, not by what held when the request came in:
 * `credential_ended` when the credential is gone, `not_a_member` when the user has left, `forbidden` when no role of `roles` is left.
 */
export interface Right {
  readonly user_id: UserId | undefined;
  readonly credential: WriteCredential;
  /** Bits of `rightRoles`. One of them must hold. */
  readonly roles: number;
  readonly subject?: RightSubject | undefined;
}

/** Of writes that no request asks for: the program itself acts. */
export const serverRight: Right = { user_id: undefined, credential: { kind: 'none' }, roles: rightRoles.server };

/** By which right a write happens. */
export interface Authority {
  readonly right: Right;
  /** Adds an audit entry in the transaction of the write: both happen or neither. A refused write has no entry. */
  readonly audit?: AuditNote | undefined;
  /** Called when a write has committed, before its promise resolves. A failure after that is none of the write. */
  readonly onCommitted?: (() => void) | undefined;
  /** Records a create with its idempotency key. Where the key is known, nothing is written: `repeated`. */
  readonly idempotency?: IdempotentWrite | undefined;
}

export const asServer: Authority = { right: serverRight };

/** Who acts in an organization. That user must be a member of the organization when the write commits: `not_a_member`. */
export interface Actor extends Authority {
  readonly user_id: UserId;
  /**
   * How policy tests affect the write. By default, a test that breaks refuses it. `skip`: an owner skips the tests; the
   * writing transaction checks that it is an owner. `report`: nothing is refused, and tests that break are shown as
   * failing, as when a user is removed from the server.
   */
  readonly tests?: 'skip' | 'report' | undefined;
  /** The write happens, is judged and is taken back: its answer and its refusals are those of the write. */
  readonly isDryRun?: boolean | undefined;
}
