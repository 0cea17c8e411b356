/** Owns the options that limit the memory and connections that callers may use in a process. */
import type { ServerOption } from './option.ts';
import { between, whole } from './values.ts';

const mebibyte = 1024 ** 2;
const readBytes = between(1024, 1024 ** 4);

/** Undefined: as many as the process may open. */
const readConnections = (text: string): number | undefined =>
  text.trim() === 'auto' ? undefined : whole(text, 1, 10_000_000);

export const connectionOptions = {
  maxConnections: {
    flags: '--max-connections <number|auto>',
    env: 'RINGFENCE_MAX_CONNECTIONS',
    help: 'maximum connections of a process; auto: the limit of open files, minus the files that the database needs',
    fallback: 'auto',
    read: readConnections,
  },
  maxAddressConnections: {
    flags: '--max-address-connections <number>',
    env: 'RINGFENCE_MAX_ADDRESS_CONNECTIONS',
    help: 'maximum connections from one address to a process, and at most three quarters of all connections; trusted proxies are exempt',
    fallback: '32768',
    read: between(1, 10_000_000),
  },
  firstByteTimeout: {
    flags: '--first-byte-timeout <seconds>',
    env: 'RINGFENCE_FIRST_BYTE_TIMEOUT',
    help: 'how long a new connection may stay silent',
    fallback: '10',
    read: between(1, 3600),
  },
  handshakeTimeout: {
    flags: '--handshake-timeout <seconds>',
    env: 'RINGFENCE_HANDSHAKE_TIMEOUT',
    help: 'how long a TLS handshake may take',
    fallback: '30',
    read: between(1, 3600),
  },
  maxUserBodyMemory: {
    flags: '--max-user-body-memory <bytes>',
    env: 'RINGFENCE_MAX_USER_BODY_MEMORY',
    help: 'maximum bytes of unanswered request bodies of one user in a process; one body always fits',
    fallback: String(32 * mebibyte),
    read: readBytes,
  },
  maxAddressBodyMemory: {
    flags: '--max-address-body-memory <bytes>',
    env: 'RINGFENCE_MAX_ADDRESS_BODY_MEMORY',
    help: 'maximum bytes of unanswered request bodies from one address in a process',
    fallback: String(64 * mebibyte),
    read: readBytes,
  },
  maxBodyMemory: {
    flags: '--max-body-memory <bytes>',
    env: 'RINGFENCE_MAX_BODY_MEMORY',
    help: 'maximum bytes of unanswered request bodies in a process',
    fallback: String(256 * mebibyte),
    read: readBytes,
  },
} as const satisfies Readonly<Record<string, ServerOption>>;
