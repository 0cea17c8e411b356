/** Proves that the digest tells policies apart that match other packets, and no others. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { packet as anyPacket, policy as anyPolicy } from '../arbitrary.fixture.ts';
import type { Addresses, CanonicalPolicy, DirectionPolicy, MatchSet, PortMap, TransportPolicy } from '../canonical.ts';
import { admits, canonicalize } from '../canonicalize.ts';
import type { EffectivePolicy } from '../effective.ts';
import { guardedPolicy } from '../fleet/fleet.fixture.ts';
import { Fleet } from '../fleet/fleet.ts';
import { resolvePolicy } from '../fleet/resolve.ts';
import { toTree } from '../port-tree.ts';
import type { PolicyGroup, StoredRule } from '../rule.ts';
import { policyDigest } from './digest.ts';

const guarded = guardedPolicy.map((policy) => resolvePolicy(policy, new Fleet()));

/** The same policy with every part made anew by `change`. */
function remade(
  policy: CanonicalPolicy,
  change: { readonly addresses?: (all: Addresses) => Addresses; readonly ports?: (ports: PortMap) => PortMap },
): CanonicalPolicy {
  const { addresses = (all) => all, ports: changePorts = (ports) => ports } = change;
  const transport = ({ anyPort, ports }: TransportPolicy): TransportPolicy => ({
    anyPort: addresses(anyPort),
    ports: changePorts(ports),
  });
  const matches = ({ any, echo, tcp, udp }: MatchSet): MatchSet => ({
    any: addresses(any),
    echo: addresses(echo),
    tcp: transport(tcp),
    udp: transport(udp),
  });
  const direction = ({ forbid, ...rest }: DirectionPolicy): DirectionPolicy => ({
    ...(rest.kind === 'open' ? rest : { kind: 'closed' as const, ...matches(rest) }),
    ...(forbid && { forbid: matches(forbid) }),
  });
  return { inbound: direction(policy.inbound), outbound: direction(policy.outbound) };
}

const uncounted = ({ v4, v6 }: Addresses): Addresses => ({ v4, v6 });
const asTree = (ports: PortMap): PortMap => {
  if (ports.kind === 'tree') return ports;
  const layers = toTree(ports.intervals, []);
  return layers.length === 0 ? ports : { kind: 'tree', layers };
};
/** Every interval cut in two, and one half of them in a layer of its own that overlaps. */
const inPieces = (ports: PortMap): PortMap => {
  if (ports.kind === 'tree' || ports.intervals.length === 0) return ports;
  const pieces = ports.intervals.flatMap(({ from, to, addresses }) =>
    from === to
      ? [{ from, to, addresses }]
      : [
          { from, to: from, addresses },
          { from: from + 1, to, addresses },
        ],
  );
  return { kind: 'tree', layers: [pieces, ports.intervals.filter((_, i) => i % 2 === 0)] };
};

const changeRules = (
  policy: EffectivePolicy,
  change: (rules: readonly StoredRule[]) => readonly StoredRule[],
): EffectivePolicy => {
  const all = (groups: readonly PolicyGroup[]): PolicyGroup[] =>
    groups.map((group) => ({ ...group, inbound: change(group.inbound), outbound: change(group.outbound) }));
  const { guardrails } = policy;
  return {
    ...policy,
    groups: all(policy.groups).toReversed(),
    ...(guardrails && { guardrails: { forbid: all(guardrails.forbid), require: all(guardrails.require) } }),
  };
};

describe('the digest', () => {
  it('is 64 hex digits, and stays what it was in earlier versions', () => {
    const policy = canonicalize({ source: 'list', groups: [] });
    expect(policyDigest(policy)).toMatch(/^[0-9a-f]{64}$/);
    expect(policyDigest(policy)).toMatchInlineSnapshot(
      `"a652ed5ed1b9e1f8a6bfd0ffe0b76e95590c828e66a5a81a6a97c8bbd1ea27ae"`,
    );
  });

  it('does not depend on who counts packets, nor on how ports were cut', () => {
    fc.assert(
      fc.property(fc.oneof(anyPolicy, guarded), (policy) => {
        const canonical = canonicalize(policy);
        const digest = policyDigest(canonical);
        expect(policyDigest(remade(canonical, { addresses: uncounted }))).toBe(digest);
        expect(policyDigest(remade(canonical, { ports: asTree }))).toBe(digest);
        expect(policyDigest(remade(canonical, { ports: inPieces }))).toBe(digest);
      }),
    );
  });

  it('does not depend on the order of groups and rules, nor on doubles', () => {
    fc.assert(
      fc.property(fc.oneof(anyPolicy, guarded), (policy) => {
        const other = changeRules(policy, (rules) => [...rules.toReversed(), ...rules]);
        expect(policyDigest(canonicalize(other))).toBe(policyDigest(canonicalize(policy)));
      }),
    );
  });

  it('differs wherever a packet is judged otherwise', () => {
    fc.assert(
      fc.property(
        fc.oneof(anyPolicy, guarded),
        fc.oneof(anyPolicy, guarded),
        fc.array(anyPacket, { maxLength: 30 }),
        (one, two, packets) => {
          const [a, b] = [canonicalize(one), canonicalize(two)];
          const differ = packets.some((packet) => admits(a, packet) !== admits(b, packet));
          if (differ) expect(policyDigest(a)).not.toBe(policyDigest(b));
        },
      ),
    );
  });

  it('tells a forbidden address from an admitted one, and each address from its neighbour', () => {
    const rule = (address: string): StoredRule => ({
      ip_protocol: 'tcp',
      from_port: 22,
      to_port: 22,
      ip_ranges: [address],
    });
    const group = (address: string): PolicyGroup => ({
      id: '0' as PolicyGroup['id'],
      name: '',
      inbound: [rule(address)],
      outbound: [],
    });
    const texts = [
      '10.0.0.1',
      '10.0.0.2',
      '10.0.0.1-10.0.0.2',
      '0.0.0.0/0',
      '255.255.255.255',
      '::a00:1',
      'fd00::1',
      '::/0',
    ];
    const plain = texts.map((text): EffectivePolicy => ({ source: 'list', groups: [group(text)] }));
    const forbids = texts.map((text): EffectivePolicy => ({
      source: 'list',
      groups: [],
      guardrails: { forbid: [group(text)], require: [] },
    }));
    const digests = [...plain, ...forbids].map((policy) => policyDigest(canonicalize(policy)));
    expect(new Set(digests).size).toBe(2 * texts.length);
  });
});
