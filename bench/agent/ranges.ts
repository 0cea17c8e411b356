/** Owns policies of any size: address ranges spread over a hundred ports, as a large site has them. */
import { policyOf, written } from '../../src/nft/policies.fixture.ts';
import type { CanonicalPolicy } from '../../src/policy/canonical.ts';

export const ports = 100;
export const firstPort = 1_000;
/** Every range begins a block of 64 addresses and fills about half of it, so that none melts into the next. */
const block = 64;

const text = (address: number): string => [24, 16, 8, 0].map((shift) => String((address >>> shift) & 255)).join('.');

/** The first address of range `i`. */
export const rangeStart = (i: number): number => (10 << 24) + i * block;

/** `alike`: all are prefixes of one length. `mixed`: they are of several sizes, and most are no prefixes. */
export type Shape = 'alike' | 'mixed';

function rangeText(i: number, shape: Shape): string {
  const start = rangeStart(i);
  return shape === 'alike' ? `${text(start)}/27` : `${text(start)}-${text(start + 31 + (i % 5))}`;
}

/** `count` ranges; another `variant` differs in one range. */
export function policyOfSize(count: number, variant = 0, shape: Shape = 'alike'): CanonicalPolicy {
  const used = Math.min(ports, count);
  const rules = Array.from({ length: used }, (_, port) => {
    const ranges: string[] = [];
    for (let i = port; i < count; i += used) ranges.push(rangeText(i, shape));
    if (port === 0 && variant > 0) ranges.push(`172.16.${variant & 255}.0/24`);
    return written('tcp', firstPort + port, firstPort + port, ...ranges);
  });
  return policyOf(rules);
}
