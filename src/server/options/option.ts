/** Owns the shape of an option: its flag, its environment variable, its default and its parser. */

/** One option, for any program that reads command lines. `read` throws an error whose message ends a sentence about the value. */
export interface ServerOption {
  readonly flags: string;
  readonly env: string;
  readonly help: string;
  readonly fallback?: string | number | boolean;
  readonly read?: (text: string) => unknown;
  /** Not shown in help output: it may hold a password. */
  readonly secret?: true;
}
