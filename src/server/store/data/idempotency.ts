/** Owns the interface of idempotency keys in the store: a create that is repeated with its key gets the first answer again (reference 4.5 (10)). */
import type { EnrollmentKeyId, OrganizationId, UserId } from '../../../policy/ids.ts';

/** For how long a key is known. */
export const idempotencyKeyMs = 86_400_000;

/** How many keys of a place are known at least: the newest of each user in turns. */
export const idempotencyKeysKept = 10_000;

/** The key of a request: whose it is, and what the request asked for. */
export interface IdempotencyKey {
  /** The organization that the request is about; for a create outside of organizations, its user. */
  readonly place: OrganizationId | UserId;
  /** The user, or the enrollment key of a device that enrolls. */
  readonly caller: UserId | EnrollmentKeyId;
  /** A digest: the key itself is not stored. */
  readonly key: Uint8Array;
  /** A digest of the operation, what its path names, its query and its body. */
  readonly fingerprint: Uint8Array;
}

/** A create that is recorded with its key, in the transaction that writes it. */
export interface IdempotentWrite extends IdempotencyKey {
  /** The answer to record, from what the store made. */
  readonly answerOf: (made: unknown) => Uint8Array;
}
