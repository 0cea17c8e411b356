/** Owns the verdict table: what a person expects of a policy, packet by packet. It goes through the oracle and through the kernel. */
import { readGroup } from '../../src/policy/group.ts';
import { parseGroupId } from '../../src/policy/ids.ts';
import type { EffectivePolicy } from '../../src/policy/effective.ts';
import type { Packet } from '../../src/policy/packet.ts';
import { defaultInboundRules, type Protocol, type SecurityRule } from '../../src/policy/rule.ts';
import type { Verdict } from '../lib/verdict-lab.ts';
import { from, to } from './packets.ts';

export interface WrittenGroup {
  readonly inbound: readonly SecurityRule[];
  readonly outbound?: readonly SecurityRule[];
}

export interface Chapter {
  readonly title: string;
  readonly groups: readonly WrittenGroup[];
  /** The interface does neighbour discovery. */
  readonly neighbourDiscovery?: boolean;
  readonly rows: readonly (readonly [sentence: string, packet: Packet, verdict: Verdict])[];
}

/** A rule in one line: `allow('tcp', 5432, '10.0.0.0/24')`, `allow('udp', [5000, 5010])`, `allow('icmp')`. */
export function allow(
  ip_protocol: Protocol,
  ports: number | readonly [number, number] = 0,
  ...ip_ranges: string[]
): SecurityRule {
  const [from_port, to_port] = typeof ports === 'number' ? [ports, ports] : ports;
  return { ip_protocol, from_port, to_port, ...(ip_ranges.length > 0 ? { ip_ranges } : {}) };
}

/** The policy that the groups make once they went through the handler's validation and normalization. */
export function policyOfGroups(groups: readonly WrittenGroup[]): EffectivePolicy {
  return {
    source: 'list',
    groups: groups.map(({ inbound, outbound = [] }, i) => {
      const name = `group ${i + 1}`;
      const { problems, group } = readGroup(
        { group_name: name, inbound_rules: inbound, outbound_rules: outbound },
        { mode: 'create' },
      );
      if (problems.length > 0) throw new Error(JSON.stringify(problems));
      const id = parseGroupId(`00000000-0000-4000-8000-${String(i + 1).padStart(12, '0')}`);
      return { id, name, inbound: group.inbound_rules ?? [], outbound: group.outbound_rules ?? [] };
    }),
  };
}

export const chapters: readonly Chapter[] = [
  {
    title: 'the default group as an organization gets it',
    groups: [{ inbound: defaultInboundRules }],
    rows: [
      ['anybody may connect', from('203.0.113.9').tcp(22), 'accept'],
      ['anybody may connect over IPv6', from('2001:db8::9').tcp(22), 'accept'],
      ['any protocol comes in', from('203.0.113.9').protocol(47), 'accept'],
      ['any ICMP type comes in', from('203.0.113.9').icmp(13), 'accept'],
      ['everything goes out', to('203.0.113.9').udp(53), 'accept'],
      ['every protocol goes out', to('2001:db8::9').protocol(132), 'accept'],
    ],
  },
  {
    title: 'a group without any rule',
    groups: [{ inbound: [] }],
    rows: [
      ['nobody may connect', from('10.0.0.1').tcp(22), 'drop'],
      ['nobody may ping', from('fd00::1').ping(), 'drop'],
      ['no other protocol comes in', from('10.0.0.1').protocol(47), 'drop'],
      ['everything goes out', to('10.0.0.1').tcp(22), 'accept'],
      ['every ping goes out', to('fd00::1').ping(), 'accept'],
    ],
  },
  {
    title: 'a database for two web servers and their operators',
    groups: [
      {
        inbound: [
          allow('tcp', 5432, '10.0.0.1', 'fd00:0:0:1::/64'),
          allow('tcp', 22, '192.168.7.0/24'),
          allow('icmp', 0, '10.0.0.0/8'),
        ],
      },
    ],
    rows: [
      ['web may reach db on 5432', from('10.0.0.1').tcp(5432), 'accept'],
      ['its neighbour may not', from('10.0.0.2').tcp(5432), 'drop'],
      ['web over IPv6 may', from('fd00:0:0:1::7').tcp(5432), 'accept'],
      ['the next IPv6 network may not', from('fd00:0:0:2::7').tcp(5432), 'drop'],
      ['web may not reach another port', from('10.0.0.1').tcp(5433), 'drop'],
      ['web may not use udp', from('10.0.0.1').udp(5432), 'drop'],
      ['web may not log in', from('10.0.0.1').tcp(22), 'drop'],
      ['an operator may log in', from('192.168.7.255').tcp(22), 'accept'],
      ['an operator may not reach the database', from('192.168.7.1').tcp(5432), 'drop'],
      ['web may ping', from('10.0.0.1').ping(), 'accept'],
      ['an operator may not ping', from('192.168.7.1').ping(), 'drop'],
      ['web may not ping over IPv6', from('fd00:0:0:1::7').ping(), 'drop'],
      ['a timestamp request is no ping', from('10.0.0.1').icmp(13), 'drop'],
    ],
  },
  {
    title: 'ports',
    groups: [
      {
        inbound: [
          allow('tcp', [8000, 8010]),
          allow('udp', 0, '10.0.0.0/24'),
          allow('tcp', 65_535),
          allow('udp', [1, 2]),
        ],
      },
    ],
    rows: [
      ['the port before a range is shut', from('10.0.0.1').tcp(7999), 'drop'],
      ['the first of a range is open', from('10.0.0.1').tcp(8000), 'accept'],
      ['the last of a range is open', from('fd00::1').tcp(8010), 'accept'],
      ['the port after a range is shut', from('10.0.0.1').tcp(8011), 'drop'],
      ['the highest port can be open by itself', from('10.0.0.1').tcp(65_535), 'accept'],
      ['the one below it is shut', from('10.0.0.1').tcp(65_534), 'drop'],
      ['any port means port 1', from('10.0.0.1').udp(1), 'accept'],
      ['any port means port 65535', from('10.0.0.1').udp(65_535), 'accept'],
      ['any port means even port 0', from('10.0.0.1').udp(0), 'accept'],
      ['a range from 1 does not mean port 0', from('192.0.2.1').udp(0), 'drop'],
      ['a range from 1 means port 1', from('192.0.2.1').udp(1), 'accept'],
    ],
  },
  {
    title: 'every protocol, by ip, ipv4 and ipv6',
    groups: [
      {
        inbound: [
          allow('ip', 0, '10.0.0.0/24', 'fd00::/64'),
          allow('ipv4', 443),
          allow('ip', 53, '198.51.100.0/25'),
          allow('ipv6', 0, '2001:db8::1-2001:db8::3'),
        ],
      },
    ],
    rows: [
      ['ip with ranges admits GRE', from('10.0.0.7').protocol(47), 'accept'],
      ['ip with ranges admits SCTP over IPv6', from('fd00::7').protocol(132), 'accept'],
      ['ip with ranges admits every ICMP type', from('10.0.0.7').icmp(13), 'accept'],
      ['others get nothing of it', from('10.0.1.7').protocol(47), 'drop'],
      ['ipv4 with a port admits tcp', from('203.0.113.1').tcp(443), 'accept'],
      ['ipv4 with a port admits udp', from('203.0.113.1').udp(443), 'accept'],
      ['ipv4 with a port admits no IPv6', from('2001:db9::1').tcp(443), 'drop'],
      ['ipv4 with a port admits no ping', from('203.0.113.1').ping(), 'drop'],
      ['ip with a port admits tcp', from('198.51.100.127').tcp(53), 'accept'],
      ['ip with a port admits udp', from('198.51.100.0').udp(53), 'accept'],
      ['ip with a port admits nobody beside its ranges', from('198.51.100.128').udp(53), 'drop'],
      ['ip with a port admits no SCTP', from('198.51.100.1').protocol(132), 'drop'],
      ['ipv6 with a range admits its last address', from('2001:db8::3').protocol(89), 'accept'],
      ['ipv6 with a range ends there', from('2001:db8::4').protocol(89), 'drop'],
    ],
  },
  {
    title: 'pings',
    groups: [
      {
        inbound: [allow('icmpv6'), allow('icmp', 0, '10.0.0.1', 'fd00::1')],
        outbound: [allow('icmpv4', 0, '10.0.0.1')],
      },
    ],
    rows: [
      ['icmpv6 admits echo requests', from('2001:db8::1').ping(), 'accept'],
      ['icmpv6 admits echo replies', from('2001:db8::1').pong(), 'accept'],
      ['icmpv6 admits no error that belongs to nothing', from('2001:db8::1').icmpv6(1), 'drop'],
      ['ICMPv6 inside IPv4 is no ping', from('10.0.0.1').icmpv6(128), 'drop'],
      ['ICMP inside IPv6 is no ping', from('fd00::1').icmp(8), 'drop'],
      ['icmp with a range admits that range', from('10.0.0.1').pong(), 'accept'],
      ['and nobody else', from('10.0.0.2').ping(), 'drop'],
      ['outbound, icmpv4 is icmp', to('10.0.0.1').ping(), 'accept'],
      ['outbound, no other ping leaves', to('fd00::1').ping(), 'drop'],
    ],
  },
  {
    title: 'outbound, closed by one allow rule',
    groups: [{ inbound: [], outbound: [allow('udp', 53, '9.9.9.9', '2620:fe::fe')] }],
    rows: [
      ['the resolver can be asked', to('9.9.9.9').udp(53), 'accept'],
      ['and over IPv6', to('2620:fe::fe').udp(53), 'accept'],
      ['not over tcp', to('9.9.9.9').tcp(53), 'drop'],
      ['no other resolver', to('9.9.9.10').udp(53), 'drop'],
      ['nothing else leaves', to('203.0.113.1').protocol(47), 'drop'],
      ['the resolver may not come in', from('9.9.9.9').udp(53), 'drop'],
    ],
  },
  {
    title: 'several groups',
    groups: [
      { inbound: [allow('tcp', [80, 90], '10.0.0.0/24')] },
      { inbound: [allow('tcp', [85, 95], '10.0.0.128-10.0.1.5')], outbound: [allow('tcp', 443)] },
      { inbound: [] },
    ],
    rows: [
      ['the first group counts', from('10.0.0.1').tcp(80), 'accept'],
      ['the second group counts', from('10.0.1.5').tcp(95), 'accept'],
      ['where they overlap, both do', from('10.0.0.200').tcp(88), 'accept'],
      ['ports of one do not mix with addresses of the other', from('10.0.0.1').tcp(95), 'drop'],
      ['nor the other way round', from('10.0.1.5').tcp(80), 'drop'],
      ['one group with an outbound rule closes outbound for all', to('10.0.0.1').tcp(80), 'drop'],
      ['that rule counts', to('10.0.0.1').tcp(443), 'accept'],
    ],
  },
  {
    title: 'the default group is replaced by a list, not added to',
    groups: [{ inbound: [allow('tcp', 22)] }],
    rows: [
      ['what the list admits passes', from('203.0.113.1').tcp(22), 'accept'],
      ['what only the default group admits does not', from('203.0.113.1').tcp(23), 'drop'],
    ],
  },
  {
    title: 'discovery on an interface that needs it',
    groups: [{ inbound: [], outbound: [allow('tcp', 1)] }],
    neighbourDiscovery: true,
    rows: [
      ['a neighbour may ask', from('fe80::2').icmpv6(135, 255), 'accept'],
      ['a neighbour may answer', from('fe80::2').icmpv6(136, 255), 'accept'],
      ['a router may announce itself', from('fe80::2').icmpv6(134, 255), 'accept'],
      ['the device may ask', to('fe80::2').icmpv6(135, 255), 'accept'],
      ['the device may solicit routers', to('fe80::2').icmpv6(133, 255), 'accept'],
      ['a router may ask for multicast listeners', from('fe80::2').icmpv6(130, 1), 'accept'],
      ['the device may report what it listens to', to('ff02::1:ff00:1').icmpv6(131, 1), 'accept'],
      ['the device may say that it listens no more', to('ff02::2').icmpv6(132, 1), 'accept'],
      ['the device may report it in the second version', to('ff02::16').icmpv6(143, 1), 'accept'],
      ['a neighbour may report it', from('fe80::2').icmpv6(143, 1), 'accept'],
      ['no report comes from beyond a router', from('2001:db8::1').icmpv6(143, 64), 'drop'],
      ['no query comes from beyond a router', from('2001:db8::1').icmpv6(130, 255), 'drop'],
      ['a neighbour with hop limit 1 is none', from('fe80::2').icmpv6(135, 1), 'drop'],
      ['nobody asks from beyond a router', from('2001:db8::1').icmpv6(135, 254), 'drop'],
      ['a redirect is no discovery', from('fe80::2').icmpv6(137, 255), 'drop'],
      ['a ping is no discovery', from('fe80::2').icmpv6(128, 255), 'drop'],
    ],
  },
  {
    title: 'discovery on a tunnel, which needs none',
    groups: [{ inbound: [], outbound: [allow('tcp', 1)] }],
    rows: [
      ['nobody asks', from('fe80::2').icmpv6(135, 255), 'drop'],
      ['the device does not ask', to('fe80::2').icmpv6(135, 255), 'drop'],
      ['nobody reports multicast listeners', from('fe80::2').icmpv6(143, 1), 'drop'],
    ],
  },
];
