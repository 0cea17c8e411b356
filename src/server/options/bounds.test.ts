/** Proves that a server without options has the bounds that the reference names (8). */
import { expect, test } from 'vitest';
import { limits } from '../../api/limits.ts';
import { mostProblems } from '../../policy/problem.ts';
import { defaultQuotas } from '../store/data/quotas.ts';
import type { ServerOption } from './option.ts';
import { serverOptions } from './server-options.ts';

const MiB = 1024 * 1024;
const options: Readonly<Record<keyof typeof serverOptions, ServerOption>> = serverOptions;
const defaultOf = (option: keyof typeof serverOptions): number => Number(options[option].fallback);

test('without options, the bounds are those of the reference', () => {
  expect([mostProblems, limits.jsonDepth, limits.answer]).toEqual([100, 32, 16 * MiB]);
  expect([defaultOf('maxBody'), defaultOf('maxPlainBody')]).toEqual([4 * MiB, 64 * 1024]);
  expect([defaultOf('maxStreams'), defaultOf('maxDeviceStreams')]).toEqual([1_000, 16]);
  expect([defaultOf('failedRateLimit'), defaultOf('failedRateBurst')]).toEqual([10, 50]);
  expect(defaultQuotas).toMatchObject({
    tokens: 1_000,
    organizations: 100,
    groups: 10_000,
    devices: 100_000,
    enrollment_keys: 1_000,
    members: 10_000,
    selectors: 100_000,
    rules: 1_000_000,
    bytes: 256 * MiB,
    member_rules: 100_000,
    member_bytes: 32 * MiB,
    device_ranges: 50_000,
  });
});
