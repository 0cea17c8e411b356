/** Proves that canonical policies compare as different exactly where they differ. */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { canonicalPolicy } from '../nft/policies.fixture.ts';
import { samePolicy } from './same-policy.ts';

/** A copy without any shared object. Big numbers become text on the way, and numbers again. */
const copy = <T>(value: T): T => structuredClone(value);
const text = (value: unknown): string =>
  JSON.stringify(value, (_, each: unknown) => (typeof each === 'bigint' ? `${each}n` : each));

test('a policy is the same as its copy', () => {
  fc.assert(fc.property(canonicalPolicy, (policy) => samePolicy(policy, copy({ ...policy }))));
});

test('two policies are the same exactly if they are written the same', () => {
  fc.assert(
    fc.property(canonicalPolicy, canonicalPolicy, (a, b) => {
      expect(samePolicy(a, b)).toBe(text(a) === text(b));
      const mixed = { inbound: a.inbound, outbound: b.outbound };
      expect(samePolicy(a, mixed)).toBe(text(a.outbound) === text(b.outbound));
      expect(samePolicy(b, mixed)).toBe(text(a.inbound) === text(b.inbound));
    }),
  );
});
