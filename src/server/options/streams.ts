/** Owns the options of event streams, and of answers that are held back. */
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
  streamSilent: {
    flags: '--stream-silent <seconds>',
    env: 'RINGFENCE_STREAM_SILENT',
    help: 'how long a device may show no sign of life before it is offline',
    fallback: '45',
    read: between(2, 3600),
  },
  maxStreams: {
    flags: '--max-streams <number>',
    env: 'RINGFENCE_MAX_STREAMS',
    help: "streams that a user's credential may have open at a time (429 beyond)",
    fallback: '1000',
    read: between(1, 10_000_000),
  },
  maxDeviceStreams: {
    flags: '--max-device-streams <number>',
    env: 'RINGFENCE_MAX_DEVICE_STREAMS',
    help: "streams that a device's token may have open at a time (429 beyond)",
    fallback: '16',
    read: between(1, 10_000_000),
  },
  maxOrganizationStreams: {
    flags: '--max-organization-streams <number>',
    env: 'RINGFENCE_MAX_ORGANIZATION_STREAMS',
    help: 'streams that an organization may have open at a time (429 beyond)',
    fallback: '200000',
    read: between(1, 10_000_000),
  },
  maxWaits: {
    flags: '--max-waits <number>',
    env: 'RINGFENCE_MAX_WAITS',
    help: 'answers about convergence that a user, or a device, may wait for at a time (429 beyond)',
    fallback: '64',
    read: between(1, 10_000_000),
  },
} as const satisfies Readonly<Record<string, ServerOption>>;
