/** Proves that the digest differs for policies that match different packets, and only for those. */
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
import { decodePolicy } from './decode.fixture.ts';
import { digestForm } from './digest-form.ts';
import { policyDigest } from './digest.ts';
import { encodePolicy } from './encode.ts';

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
  it('is 64 hex digits, and stays what it was in earlier versions of the same form', () => {
    const policy = canonicalize({ source: 'list', groups: [] });
    expect(policyDigest(policy)).toMatch(/^[0-9a-f]{64}$/);
    expect(digestForm).toBe(2);
    expect(policyDigest(policy)).toMatchInlineSnapshot(
      `"5b0879da71796c68d4491a30b8171a2bb34f4be7ef770d6c5a27a14af3b0d549"`,
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

  it('is made of bytes from which every verdict can be read again', () => {
    fc.assert(
      fc.property(fc.oneof(anyPolicy, guarded), fc.array(anyPacket, { maxLength: 30 }), (policy, packets) => {
        const canonical = canonicalize(policy);
        const decoded = decodePolicy(encodePolicy(canonical));
        expect(packets.map(decoded)).toEqual(packets.map((packet) => admits(canonical, packet)));
      }),
    );
  });

  it('does not depend on what is matched twice: on some ports what is matched on all, or by one protocol what is matched by every one', () => {
    const rule = (ip_protocol: StoredRule['ip_protocol'], port: number, range: string): StoredRule => ({
      ip_protocol,
      from_port: port,
      to_port: port,
      ip_ranges: [range],
    });
    const digestOf = (...inbound: StoredRule[]): string =>
      policyDigest(
        canonicalize({ source: 'list', groups: [{ id: '0' as PolicyGroup['id'], name: '', inbound, outbound: [] }] }),
      );
    const all = rule('ipv4', 0, '10.0.0.0/8');
    const twice = [rule('tcp', 22, '10.1.0.0/16'), rule('icmp', 0, '10.2.0.1'), rule('udp', 0, '10.0.0.0/9')];
    expect(digestOf(all, ...twice)).toBe(digestOf(all));
    expect(digestOf(rule('tcp', 0, '10.0.0.1'), rule('tcp', 22, '10.0.0.1'))).toBe(
      digestOf(rule('tcp', 0, '10.0.0.1')),
    );
    expect(digestOf(...twice)).not.toBe(digestOf(all, ...twice));
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
