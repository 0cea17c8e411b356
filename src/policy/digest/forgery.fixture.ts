/** Owns an adversary that solves linear equations: it looks for hosts whose contributions to a digest cancel each other out. */
import { printAddress } from '../address.ts';
import { parseGroupId } from '../ids.ts';
import type { EffectivePolicy } from '../effective.ts';
import type { StoredRule } from '../rule.ts';
import { setFingerprint } from './earlier-digest.fixture.ts';

/** Hosts that the adversary may choose from, no two of them neighbours. */
export const candidates: readonly bigint[] = Array.from({ length: 320 }, (_, i) => 0x0a00_0000n + 2n * BigInt(i));

/** A policy that admits the hosts by one rule inbound. */
export const admitting = (
  hosts: readonly bigint[],
  rule: Pick<StoredRule, 'ip_protocol' | 'from_port' | 'to_port'>,
): EffectivePolicy => ({
  source: 'list',
  groups: [
    {
      id: parseGroupId('00000000-0000-4000-8000-000000000001'),
      name: 'forged',
      inbound: hosts.length === 0 ? [] : [{ ...rule, ip_ranges: hosts.map((host) => printAddress(4, host)) }],
      outbound: [],
    },
  ],
});

/** Gaussian elimination over GF(2): the first subset of the vectors whose XOR is zero; there is one where vectors outnumber bits. */
export function cancellingSubset(vectors: readonly bigint[]): readonly number[] {
  /** By highest bit: a combination of vectors, and which ones it is made of. */
  const rows = new Map<number, { readonly vector: bigint; readonly made: bigint }>();
  for (const [i, given] of vectors.entries()) {
    let [vector, made] = [given, 1n << BigInt(i)];
    while (vector !== 0n) {
      const height = vector.toString(2).length;
      const row = rows.get(height);
      if (row === undefined) {
        rows.set(height, { vector, made });
        break;
      }
      vector ^= row.vector;
      made ^= row.made;
    }
    if (vector === 0n) return vectors.flatMap((_, k) => ((made >> BigInt(k)) & 1n ? [k] : []));
  }
  return [];
}

/** Hosts that add nothing to a digest of form 1, whatever protocol and port they are admitted on. */
export function forgedHosts(): readonly bigint[] {
  const vectors = candidates.map((host) =>
    setFingerprint(4, [{ first: host, last: host }]).reduce((sum, lane) => (sum << 32n) | BigInt(lane >>> 0), 0n),
  );
  return cancellingSubset(vectors).map((i) => candidates[i] ?? 0n);
}
