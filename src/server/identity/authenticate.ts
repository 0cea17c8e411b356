/** Owns the way from an `Authorization` header to who is asking. */
import type { EnrollmentKeyId, OrganizationId, UserId } from '../../policy/ids.ts';
import type { Credential } from '../store/records.ts';
import type { Store } from '../store/store.ts';
import { digestOf, isEnrollmentKey } from './secret.ts';

/** Who asks, by which credential. */
export type Principal =
  | Credential
  | {
      readonly kind: 'enrollment';
      readonly key_id: EnrollmentKeyId;
      readonly user_id: UserId;
      readonly organization_id: OrganizationId;
    };

/** Names the credential in logs and buckets; no secret. */
export const credentialId = (principal: Principal): string =>
  principal.kind === 'enrollment' ? principal.key_id : principal.token_id;

/** Says who an `Authorization` header stands for at this moment; undefined for none, a wrong or an expired one. */
export type Authenticate = (authorization: string | undefined) => Promise<Principal | undefined>;

const bearer = /^bearer +([^\s]+) *$/i;
/** Longer than any credential we know, a signed token included. */
const longest = 8192;

export function opaqueAuthenticator(store: Pick<Store, 'tokens' | 'enrollmentKeys'>): Authenticate {
  return async (authorization) => {
    if (authorization === undefined || authorization.length > longest) return undefined;
    const secret = bearer.exec(authorization)?.[1];
    if (secret === undefined) return undefined;
    const digest = digestOf(secret);
    if (!isEnrollmentKey(secret)) return await store.tokens.authenticate(digest);
    const key = await store.enrollmentKeys.authenticate(digest);
    if (key === undefined) return undefined;
    return { kind: 'enrollment', key_id: key.id, user_id: key.user_id, organization_id: key.organization_id };
  };
}
