/** Owns the format of a policy's digest, and the version of its input. */

/**
 * The version of the digest's input format. It grows with every change of what is digested, and digests of different
 * versions cannot be compared. Version 1, which had no number in reports, could be forged by an attacker who chose the
 * addresses.
 */
export const digestForm = 2;

const form = /^[0-9a-fA-F]{64}$/;

/** For schemas. */
export const digestPattern = form.source;

export const isDigest = (text: string): boolean => form.test(text);
