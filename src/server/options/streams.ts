/** Owns the options of event streams and of held answers. */
import type { ServerOption } from './option.ts';
import { between } from './values.ts';

export const streamOptions = {
  streamHeartbeat: {
    flags: '--stream-heartbeat <seconds>',
    env: 'RINGFENCE_STREAM_HEARTBEAT',
    help: 'how long an event stream may be silent before the server sends a heartbeat',
    fallback: '15',
    read: between(1, 3600),
  },
  streamMaxAge: {
    flags: '--stream-max-age <seconds>',
    env: 'RINGFENCE_STREAM_MAX_AGE',
    help: 'age at which the server ends a stream, so that clients spread over all servers',
    fallback: '3600',
    read: between(1, 31_536_000),
  },
  streamStuck: {
    flags: '--stream-stuck <seconds>',
    env: 'RINGFENCE_STREAM_STUCK',
    help: 'how long a client may read nothing before the server closes its stream',
    fallback: '60',
    read: between(1, 86_400),
  },
  streamSilent: {
    flags: '--stream-silent <seconds>',
    env: 'RINGFENCE_STREAM_SILENT',
    help: 'how long a device may be silent before it is offline',
    fallback: '45',
    read: between(2, 3600),
  },
  maxStreams: {
    flags: '--max-streams <number>',
    env: 'RINGFENCE_MAX_STREAMS',
    help: 'maximum number of open streams for a credential of a user (then 429)',
    fallback: '1000',
    read: between(1, 10_000_000),
  },
  maxDeviceStreams: {
    flags: '--max-device-streams <number>',
    env: 'RINGFENCE_MAX_DEVICE_STREAMS',
    help: 'maximum number of open streams for a device token (then 429)',
    fallback: '16',
    read: between(1, 10_000_000),
  },
  maxOrganizationStreams: {
    flags: '--max-organization-streams <number>',
    env: 'RINGFENCE_MAX_ORGANIZATION_STREAMS',
    help: 'maximum number of open streams in an organization (then 429)',
    fallback: '200000',
    read: between(1, 10_000_000),
  },
  maxWaits: {
    flags: '--max-waits <number>',
    env: 'RINGFENCE_MAX_WAITS',
    help: 'maximum number of convergence requests that a user or a device may have waiting (then 429)',
    fallback: '64',
    read: between(1, 10_000_000),
  },
} as const satisfies Readonly<Record<string, ServerOption>>;
