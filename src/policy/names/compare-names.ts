/** Owns the order of names, as people count. */

/** Made when it is first needed: it loads what it knows of all scripts. */
let collator: Intl.Collator | undefined;

/** The natural order of names: `web-2` comes before `web-10`. */
export const compareNames = (a: string, b: string): number =>
  (collator ??= new Intl.Collator('en', { numeric: true })).compare(a, b);
