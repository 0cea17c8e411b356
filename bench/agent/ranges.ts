/** Owns policies of any size: address ranges spread over a hundred ports, as a large site has them. */
import { policyOf, written } from '../../src/nft/policies.fixture.ts';
import type { CanonicalPolicy } from '../../src/policy/canonical.ts';

export const ports = 100;
export const firstPort = 1_000;
/** Every range is half of a block of 64 addresses, so that none melts into the next. */
const block = 64;

const text = (address: number): string => [24, 16, 8, 0].map((shift) => String((address >>> shift) & 255)).join('.');

/** The first address of range `i`. */
export const rangeStart = (i: number): number => (10 << 24) + i * block;

/** `count` ranges; another `variant` differs in one range. */
export function policyOfSize(count: number, variant = 0): CanonicalPolicy {
  const used = Math.min(ports, count);
  const rules = Array.from({ length: used }, (_, port) => {
    const ranges: string[] = [];
    for (let i = port; i < count; i += used) ranges.push(`${text(rangeStart(i))}/27`);
    if (port === 0 && variant > 0) ranges.push(`172.16.${variant & 255}.0/24`);
    return written('tcp', firstPort + port, firstPort + port, ...ranges);
  });
  return policyOf(rules);
}
