/** Owns the options that bound what callers may ask for and how long records are kept. */
import { limits } from '../../api/limits.ts';
import type { ServerOption } from './option.ts';
import { between } from './values.ts';

export const boundOptions = {
  rateLimit: {
    flags: '--rate-limit <number>',
    env: 'RINGFENCE_RATE_LIMIT',
    help: 'requests a second that one credential may go on making; 0 for no limit',
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
  maxBody: {
    flags: '--max-body <bytes>',
    env: 'RINGFENCE_MAX_BODY',
    help: 'largest request body',
    fallback: String(limits.body),
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
} as const satisfies Readonly<Record<string, ServerOption>>;
