/** Owns the measure of a mix of packets: how often each kind met each verdict, so that no comparison is an empty one. */
import type { Packet } from '../../src/policy/packet.ts';
import type { Verdict } from '../lib/verdict-lab.ts';

export type Tally = ReadonlyMap<string, Readonly<Record<Verdict, number>>>;

const kindOf = ({ direction, family, transport }: Packet): string => `${direction} IPv${family} ${transport.kind}`;

/** How often each kind of packet was accepted and dropped. */
export function tally(judged: Iterable<{ readonly packet: Packet; readonly verdict: Verdict }>): Tally {
  const counts = new Map<string, { accept: number; drop: number }>();
  for (const { packet, verdict } of judged) {
    const kind = kindOf(packet);
    const count = counts.get(kind) ?? { accept: 0, drop: 0 };
    count[verdict] += 1;
    counts.set(kind, count);
  }
  return counts;
}

/** Every direction, family and transport, ICMP inside the wrong family included. */
const wanted = ['inbound', 'outbound'].flatMap((direction) =>
  ['IPv4', 'IPv6'].flatMap((family) =>
    ['tcp', 'udp', 'icmp', 'icmpv6', 'other'].map((kind) => `${direction} ${family} ${kind}`),
  ),
);

/** The kinds that met either verdict less often than `least`. */
export function tooFew(counts: Tally, least: number): string[] {
  return wanted.flatMap((kind) => {
    const { accept, drop } = counts.get(kind) ?? { accept: 0, drop: 0 };
    return accept < least || drop < least ? [`${kind}: ${accept} accepted, ${drop} dropped`] : [];
  });
}
