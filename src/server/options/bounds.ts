/** Owns the options that limit what callers may request and how long records are kept. */
import { limits } from '../../api/limits.ts';
import type { ServerOption } from './option.ts';
import { between } from './values.ts';

export const boundOptions = {
  rateLimit: {
    flags: '--rate-limit <number>',
    env: 'RINGFENCE_RATE_LIMIT',
    help: 'sustained requests per second for one credential; all credentials of a user together may make twice as many; 0 turns all rate limits off',
    fallback: '5000',
    read: between(0, 1_000_000),
  },
  rateBurst: {
    flags: '--rate-burst <number>',
    env: 'RINGFENCE_RATE_BURST',
    help: 'burst of requests that one credential may make',
    fallback: '10000',
    read: between(1, 1_000_000),
  },
  addressRateLimit: {
    flags: '--address-rate-limit <number>',
    env: 'RINGFENCE_ADDRESS_RATE_LIMIT',
    help: 'sustained requests per second without a credential from one address; 0 for no limit',
    fallback: '200',
    read: between(0, 1_000_000),
  },
  addressRateBurst: {
    flags: '--address-rate-burst <number>',
    env: 'RINGFENCE_ADDRESS_RATE_BURST',
    help: 'burst of requests without a credential from one address',
    fallback: '2000',
    read: between(1, 1_000_000),
  },
  failedRateLimit: {
    flags: '--failed-rate-limit <number>',
    env: 'RINGFENCE_FAILED_RATE_LIMIT',
    help: 'invalid credentials per second that the server checks from one address; 0 for no limit',
    fallback: '10',
    read: between(0, 1_000_000),
  },
  failedRateBurst: {
    flags: '--failed-rate-burst <number>',
    env: 'RINGFENCE_FAILED_RATE_BURST',
    help: 'burst of invalid credentials that the server checks from one address',
    fallback: '50',
    read: between(1, 1_000_000),
  },
  maxBody: {
    flags: '--max-body <bytes>',
    env: 'RINGFENCE_MAX_BODY',
    help: 'maximum size of a request body with rules',
    fallback: String(limits.body),
    read: between(1024, 1024 ** 3),
  },
  maxPlainBody: {
    flags: '--max-plain-body <bytes>',
    env: 'RINGFENCE_MAX_PLAIN_BODY',
    help: 'maximum size of any other request body',
    fallback: String(limits.plainBody),
    read: between(1024, 1024 ** 3),
  },
  maxRules: {
    flags: '--max-rules <number>',
    env: 'RINGFENCE_MAX_RULES',
    help: 'maximum number of rules in each direction of a group',
    fallback: String(limits.rulesPerDirection),
    read: between(1, 1_000_000),
  },
  maxRanges: {
    flags: '--max-ranges <number>',
    env: 'RINGFENCE_MAX_RANGES',
    help: 'maximum number of address ranges in a group',
    fallback: String(limits.rangesPerGroup),
    read: between(1, 10_000_000),
  },
  maxName: {
    flags: '--max-name <characters>',
    env: 'RINGFENCE_MAX_NAME',
    help: 'maximum length of a name',
    fallback: String(limits.name),
    read: between(1, 2000),
  },
  maxDescription: {
    flags: '--max-description <characters>',
    env: 'RINGFENCE_MAX_DESCRIPTION',
    help: 'maximum length of a description',
    fallback: String(limits.description),
    read: between(0, 1_000_000),
  },
  keepDeletions: {
    flags: '--keep-deletions <days>',
    env: 'RINGFENCE_KEEP_DELETIONS',
    help: 'how long the server keeps deletions for streams that resume',
    fallback: '90',
    read: between(1, 36_500),
  },
  keepAudit: {
    flags: '--keep-audit <days>',
    env: 'RINGFENCE_KEEP_AUDIT',
    help: 'how long the server keeps audit entries',
    fallback: '365',
    read: between(1, 36_500),
  },
  keepHistory: {
    flags: '--keep-history <days>',
    env: 'RINGFENCE_KEEP_HISTORY',
    help: 'how long the server keeps past states of groups and devices',
    fallback: '365',
    read: between(1, 36_500),
  },
} as const satisfies Readonly<Record<string, ServerOption>>;
