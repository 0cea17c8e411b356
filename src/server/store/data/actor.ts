/** Owns the actor of a write: its user, the right that must hold when it commits, and its audit note. */
import type { EnrollmentKeyId, TokenId, UserId } from '../../../policy/ids.ts';
import { rightRoles } from '../../../organization/decide/caller.ts';
import type { Timestamp } from '../../../organization/decide/records.ts';
import type { AuditNote } from './audit.ts';
import type { IdempotentWrite } from './idempotency.ts';

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
  /** The write happens, is judged and is taken back: its answer and its refusals are those of the write. */
  readonly isDryRun?: boolean | undefined;
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
}
