/** Owns the form in which e-mail addresses are compared. */

/**
 * The address in lower case; undefined where it is not a plain ASCII address. Case mapping of other letters is unsafe here: the Kelvin sign
 * becomes `k`, so that one person could have the address of another.
 */
export function readEmail(text: string): string | undefined {
  const isPlain = /^[\x21-\x3f\x41-\x7e]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,188}[A-Za-z0-9])?$/.test(text);
  return isPlain ? text.toLowerCase() : undefined;
}
