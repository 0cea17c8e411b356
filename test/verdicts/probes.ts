/** Owns the choice of packets for a scenario: where its rules begin and end, one step inside and one step outside. */
import type { Packet, Transport } from '../../src/policy/packet.ts';
import type { Direction, Family, Protocol } from '../../src/policy/rule.ts';
import { plainShape, type Shape } from '../lib/probe-bytes.ts';
import { Random } from '../lib/random.ts';
import type { ProbeRequest } from '../lib/verdict-lab.ts';
import { canCarryProbe, highest, type DrawnRange } from './addresses.ts';
import { addressesNamed } from './naming.ts';
import { allGroups, type DrawnRule, type Scenario } from './scenario.ts';

/** ICMP types beside echo: errors, timestamps, address masks. */
const icmpTypes = [3, 4, 5, 11, 12, 13, 14, 17] as const;
/** ICMPv6 types beside echo: errors, multicast listeners, all of discovery and its neighbours in number. */
const icmpv6Types = [1, 2, 3, 4, 127, 130, 131, 132, 133, 134, 135, 136, 137, 143] as const;
/** IGMP, IP in IP, DCCP, GRE, ESP, OSPF, SCTP, UDP-Lite, experimental. */
const otherProtocols = [2, 4, 33, 41, 47, 50, 89, 132, 136, 253] as const;
/** SYN, SYN+ACK, ACK, RST, FIN+ACK, nothing, everything. */
const tcpFlags = [0x02, 0x02, 0x12, 0x10, 0x04, 0x11, 0x00, 0x3f] as const;

/** Large policies have more borders to look at. */
const packetsFor: Readonly<Record<Scenario['kind'], number>> = {
  mixed: 100,
  'untouched default': 100,
  'many ranges': 400,
  'many blocks': 200,
  'nested ports': 400,
  'tangled ports': 600,
};

export function drawProbes(scenario: Scenario): ProbeRequest[] {
  const random = new Random(scenario.seed ^ 0x5eed_cafe);
  // What a rule says by names is at borders too: each address of a device that it names.
  const spelledOut = (rule: DrawnRule): DrawnRule =>
    rule.peers === undefined
      ? rule
      : { ...rule, ranges: [...rule.ranges, ...addressesNamed(rule.peers, scenario.devices)] };
  const groups = allGroups(scenario);
  return random.many(packetsFor[scenario.kind], () => {
    const direction: Direction = random.chance(0.5) ? 'inbound' : 'outbound';
    const rules = groups.flatMap((group) => group[direction]);
    return drawProbe(random, direction, rules.map(spelledOut));
  });
}

function drawProbe(random: Random, direction: Direction, rules: readonly DrawnRule[]): ProbeRequest {
  const rule = rules.length > 0 && random.chance(0.85) ? random.pick(rules) : undefined;
  const other = rules.length > 0 ? random.pick(rules) : undefined;
  const { family, remote } = drawRemote(random, rule, other);
  const transport = drawTransport(random, family, rule, random.chance(0.75) ? rule : other);
  const hopLimit = transport.kind === 'icmpv6' ? { hopLimit: random.pick([255, 255, 1, 1, 64, 254]) } : {};
  const packet: Packet = { direction, family, remote, transport, ...hopLimit };
  return { packet, shape: drawShape(random, other) };
}

/** An address at a border of the rule; an address of another rule or of none where the rule names no address. */
function drawRemote(
  random: Random,
  rule: DrawnRule | undefined,
  other: DrawnRule | undefined,
): { family: Family; remote: bigint } {
  const family = rule === undefined ? random.pick<Family>([4, 6]) : likelyFamily(random, rule.protocol);
  for (let attempts = 0; attempts < 20; attempts++) {
    const ranges = [rule, rule, other].flatMap((each) => each?.ranges ?? []);
    const range = ranges.length > 0 && random.chance(0.92) ? random.pick(ranges) : undefined;
    const chosen =
      range === undefined ? { family, remote: random.big(family === 4 ? 32 : 128) } : atBorder(random, range);
    if (canCarryProbe(chosen.family, chosen.remote)) return chosen;
  }
  return { family: 4, remote: 0x0a00_0000n + BigInt(random.int(1, 1_000)) };
}

function likelyFamily(random: Random, protocol: Protocol): Family {
  if (random.chance(0.1)) return random.pick([4, 6]);
  if (protocol === 'ipv4' || protocol === 'icmp' || protocol === 'icmpv4') return 4;
  if (protocol === 'ipv6' || protocol === 'icmpv6') return 6;
  return random.pick([4, 6]);
}

/** First and last address, one step beyond each, somewhere inside; sometimes the same bits in the other family. */
function atBorder(random: Random, { family, first, last }: DrawnRange): { family: Family; remote: bigint } {
  const inside = first + (random.big(128) % (last - first + 1n));
  const remote = random.pick([first - 1n, first, last, last + 1n, inside, inside]);
  if (!random.chance(0.03)) return { family, remote };
  return family === 4 ? { family: 6, remote } : { family: 4, remote: remote & highest(4) };
}

const clampPort = (port: number): number => Math.min(65_535, Math.max(0, port));

function drawPort(random: Random, rule: DrawnRule | undefined): number {
  if (rule === undefined || rule.to === 0) return random.pick([0, 1, 22, 443, 65_535, random.int(0, 65_535)]);
  const { from, to } = rule;
  const inside = random.int(from, to);
  // Whole powers of two from either end: where masks and halvings have their seams.
  const stepped = random.chance(0.5) ? from + 2 ** random.int(0, 15) : to - 2 ** random.int(0, 15);
  const ends = [from, from, to, to, from - 1, to + 1] as const;
  return clampPort(random.pick([...ends, inside, inside, Math.min(to, Math.max(from, stepped)), stepped, 0, 65_535]));
}

/** Mostly what the rule speaks of, else its near misses. */
function drawTransport(
  random: Random,
  family: Family,
  rule: DrawnRule | undefined,
  portsOf: DrawnRule | undefined,
): Transport {
  const protocol =
    rule !== undefined && random.chance(0.7)
      ? rule.protocol
      : random.pick<Protocol | 'sctp'>(['tcp', 'udp', 'icmp', 'icmpv6', 'ip', 'sctp']);
  switch (protocol) {
    case 'tcp':
    case 'udp':
      return { kind: protocol, dport: drawPort(random, portsOf) };
    case 'icmp':
    case 'icmpv4':
    case 'icmpv6':
      return drawIcmp(random, family);
    case 'ipv4':
    case 'ipv6':
    case 'ip': {
      const kind = random.pick(['tcp', 'udp', 'tcp', 'udp', 'icmp', 'other'] as const);
      if (kind === 'icmp') return drawIcmp(random, family);
      if (kind === 'other') return { kind, protocol: random.pick(otherProtocols) };
      return { kind, dport: drawPort(random, portsOf) };
    }
    case 'sctp':
      return { kind: 'other', protocol: random.pick(otherProtocols) };
    default:
      return protocol satisfies never;
  }
}

/** Of the family, or (one in twelve) ICMP inside IPv6 and ICMPv6 inside IPv4, which are no echo to any rule. */
function drawIcmp(random: Random, family: Family): Transport {
  const own = random.chance(11 / 12);
  const echo = random.chance(0.7);
  if ((family === 4) === own) return { kind: 'icmp', type: echo ? random.pick([8, 0]) : random.pick(icmpTypes) };
  return { kind: 'icmpv6', type: echo ? random.pick([128, 129]) : random.pick(icmpv6Types) };
}

/** The source port is often one that a rule admits as destination: it must not count (reference 1.2 (5)). */
function drawShape(random: Random, other: DrawnRule | undefined): Shape {
  const admitted = other !== undefined && other.from > 0 ? other.from : 443;
  return {
    sport: random.chance(0.4) ? admitted : plainShape.sport + random.int(0, 9_999),
    flags: random.pick(tcpFlags),
    options: random.chance(0.12),
    fragmented: random.chance(0.06),
  };
}
