/**
 * Owns access tokens of identity providers: what a valid one must contain, and what the server says about an invalid
 * one (reference 5 (10)).
 */
import { decodeJwt, errors, jwtVerify, type JWTHeaderParameters, type JWTPayload } from 'jose';
import { readEmail } from '../../policy/names/email.ts';
import { textFault } from '../../policy/names/read-text.ts';
import { cleanUsername } from '../../policy/names/username.ts';
import { Issuer, IssuerUnavailable, type IssuerOptions } from './issuer.ts';

export interface OidcOptions extends Pick<IssuerOptions, 'clock' | 'fetch' | 'settings' | 'onWarning'> {
  readonly issuers: readonly string[];
  /** The token must be meant for one of these. */
  readonly audiences: readonly string[];
  /** The operator set no audience: a token need not say of which kind it is, but it must name its audience. */
  readonly plain?: boolean | undefined;
  /** The claim that suggests a user's name. */
  readonly usernameClaim: string;
  /** By how much clocks may differ. */
  readonly toleranceSeconds: number;
}

/** The content of a valid token. */
export interface VerifiedToken {
  readonly kind: 'verified';
  readonly issuer: string;
  readonly subject: string;
  readonly username: string;
  /** What an invitation may name. */
  readonly proven: ProvenClaims;
  /** When it stops being accepted, in milliseconds since the epoch. */
  readonly expiresAt: number;
}

/** What the provider vouches for about a person, beside the subject. */
export interface ProvenClaims {
  /** In the form of `readEmail`; absent unless the provider says that it verified the address. */
  readonly email?: string;
  /** The name exactly as the provider wrote it; absent where the database would keep it as another one. */
  readonly name?: string;
}

/**
 * Reads both e-mail claims from the same document. An address that the provider did not verify is whatever somebody typed there.
 */
export function provenBy(payload: Readonly<Record<string, unknown>>, usernameClaim: string): ProvenClaims {
  const { email: given, email_verified: isVerified } = payload;
  const email = typeof given === 'string' && isVerified === true ? readEmail(given) : undefined;
  const name = payload[usernameClaim];
  return {
    ...(email !== undefined && { email }),
    ...(isDistinct(name) && { name }),
  };
}

/** Why a credential is refused, in words that may go over the wire. */
export interface Rejected {
  readonly kind: 'rejected';
  readonly why: string;
  /** Set when the credential may be valid but cannot be checked right now. */
  readonly retryAfterSeconds?: number;
}

export type VerifyToken = (token: string) => Promise<VerifiedToken | Rejected>;

/** Signatures of which only the provider can make one. A shared secret, or none at all, proves nothing. */
export const algorithms = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
];

/** Whether a credential looks like a signed token, which begins with `{"` in base64url. */
export const isSignedToken = (secret: string): boolean => /^eyJ[\w-]*\.[\w-]+\.[\w-]*$/.test(secret);

const longestName = 255;

/** Whether a claim tells one person from every other: the database would keep half of a surrogate pair as `\ufffd`, and so two subjects as one. */
export const isDistinct = (claim: unknown): claim is string =>
  typeof claim === 'string' &&
  claim !== '' &&
  claim.length <= longestName &&
  textFault(claim, { lines: false }) === undefined;

/** The last moment that RFC 3339 can write. */
const lastMoment = Date.parse('9999-12-31T23:59:59.999Z');

/**
 * A provider may suggest any name, or none: then people know each other by their verified address, and otherwise by the claim `name`.
 * Invisible characters and very long names are cleaned; a name that mixes scripts is none.
 */
export function nameFrom(
  payload: Readonly<Record<string, unknown>>,
  claim: string,
  subject: string,
  { email }: ProvenClaims,
): string {
  const suggested = [payload[claim], email, payload['name'], subject];
  return suggested.map((one) => (typeof one === 'string' ? cleanUsername(one) : undefined)).find(Boolean) ?? 'user';
}

/**
 * Whether a token is an access token. Providers also sign ID tokens, logout tokens and refresh tokens, with the same
 * keys and perhaps for the same audience. RFC 9068 defines a type for access tokens. For providers that do not use it,
 * a scope or client claim identifies an access token, because the other kinds have neither. A `plain` token may have no
 * such claim, but it must not contain claims about how somebody signed in.
 */
function isAccessToken(header: JWTHeaderParameters, payload: JWTPayload, plain: boolean): boolean {
  if (header.typ !== undefined && /^(application\/)?at\+jwt$/i.test(header.typ)) return true;
  const has = (claim: string): boolean => payload[claim] !== undefined;
  if (['nonce', 'at_hash', 'c_hash', 's_hash', 'events'].some(has)) return false;
  // One provider writes the type among the claims.
  if (payload['typ'] !== undefined) return payload['typ'] === 'Bearer';
  if (['scope', 'scp', 'client_id', 'cid'].some(has)) return true;
  const untyped = header.typ === undefined || /^(application\/)?jwt$/i.test(header.typ);
  return plain && untyped && !['auth_time', 'azp', 'acr', 'amr', 'sid'].some(has);
}

const rejected = (why: string): Rejected => ({ kind: 'rejected', why });

function explain(error: unknown): Rejected {
  if (error instanceof IssuerUnavailable) {
    const why = 'The server cannot reach the identity provider. Try again shortly.';
    return { kind: 'rejected', why, retryAfterSeconds: error.retryAfterSeconds };
  }
  if (error instanceof errors.JWTExpired) return rejected('The access token has expired.');
  if (error instanceof errors.JWTClaimValidationFailed) {
    switch (error.claim) {
      case 'aud':
        return rejected('The access token is meant for another audience.');
      case 'nbf':
        return rejected('The access token is not valid yet.');
      case 'iss':
        return rejected('The access token comes from another issuer.');
      default:
        return rejected(`The claim \`${error.claim}\` of the access token is missing or invalid.`);
    }
  }
  if (error instanceof errors.JOSEAlgNotAllowed) {
    return rejected('The access token is signed with an algorithm that the server does not accept.');
  }
  if (error instanceof errors.JWKSNoMatchingKey) {
    return rejected('The access token is signed with a key that its issuer does not publish.');
  }
  if (error instanceof errors.JWSSignatureVerificationFailed) {
    return rejected('The signature of the access token is invalid.');
  }
  // What remains is a token that cannot be parsed. The message repeats nothing of it.
  return rejected('The access token cannot be read.');
}

/** Whether a token's issue time is in the future, beyond the allowed clock difference: then its other times cannot be trusted either. */
export const isFromFuture = (
  { iat }: JWTPayload,
  { clock, toleranceSeconds }: Pick<OidcOptions, 'clock' | 'toleranceSeconds'>,
): boolean => iat !== undefined && iat > Math.floor(clock() / 1000) + toleranceSeconds;

/** The claims of a token, before its signature is verified. */
function claimsOf(token: string): JWTPayload {
  try {
    return decodeJwt(token);
  } catch {
    return {};
  }
}

export function tokenVerifier(options: OidcOptions): VerifyToken {
  const { plain = false, usernameClaim, toleranceSeconds, clock } = options;
  const issuers = new Map(options.issuers.map((issuer) => [issuer, new Issuer({ ...options, issuer })]));
  return async (token) => {
    const { iss: named } = claimsOf(token);
    const issuer = typeof named === 'string' ? issuers.get(named) : undefined;
    if (issuer === undefined)
      return rejected('The access token comes from an issuer that this server does not accept.');
    try {
      const { payload, protectedHeader } = await jwtVerify(token, issuer.keyFor, {
        algorithms,
        issuer: issuer.issuer,
        audience: [...options.audiences],
        clockTolerance: toleranceSeconds,
        currentDate: new Date(clock()),
        requiredClaims: ['exp', 'sub'],
      });
      const { sub, exp = Number.NaN } = payload;
      const expiresAt = (exp + toleranceSeconds) * 1000;
      if (!isDistinct(sub)) return rejected('The claim `sub` of the access token is missing or invalid.');
      if (!(expiresAt <= lastMoment)) return rejected('The claim `exp` of the access token is missing or invalid.');
      if (isFromFuture(payload, options)) return rejected('The access token was issued in the future.');
      if (!isAccessToken(protectedHeader, payload, plain)) return rejected('This is not an access token.');
      const proven = provenBy(payload, usernameClaim);
      const username = nameFrom(payload, usernameClaim, sub, proven);
      return { kind: 'verified', issuer: issuer.issuer, subject: sub, username, proven, expiresAt };
    } catch (error) {
      return explain(error);
    }
  };
}
