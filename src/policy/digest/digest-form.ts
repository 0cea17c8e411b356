/** Owns what the digest of a policy looks like, and the version of how it is made. */

/**
 * Grows with every change of what is digested. A digest of another form proves nothing. Form 1, which had no number in
 * reports, could be forged by whoever chose the addresses.
 */
export const digestForm = 2;

const form = /^[0-9a-fA-F]{64}$/;

/** For schemas. */
export const digestPattern = form.source;

export const isDigest = (text: string): boolean => form.test(text);
