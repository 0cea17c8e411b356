/** Owns the options of event streams. */
import type { ServerOption } from './option.ts';
import { between } from './values.ts';

export const streamOptions = {
  streamHeartbeat: {
    flags: '--stream-heartbeat <seconds>',
    env: 'RINGFENCE_STREAM_HEARTBEAT',
    help: 'silence after which a stream of events gets a heartbeat',
    fallback: '15',
    read: between(1, 3600),
  },
  streamMaxAge: {
    flags: '--stream-max-age <seconds>',
    env: 'RINGFENCE_STREAM_MAX_AGE',
    help: 'age at which a stream is ended, so that clients spread over servers again',
    fallback: '3600',
    read: between(1, 31_536_000),
  },
  streamStuck: {
    flags: '--stream-stuck <seconds>',
    env: 'RINGFENCE_STREAM_STUCK',
    help: 'how long a reader may take nothing before it is cut off',
    fallback: '60',
    read: between(1, 86_400),
  },
} as const satisfies Readonly<Record<string, ServerOption>>;
