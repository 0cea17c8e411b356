/** Owns the error for a record with content of a newer version. */

/** A record that holds what this program does not know: a field, a kind of peer, a protocol of a newer server. */
export class NotUnderstood extends Error {
  readonly code = 'not_understood';
  /** `what`: the record, such as `the group 1234`. */
  constructor(what: string, why: string) {
    super(`${what} has content that this version does not understand: ${why}`);
  }
}
