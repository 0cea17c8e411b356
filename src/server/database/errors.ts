/** Owns the reasons why the supervised PostgreSQL cannot run. Each message is one line for a terminal. */

export type DatabaseErrorCode =
  /** Another server holds the data directory. */
  | 'in_use'
  /** No PostgreSQL programs were found, or none of the version that made the data. */
  | 'no_programs'
  /** The unprivileged user that PostgreSQL must run as cannot enter the directory. */
  | 'unreachable_directory'
  /** PostgreSQL or one of its tools ran and failed. */
  | 'failed';

export class DatabaseError extends Error {
  readonly code: DatabaseErrorCode;

  constructor(code: DatabaseErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'DatabaseError';
    this.code = code;
  }
}
