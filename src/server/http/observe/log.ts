/** Owns the log: JSON lines with request ids and without secrets. */
import { pino, type DestinationStream, type Logger } from 'pino';
import type { LogLevel } from '../../options/service.ts';
import { withoutSecrets } from '../../identity/secret.ts';

export type Log = Logger;

const deepest = 5;

/** An error with its causes, as far as a log line should go; texts are cleaned, and parameters of statements left out. */
function showError(error: unknown, depth = 0): unknown {
  if (!(error instanceof Error)) return typeof error === 'string' ? withoutSecrets(error) : undefined;
  const code = 'code' in error && typeof error.code === 'string' ? { code: error.code } : {};
  return {
    name: error.name,
    ...code,
    message: withoutSecrets(error.message),
    ...(depth === 0 && error.stack !== undefined ? { stack: withoutSecrets(error.stack) } : {}),
    ...(error.cause === undefined || depth >= deepest ? {} : { cause: showError(error.cause, depth + 1) }),
  };
}

export function createLog(level: LogLevel, destination?: DestinationStream): Log {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: (error: unknown) => showError(error) },
      // A second fence: nothing puts these into a line, and if something ever does, they stay out of it.
      redact: [
        'authorization',
        '*.authorization',
        'headers',
        '*.headers',
        'token',
        '*.token',
        'key',
        '*.key',
        'device_token',
        '*.device_token',
      ],
    },
    destination ?? pino.destination({ fd: 2, sync: true }),
  );
}
