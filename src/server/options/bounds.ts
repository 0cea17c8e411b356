/** Owns the options that bound what callers may ask for and how long records are kept. */
import { limits } from '../../api/limits.ts';
import type { ServerOption } from './option.ts';
import { between } from './values.ts';

export const boundOptions = {
  rateLimit: {
    flags: '--rate-limit <number>',
    env: 'RINGFENCE_RATE_LIMIT',
    help: 'requests a second that one credential may go on making, and a user with all of its own twice as many; 0 for no limit of any kind',
    fallback: '5000',
    read: between(0, 1_000_000),
  },
  rateBurst: {
    flags: '--rate-burst <number>',
    env: 'RINGFENCE_RATE_BURST',
    help: 'requests that one credential may make at once after a rest',
    fallback: '10000',
    read: between(1, 1_000_000),
  },
  addressRateLimit: {
    flags: '--address-rate-limit <number>',
    env: 'RINGFENCE_ADDRESS_RATE_LIMIT',
    help: 'requests a second without a credential that one address may go on making; 0 for no limit',
    fallback: '200',
    read: between(0, 1_000_000),
  },
  addressRateBurst: {
    flags: '--address-rate-burst <number>',
    env: 'RINGFENCE_ADDRESS_RATE_BURST',
    help: 'requests without a credential that one address may make at once after a rest',
    fallback: '2000',
    read: between(1, 1_000_000),
  },
  failedRateLimit: {
    flags: '--failed-rate-limit <number>',
    env: 'RINGFENCE_FAILED_RATE_LIMIT',
    help: 'credentials a second that are not good and are still looked at, from one address; 0 for no limit',
    fallback: '10',
    read: between(0, 1_000_000),
  },
  failedRateBurst: {
    flags: '--failed-rate-burst <number>',
    env: 'RINGFENCE_FAILED_RATE_BURST',
    help: 'credentials that are not good and are looked at after a rest, from one address',
    fallback: '50',
    read: between(1, 1_000_000),
  },
  maxBody: {
    flags: '--max-body <bytes>',
    env: 'RINGFENCE_MAX_BODY',
    help: 'largest request body that holds rules',
    fallback: String(limits.body),
    read: between(1024, 1024 ** 3),
  },
  maxPlainBody: {
    flags: '--max-plain-body <bytes>',
    env: 'RINGFENCE_MAX_PLAIN_BODY',
    help: 'largest request body of any other kind',
    fallback: String(limits.plainBody),
    read: between(1024, 1024 ** 3),
  },
  maxRules: {
    flags: '--max-rules <number>',
    env: 'RINGFENCE_MAX_RULES',
    help: 'most rules of a group in each direction',
    fallback: String(limits.rulesPerDirection),
    read: between(1, 1_000_000),
  },
  maxRanges: {
    flags: '--max-ranges <number>',
    env: 'RINGFENCE_MAX_RANGES',
    help: 'most address ranges of a group',
    fallback: String(limits.rangesPerGroup),
    read: between(1, 10_000_000),
  },
  maxName: {
    flags: '--max-name <characters>',
    env: 'RINGFENCE_MAX_NAME',
    help: 'longest name',
    fallback: String(limits.name),
    read: between(1, 2000),
  },
  maxDescription: {
    flags: '--max-description <characters>',
    env: 'RINGFENCE_MAX_DESCRIPTION',
    help: 'longest description',
    fallback: String(limits.description),
    read: between(0, 1_000_000),
  },
  keepDeletions: {
    flags: '--keep-deletions <days>',
    env: 'RINGFENCE_KEEP_DELETIONS',
    help: 'how long deletions are kept for streams that resume',
    fallback: '90',
    read: between(1, 36_500),
  },
  keepAudit: {
    flags: '--keep-audit <days>',
    env: 'RINGFENCE_KEEP_AUDIT',
    help: 'how long the audit is kept',
    fallback: '365',
    read: between(1, 36_500),
  },
  keepHistory: {
    flags: '--keep-history <days>',
    env: 'RINGFENCE_KEEP_HISTORY',
    help: 'how long states of groups and devices that no longer stand are kept',
    fallback: '365',
    read: between(1, 36_500),
  },
} as const satisfies Readonly<Record<string, ServerOption>>;
