/** Owns the failure of a start: the message for the operator and the exit code. */
export class StartError extends Error {
  readonly lines: readonly string[];
  readonly exitCode: 1 | 2;

  constructor(lines: readonly string[], exitCode: 1 | 2 = 1) {
    super(lines.join('\n'));
    this.name = 'StartError';
    this.lines = lines;
    this.exitCode = exitCode;
  }
}

export const isSystemError = (error: unknown): error is NodeJS.ErrnoException =>
  error instanceof Error && 'syscall' in error;

/** The message of the innermost cause. */
export const innermost = (error: unknown): string => {
  let last = error;
  while (last instanceof Error && last.cause instanceof Error) last = last.cause;
  return last instanceof Error ? last.message : String(last);
};
