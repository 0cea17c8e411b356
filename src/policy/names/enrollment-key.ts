/** Owns the text form of an enrollment key: the secret alone, or with the organization and the servers that the device joins. */
import { parseOrganizationId, type OrganizationId } from '../ids.ts';

/**
 * An enrollment key as people copy it: `rf_enroll_SECRET`, or `rf_enroll_SECRET:ORGANIZATION@URL`, with several URLs separated by commas.
 * Only the secret is a secret. What follows it is readable on purpose, so that people see which server a device is about to join.
 */
export interface EnrollmentKeyText {
  readonly secret: string;
  /** Absent in a key that is only a secret. */
  readonly joins?: { readonly organization: OrganizationId; readonly servers: string };
}

export const writeEnrollmentKey = (secret: string, organization: OrganizationId, server: string): string =>
  `${secret}:${organization}@${server}`;

/** The part that the server knows; any other text is returned unchanged up to its first colon. */
export const enrollmentSecret = (text: string): string => text.split(':', 1)[0] ?? '';

/** Thrown for a key whose second part was damaged on its way. The message contains no part of the key. */
export class BadEnrollmentKey extends Error {
  readonly code = 'bad_enrollment_key';
}

/** Throws `BadEnrollmentKey`. The caller still has to read `servers` as URLs. */
export function readEnrollmentKey(text: string): EnrollmentKeyText {
  const secret = enrollmentSecret(text);
  if (secret === text) return { secret };
  const [, organization = '', servers = ''] = /^:([^@]*)@([\x21-\x7e]{1,4096})$/.exec(text.slice(secret.length)) ?? [];
  try {
    return { secret, joins: { organization: parseOrganizationId(organization), servers } };
  } catch {
    throw new BadEnrollmentKey('the enrollment key is damaged: after its secret it must say :ORGANIZATION@SERVER');
  }
}
