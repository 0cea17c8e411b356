/** Proves the oracle on a readable table, and the canonical form against it on random policies. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { rounds } from '../../test/lib/thorough.ts';
import { parseAddress } from './address.ts';
import { packet as anyPacket, policy as anyPolicy } from './arbitrary.fixture.ts';
import { admits, canonicalize } from './canonicalize.ts';
import { admittingRules, decide, decidingRules } from './decide.ts';
import { effectivePolicy, type EffectivePolicy } from './effective.ts';
import { parseGroupId } from './ids.ts';
import { normalizeRules } from './normalize.ts';
import type { Packet, Transport } from './packet.ts';
import { lastAddress } from './range.ts';
import {
  defaultInboundRules,
  defaultOutboundRules,
  type Direction,
  type PolicyGroup,
  type SecurityRule,
} from './rule.ts';

const id = (n: number): PolicyGroup['id'] => parseGroupId(`00000000-0000-4000-8000-${String(n).padStart(12, '0')}`);
const group = (n: number, inbound: SecurityRule[], outbound: SecurityRule[] = []): PolicyGroup => ({
  id: id(n),
  name: `group ${n}`,
  inbound: normalizeRules(inbound),
  outbound: normalizeRules(outbound),
});
const list = (...groups: PolicyGroup[]): EffectivePolicy => ({ source: 'list', groups });
const rule = (
  ip_protocol: SecurityRule['ip_protocol'],
  from_port = 0,
  to_port = from_port,
  ...ip_ranges: string[]
): SecurityRule => ({
  ip_protocol,
  from_port,
  to_port,
  ip_ranges,
});
const packet = (direction: Direction, remote: string, transport: Transport, state: Packet['state'] = 'new'): Packet => {
  const address = parseAddress(remote);
  if ('fault' in address) throw new Error(remote);
  return { direction, family: address.family, remote: address.value, transport, state };
};
const from = (remote: string, transport: Transport): Packet => packet('inbound', remote, transport);
const to = (remote: string, transport: Transport): Packet => packet('outbound', remote, transport);
const tcp = (dport: number): Transport => ({ kind: 'tcp', dport });
const udp = (dport: number): Transport => ({ kind: 'udp', dport });
const ping: Transport = { kind: 'icmp', type: 8 };
const ping6: Transport = { kind: 'icmpv6', type: 128 };
const gre: Transport = { kind: 'other', protocol: 47 };

const defaults: EffectivePolicy = {
  source: 'default',
  groups: [{ id: id(1), name: 'default', inbound: defaultInboundRules, outbound: defaultOutboundRules }],
};
const web = list(
  group(
    2,
    [rule('tcp', 443, 443, '10.0.0.0/8', 'fd00::/8'), rule('icmp')],
    [rule('udp', 53), rule('ipv4', 0, 0, '10.9.0.0-10.9.0.5')],
  ),
);
const empty = list(group(3, []));

describe('decide', () => {
  it.each<[string, EffectivePolicy, Packet, 'accept' | 'drop']>([
    ['the default group admits tcp', defaults, from('8.8.8.8', tcp(22)), 'accept'],
    ['the default group admits IPv6 of any protocol', defaults, from('fd00::1', gre), 'accept'],
    ['the default group lets everything out', defaults, to('8.8.8.8', gre), 'accept'],
    ['an empty group admits nothing', empty, from('10.0.0.1', tcp(443)), 'drop'],
    ['an empty group lets everything out', empty, to('10.0.0.1', tcp(443)), 'accept'],
    ['a rule admits its port from its range', web, from('10.1.2.3', tcp(443)), 'accept'],
    ['… and of the other family', web, from('fd12::1', tcp(443)), 'accept'],
    ['not another port', web, from('10.1.2.3', tcp(444)), 'drop'],
    ['not another protocol on that port', web, from('10.1.2.3', udp(443)), 'drop'],
    ['not from outside the range', web, from('11.0.0.0', tcp(443)), 'drop'],
    ['icmp admits an IPv4 ping', web, from('1.1.1.1', ping), 'accept'],
    ['icmp admits an echo reply', web, from('1.1.1.1', { kind: 'icmp', type: 0 }), 'accept'],
    ['icmp admits no other type', web, from('1.1.1.1', { kind: 'icmp', type: 13 }), 'drop'],
    ['icmp admits no IPv6 ping', web, from('fd00::1', ping6), 'drop'],
    ['an outbound rule admits its port to anybody', web, to('9.9.9.9', udp(53)), 'accept'],
    ['… and to anybody of IPv6', web, to('2001:db8::1', udp(53)), 'accept'],
    ['an outbound rule closes the rest', web, to('9.9.9.9', udp(54)), 'drop'],
    ['ipv4 without ports is every protocol', web, to('10.9.0.5', gre), 'accept'],
    ['… of its range', web, to('10.9.0.6', gre), 'drop'],
    ['an established connection passes', empty, packet('inbound', '1.2.3.4', tcp(9), 'established'), 'accept'],
    ['a related error passes', empty, packet('inbound', '1.2.3.4', { kind: 'icmp', type: 3 }, 'related'), 'accept'],
    ['replies pass a closed outbound', web, packet('outbound', '1.2.3.4', tcp(50000), 'established'), 'accept'],
  ])('%s', (_name, policy, probe, verdict) => {
    expect(decide(policy, probe).verdict).toBe(verdict);
    expect(admits(canonicalize(policy), probe)).toBe(verdict === 'accept');
  });

  it('names the rule and the group that admitted a packet', () => {
    const policy = list(group(4, [rule('tcp', 1)]), group(5, [rule('udp', 1), rule('tcp', 22)]));
    const { reason } = decide(policy, from('10.0.0.1', tcp(22)));
    expect(reason).toMatchObject({ kind: 'rule', group: { id: id(5) }, direction: 'inbound', index: 1 });
    expect(decide(policy, from('10.0.0.1', tcp(23))).reason).toEqual({ kind: 'no-rule' });
    expect(decide(policy, to('10.0.0.1', tcp(23))).reason).toEqual({ kind: 'open' });
    expect(admittingRules(list(group(6, [rule('tcp'), rule('tcp', 5)])), from('1.1.1.1', tcp(5)))).toHaveLength(2);
  });

  it('admits neighbour discovery where the interface needs it, and only with hop limit 255', () => {
    const solicit = { ...from('fe80::1', { kind: 'icmpv6', type: 135 }), hopLimit: 255 };
    expect(decide(empty, solicit, { neighbourDiscovery: true }).reason).toEqual({ kind: 'discovery' });
    expect(decide(empty, { ...solicit, hopLimit: 254 }, { neighbourDiscovery: true }).verdict).toBe('drop');
    expect(decide(empty, solicit).verdict).toBe('drop');
  });

  it.each([130, 131, 132, 143])('admits multicast listener discovery alike, type %i, only with hop limit 1', (type) => {
    const needed = { neighbourDiscovery: true };
    for (const message of [from('fe80::1', { kind: 'icmpv6', type }), to('ff02::16', { kind: 'icmpv6', type })]) {
      const closed = list(group(9, [], [rule('tcp', 443)]));
      expect(decide(closed, { ...message, hopLimit: 1 }, needed).reason).toEqual({ kind: 'discovery' });
      expect(decide(closed, { ...message, hopLimit: 2 }, needed).verdict).toBe('drop');
      expect(decide(closed, { ...message, hopLimit: 1 }).verdict).toBe('drop');
    }
  });

  it('closes outbound as soon as one of several groups has an outbound rule: groups are one merged set', () => {
    const policy = list(group(7, []), group(8, [], [rule('tcp', 443)]));
    expect(decide(policy, to('1.1.1.1', tcp(443))).verdict).toBe('accept');
    expect(decide(policy, to('1.1.1.1', tcp(80))).verdict).toBe('drop');
  });
});

describe('decidingRules', () => {
  it('has the verdict of `decide`, and every rule without all of which the verdict would be another', () => {
    fc.assert(
      fc.property(
        anyPolicy,
        fc.array(anyPolicy, { maxLength: 2 }),
        fc.array(anyPolicy, { maxLength: 2 }),
        fc.array(anyPacket, { maxLength: 20 }),
        (policy, forbid, require, packets) => {
          const guardrails = {
            forbid: forbid.flatMap(({ groups }) => groups),
            require: require.flatMap(({ groups }) => groups),
          };
          const whole = { ...policy, guardrails };
          for (const given of packets) {
            const one = { ...given, state: 'new' as const };
            const { verdict, reason } = decide(whole, one);
            const found = decidingRules(whole, one);
            expect(found.verdict).toBe(verdict);
            expect(found.rules.length > 0).toBe('rule' in reason);
            if (!('rule' in reason)) continue;
            expect(found.rules.map(({ rule: decides }) => decides)).toContain(reason.rule);
            const gone = new Set(found.rules.map(({ rule: decides }) => decides));
            // The direction stays closed.
            const without = ({ inbound, outbound, ...rest }: PolicyGroup): PolicyGroup => ({
              ...rest,
              inbound: inbound.map((kept) => (gone.has(kept) ? { ...kept, expired: true as const } : kept)),
              outbound: outbound.map((kept) => (gone.has(kept) ? { ...kept, expired: true as const } : kept)),
            });
            const left = decide(
              {
                ...whole,
                groups: whole.groups.map(without),
                guardrails: { forbid: guardrails.forbid.map(without), require: guardrails.require.map(without) },
              },
              one,
            );
            expect(left.reason).not.toEqual(reason);
            if (reason.kind !== 'forbid') expect(left.verdict).toBe('drop');
            else expect(left.reason.kind).not.toBe('forbid');
          }
        },
      ),
      { numRuns: rounds(200, 2_000) },
    );
  });
});

describe('effectivePolicy', () => {
  const own = group(9, []);
  const fallback = defaults.groups[0];
  const find = (wanted: string): PolicyGroup | undefined => (wanted === own.id ? own : undefined);

  it('is the default group while the list is empty', () => {
    expect(effectivePolicy({ list: [], find, defaultGroup: fallback })).toEqual(defaults);
  });
  it('is the list instead of the default group, not beside it', () => {
    expect(effectivePolicy({ list: [own.id, own.id], find, defaultGroup: fallback })).toEqual(list(own));
  });
  it('is not known while a group is missing: never the default, never empty', () => {
    expect(effectivePolicy({ list: [own.id, id(99)], find, defaultGroup: fallback })).toEqual({ missing: [id(99)] });
    expect(effectivePolicy({ list: [], find, defaultGroup: undefined })).toEqual({ missing: 'default' });
  });
});

describe('the canonical form', () => {
  it('admits exactly what the rules admit', () => {
    fc.assert(
      fc.property(
        anyPolicy,
        fc.array(anyPacket, { minLength: 20, maxLength: 20 }),
        fc.boolean(),
        (policy, packets, neighbourDiscovery) => {
          const canonical = canonicalize(policy);
          const differing = packets.filter(
            (probe) =>
              admits(canonical, probe, { neighbourDiscovery }) !==
              (decide(policy, probe, { neighbourDiscovery }).verdict === 'accept'),
          );
          expect(differing).toEqual([]);
        },
      ),
      { numRuns: rounds(250, 2_000) },
    );
  });

  it('does not depend on the order of rules, on doubles, or on how they are dealt out: union is commutative', () => {
    fc.assert(
      fc.property(anyPolicy, (policy) => {
        const one = {
          id: id(1),
          name: 'one',
          inbound: policy.groups.flatMap((g) => g.inbound),
          outbound: policy.groups.flatMap((g) => g.outbound),
        };
        const canonical = canonicalize(list(one));
        const reversed = { ...one, inbound: one.inbound.toReversed(), outbound: one.outbound.toReversed() };
        expect(canonicalize(list(reversed))).toEqual(canonical);
        expect(canonicalize(list(one, reversed))).toEqual(canonical);
        const dealt = policy.groups.map((each) => ({ ...each, id: id(1) }));
        if (dealt.length > 0) expect(canonicalize(list(...dealt))).toEqual(canonical);
        expect(canonicalize(list(...policy.groups, ...policy.groups))).toEqual(canonicalize(policy));
      }),
      { numRuns: rounds(100, 500) },
    );
  });

  it('knows that the default group admits everything', () => {
    const whole = { v4: [{ first: 0n, last: lastAddress(4) }], v6: [{ first: 0n, last: lastAddress(6) }] };
    const none = { anyPort: { v4: [], v6: [] }, ports: { kind: 'intervals', intervals: [] } };
    expect(canonicalize(defaults)).toEqual({
      inbound: { kind: 'closed', any: whole, echo: { v4: [], v6: [] }, tcp: none, udp: none },
      outbound: { kind: 'open' },
    });
  });
});
