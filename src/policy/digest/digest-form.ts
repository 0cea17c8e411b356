/** Owns what the digest of a policy looks like. */

const form = /^[0-9a-fA-F]{64}$/;

/** For schemas. */
export const digestPattern = form.source;

export const isDigest = (text: string): boolean => form.test(text);
