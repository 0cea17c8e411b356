/** Owns the options that bound what callers hold of a process: memory and connections. */
import type { ServerOption } from './option.ts';
import { between } from './values.ts';

const mebibyte = 1024 ** 2;
const readBytes = between(1024, 1024 ** 4);

export const connectionOptions = {
  maxUserBodyMemory: {
    flags: '--max-user-body-memory <bytes>',
    env: 'RINGFENCE_MAX_USER_BODY_MEMORY',
    help: 'most bytes of request bodies that one user may have in a process at a time; at least one body always fits',
    fallback: String(32 * mebibyte),
    read: readBytes,
  },
  maxAddressBodyMemory: {
    flags: '--max-address-body-memory <bytes>',
    env: 'RINGFENCE_MAX_ADDRESS_BODY_MEMORY',
    help: 'most bytes of request bodies from one address in a process at a time',
    fallback: String(64 * mebibyte),
    read: readBytes,
  },
  maxBodyMemory: {
    flags: '--max-body-memory <bytes>',
    env: 'RINGFENCE_MAX_BODY_MEMORY',
    help: 'most bytes of request bodies in a process at a time',
    fallback: String(256 * mebibyte),
    read: readBytes,
  },
} as const satisfies Readonly<Record<string, ServerOption>>;
