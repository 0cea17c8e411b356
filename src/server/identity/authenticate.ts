/** Owns the step from a header or a cookie to the caller. */
import type { Timestamp } from '../../organization/decide/records.ts';
import type { EnrollmentKeyId, OrganizationId, UserId } from '../../policy/ids.ts';
import type { Store } from '../store/open.ts';
import type { VisibleSubject, Subject } from '../store/accounts/access.ts';
import type { EnrollmentKeys } from '../store/devices/enrollment-keys.ts';
import type { Credential } from '../store/data/records.ts';
import { isSignedToken, type ProvenClaims, type Rejected, type VerifyToken } from './oidc.ts';
import { digestOf, digestOfEnrollmentKey, isEnrollmentKey } from './secret.ts';
import type { BrowserSessions } from './sessions.ts';

/** Who asks, by which credential. */
export type Principal =
  | Credential
  | {
      readonly kind: 'user';
      /** No token of ours: an identity provider vouches for this user. */
      readonly token_id?: undefined;
      readonly issuer: string;
      /** What an invitation may name. */
      readonly proven: ProvenClaims;
      /** Identifies the access token; it contains no part of it. */
      readonly session: string;
      readonly user_id: UserId;
      readonly username: string;
      readonly is_admin: boolean;
      readonly scope: 'full';
      readonly expires_at: Timestamp;
    }
  | {
      readonly kind: 'enrollment';
      readonly key_id: EnrollmentKeyId;
      readonly user_id: UserId;
      readonly organization_id: OrganizationId;
    };

/** Whose own groups this credential shows: only a user's, since a device's token may be in other hands (reference 5 (2)). */
export const groupReader = (principal: Principal): UserId | undefined =>
  principal.kind === 'user' ? principal.user_id : undefined;

/** Names the credential in logs and buckets; no secret. */
export const credentialId = (principal: Principal): string =>
  principal.kind === 'enrollment' ? principal.key_id : (principal.token_id ?? `oidc:${principal.user_id}`);

/** The credentials of a request. With a header, the cookie is ignored. */
export interface Presented {
  readonly authorization?: string | undefined;
  /** The secret in a browser's session cookie. */
  readonly session?: string | undefined;
}

export interface Caller {
  /** Undefined for no credential, an unknown, revoked or expired one. */
  readonly principal: Principal | Rejected | undefined;
  /** The subject as the caller sees it, when the read of the credential included it. */
  readonly visible?: VisibleSubject;
}

/** Returns the caller that the credential belongs to at this moment. With a subject, one read usually fetches both. */
export type Authenticate = (presented: Presented, subject?: Subject) => Promise<Caller>;

const nobody: Caller = { principal: undefined };

const bearer = /^bearer +([^\s]+) *$/i;
/** Longer than any credential we know, a signed token included. */
const longest = 8192;

async function verifiedUser(
  token: string,
  verify: VerifyToken,
  { users }: Pick<Store['batched'], 'users'>,
): Promise<Principal | Rejected> {
  const claims = await verify(token);
  if (claims.kind === 'rejected') return claims;
  const user = await users.forIdentity(claims);
  return {
    kind: 'user',
    issuer: claims.issuer,
    proven: claims.proven,
    session: Buffer.from(digestOf(token)).toString('base64url'),
    user_id: user.id,
    username: user.username,
    is_admin: user.is_admin,
    scope: 'full',
    expires_at: new Date(claims.expiresAt).toISOString(),
  };
}

export function authenticator(
  lookups: Pick<Store['batched'], 'tokens' | 'users' | 'sessions'>,
  enrollmentKeys: Pick<EnrollmentKeys, 'authenticate'>,
  { verify, sessions }: { readonly verify?: VerifyToken | undefined; readonly sessions?: BrowserSessions | undefined },
): Authenticate {
  const ofToken = async (digest: Uint8Array, subject: Subject | undefined): Promise<Caller> => {
    if (subject === undefined) return { principal: await lookups.tokens.authenticate(digest) };
    const found = await lookups.tokens.authenticateFor(digest, subject);
    return found === undefined ? nobody : { principal: found.credential, visible: found.visible };
  };
  const ofKey = async (digest: Uint8Array): Promise<Caller> => {
    const key = await enrollmentKeys.authenticate(digest);
    if (key === undefined) return nobody;
    const { id: key_id, user_id, organization_id } = key;
    return { principal: { kind: 'enrollment', key_id, user_id, organization_id } };
  };
  return async ({ authorization, session }, subject) => {
    if (authorization === undefined)
      return session === undefined ? nobody : { principal: await sessions?.authenticate(session, lookups.sessions) };
    if (authorization.length > longest) return nobody;
    const secret = bearer.exec(authorization)?.[1];
    if (secret === undefined) return nobody;
    if (verify !== undefined && isSignedToken(secret))
      return { principal: await verifiedUser(secret, verify, lookups) };
    return isEnrollmentKey(secret) ? ofKey(digestOfEnrollmentKey(secret)) : ofToken(digestOf(secret), subject);
  };
}
