/** Owns the choice of forwarded packets for a scenario: what is redirected, translated or only routed, at the borders of its rules. */
import type { Packet, Transport } from '../../src/policy/packet.ts';
import type { Family } from '../../src/policy/rule.ts';
import { plainShape } from '../lib/probe-bytes.ts';
import { Random } from '../lib/random.ts';
import type { ProbeRequest } from '../lib/verdict-lab.ts';
import { drawProbes } from './probes.ts';
import type { Scenario } from './scenario.ts';

/** ESP, OSPF, experimental: connection tracking makes nothing of their content, so that any bytes will do. */
const otherProtocols = [50, 89, 253] as const;

/** What no router passes on, and what lies on the lab's own networks. */
function isForwardable(family: Family, remote: bigint): boolean {
  if (family === 4) {
    const first = remote >> 24n;
    const network = remote >> 8n;
    return first > 0n && first !== 127n && first < 224n && network !== 0x6440_00n && network !== 0x0a58_00n;
  }
  const top = remote >> 112n;
  const isOwn = remote >> 64n === 0xfd7f_0000_0000_0000n || remote >> 64n === 0xfd88_0000_0000_0000n;
  return remote >> 96n !== 0n && !isOwn && (top & 0xffc0n) !== 0xfe80n && top >> 8n !== 0xffn;
}

/** Connections only: what tracking takes for no beginning of one is not translated, and so only routed. */
function asConnection(random: Random, family: Family, transport: Transport): Transport {
  if (transport.kind === 'tcp' || transport.kind === 'udp') return transport;
  if (transport.kind === 'other') return { kind: 'other', protocol: random.pick(otherProtocols) };
  return family === 4 ? { kind: 'icmp', type: 8 } : { kind: 'icmpv6', type: 128 };
}

/** The scenario's packets as connections that the device forwards, some of them without any translation. */
export function drawForwarded(scenario: Scenario): ProbeRequest[] {
  const random = new Random(scenario.seed ^ 0x0f04_a4de);
  return drawProbes(scenario).flatMap(({ packet, shape = plainShape }): ProbeRequest[] => {
    const { direction, family, remote, transport } = packet;
    if (!isForwardable(family, remote)) return [];
    const judged = direction === 'inbound' ? 'redirected' : 'translated';
    const forwarded: Packet['forwarded'] = random.chance(0.1) ? 'routed' : judged;
    const connection = asConnection(random, family, transport);
    return [
      {
        packet: { direction, family, remote, transport: connection, forwarded },
        shape: { ...plainShape, sport: shape.sport === 0 ? 1 : shape.sport },
      },
    ];
  });
}
