/** Proves that the digest withstands an adversary who chooses the addresses and solves linear equations; a copy of form 1 is the control. */
import { expect, test } from 'vitest';
import { canonicalize } from '../canonicalize.ts';
import type { CanonicalPolicy } from '../canonical.ts';
import { policyDigest } from './digest.ts';
import { earlierDigest } from './earlier-digest.fixture.ts';
import { encodePolicy } from './encode.ts';
import { admitting, cancellingSubset, candidates, forgedHosts } from './forgery.fixture.ts';
import { sha256Hex } from './sha256.ts';

const everyProtocol = { ip_protocol: 'ipv4', from_port: 0, to_port: 0 } as const;
const ssh = { ip_protocol: 'tcp', from_port: 22, to_port: 22 } as const;

const policyOf = (hosts: readonly bigint[], rule: Parameters<typeof admitting>[1] = ssh): CanonicalPolicy =>
  canonicalize(admitting(hosts, rule));

test('whoever solves linear equations forges a digest of form 1, and the same policies have different digests now', () => {
  const hosts = forgedHosts();
  expect(hosts.length).toBeGreaterThan(1);
  const forged = [policyOf(hosts, everyProtocol), policyOf(hosts, ssh), policyOf([])];
  expect(new Set(forged.map(earlierDigest)).size).toBe(1);
  expect(new Set(forged.map(policyDigest)).size).toBe(3);
});

test.each<[string, (policy: CanonicalPolicy) => string]>([
  ['digests', policyDigest],
  ['digests of what is hashed, cut to 128 bits', (policy) => sha256Hex(encodePolicy(policy)).slice(0, 32)],
  ['what is hashed itself', (policy) => Buffer.from(encodePolicy(policy)).toString('hex')],
])('hosts whose contributions to %s cancel each other out are found, and forge nothing', (_, contribution) => {
  const nobody = BigInt(`0x${contribution(policyOf([]))}`);
  const vectors = candidates.map((host) => BigInt(`0x${contribution(policyOf([host]))}`) ^ nobody);
  const hosts = cancellingSubset(vectors).map((i) => candidates[i] ?? 0n);
  expect(hosts.length).toBeGreaterThan(1);
  for (const other of [[], hosts.slice(1), candidates.filter((host) => !hosts.includes(host))]) {
    expect(policyDigest(policyOf(hosts))).not.toBe(policyDigest(policyOf(other)));
  }
});
