/** Owns the error for a saved policy that cannot be used. */

/** Thrown where a text is no saved policy: half written, changed by hand, or of another version. */
export class UnusablePolicy extends Error {
  readonly code = 'unusable_policy';
}
