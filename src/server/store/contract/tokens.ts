/** Owns the interface of tokens in the store. */
import type { DeviceId, OrganizationId, TokenId, UserId } from '../../../policy/ids.ts';
import type { VisibleSubject, Subject } from './access.ts';
import type { Authority } from './actor.ts';
import type { Page } from './page.ts';
import type { Credential, TokenRecord, TokenScope } from './records.ts';

/** SHA-256 of a secret, 32 bytes. The secret itself never enters the store. */
export type Digest = Uint8Array;

export interface NewToken {
  readonly digest: Digest;
  readonly name: string;
  readonly scope: TokenScope;
  readonly expires_at?: Date | undefined;
}

export interface Tokens {
  /** Who this digest belongs to; undefined when unknown, revoked or expired. Its use is recorded lazily. */
  authenticate(digest: Digest): Promise<Credential | undefined>;
  /** The same, with what `access` would say to it of the subject, in one read. */
  authenticateFor(
    digest: Digest,
    subject: Subject,
  ): Promise<{ credential: Credential; visible: VisibleSubject } | undefined>;
  issue(user: UserId, token: NewToken, by: Authority): Promise<TokenRecord>;
  /** A further token for a device (the first comes with its creation). */
  issueForDevice(org: OrganizationId, device: DeviceId, token: NewToken): Promise<TokenRecord>;
  /** The user's own tokens and those of its devices, or only one of these kinds. */
  list(
    user: UserId,
    query?: Page & { readonly kind?: TokenRecord['kind'] | undefined },
  ): Promise<readonly TokenRecord[]>;
  get(id: TokenId): Promise<TokenRecord>;
  /** Gives the token another secret; the old one stops at once: when this resolves, nothing is written by it any more. */
  rotate(id: TokenId, digest: Digest, by: Authority): Promise<TokenRecord>;
  /** Notes that the device is to renew the token by itself. The secret stays until then. `not_found` where it is a user's. */
  askRenewal(
    id: TokenId,
    by: Authority,
  ): Promise<{ readonly token: TokenRecord; readonly organization: OrganizationId }>;
  /**
   * A device with this credential has made another secret, with this digest. Whoever shows that secret first makes it the token's, and ends the one
   * before. A later offer replaces it.
   */
  offerSecret(of: Pick<Extract<Credential, { kind: 'device' }>, 'token_id' | 'digest'>, next: Digest): Promise<void>;
  /** Hints end the open streams of the token. When this resolves, no write with the token can still commit. */
  revoke(id: TokenId, by: Authority): Promise<TokenRecord>;
}
