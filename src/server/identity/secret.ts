/** Owns opaque secrets: how they are generated, parsed and hashed into the digests that are stored. */
import { hash } from 'node:crypto';
import { enrollmentSecret } from '../../policy/names/enrollment-key.ts';

/** The kind of credential, which is the prefix of its secret. */
export type SecretKind = 'user' | 'device' | 'enroll' | 'session';

const secretBytes = 32;

/** Fills the bytes at random: `node:crypto` in the program, anything repeatable in a test. */
export type Random = (bytes: Uint8Array) => void;

export interface NewSecret {
  /** The secret for its holder; shown once. */
  readonly secret: string;
  /** The digest that is stored. */
  readonly digest: Uint8Array;
}

/** A plain digest suffices, because what it hides has 256 random bits: there is nothing to guess. */
export const digestOf = (secret: string): Uint8Array => hash('sha256', secret, 'buffer');

export function mint(kind: SecretKind, random: Random): NewSecret {
  const bytes = new Uint8Array(secretBytes);
  random(bytes);
  const secret = `rf_${kind}_${Buffer.from(bytes).toString('base64url')}`;
  return { secret, digest: digestOf(secret) };
}

/** The secret that an owner shares with the receiver of its alerts: `whsec_` and the key in base64, as Standard Webhooks defines it. */
export function mintWebhookSecret(random: Random): string {
  const bytes = new Uint8Array(secretBytes);
  random(bytes);
  return `whsec_${Buffer.from(bytes).toString('base64')}`;
}

/** Whether a secret is an enrollment key; every other opaque secret is a token. */
export const isEnrollmentKey = (secret: string): boolean => secret.startsWith('rf_enroll_');

/** The digest of an enrollment key, also of one that says where to join: an agent that does not know that form sends all of it. */
export const digestOfEnrollmentKey = (key: string): Uint8Array => digestOf(enrollmentSecret(key));

/** Takes every secret out of a text that is on its way to a log. */
export const withoutSecrets = (text: string): string =>
  text
    .replace(/rf_(user|device|enroll|session)_[A-Za-z0-9_-]*/g, 'rf_$1_[secret]')
    .replace(/whsec_[A-Za-z0-9+/=]*/g, 'whsec_[secret]')
    // Removes everything with this prefix. A pattern that required the dots would search for them again from every start.
    .replace(/eyJ[\w.-]*/g, '[signed token]')
    .replace(/(\/\/[^/:@\s]*):[^@\s/]*@/g, '$1:[secret]@');
