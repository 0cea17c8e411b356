/** Owns the number of anonymous sets that a policy may use: the kernel's time for them grows quadratically. */
import type {
  Addresses,
  CanonicalPolicy,
  DirectionPolicy,
  MatchSet,
  PortNode,
  TransportPolicy,
} from '../../policy/canonical.ts';

/** The kernel walks through all sets of a table for each new one: 2,000 take it a third of a second, 10,000 fourteen. */
export const mostSetsByDefault = 2_000;

type Lists = Pick<Addresses, 'v4' | 'v6'>;

const matchSetsOf = (direction: DirectionPolicy): readonly MatchSet[] => [
  ...(direction.forbid === undefined ? [] : [direction.forbid]),
  ...(direction.kind === 'open' ? [] : [direction]),
];

function* addressesOf(policy: CanonicalPolicy): Iterable<Addresses | Extract<PortNode, { readonly shares: unknown }>> {
  for (const matches of [policy.inbound, policy.outbound].flatMap(matchSetsOf)) {
    yield matches.any;
    yield matches.echo;
    for (const { anyPort, ports } of [matches.tcp, matches.udp] satisfies readonly TransportPolicy[]) {
      yield anyPort;
      const nodes: readonly PortNode[] = ports.kind === 'intervals' ? ports.intervals : ports.layers.flat();
      for (const node of nodes) yield 'addresses' in node ? node.addresses : node;
    }
  }
}

/**
 * Lists of up to this many ranges become a rule for each range instead of a set: 1 unless there would be too many sets.
 * Of all the ranges that a device may name, so few stand in long lists that the sets which are left fit in.
 */
export function longestWithoutSet(policy: CanonicalPolicy, mostSets = mostSetsByDefault): number {
  const seen = new Set<object>();
  const byLength = new Map<number, number>();
  let sets = 0;
  const count = ({ v4, v6 }: Lists): void => {
    for (const { length } of [v4, v6]) {
      if (length < 2) continue;
      byLength.set(length, (byLength.get(length) ?? 0) + 1);
      sets += 1;
    }
  };
  for (const addresses of addressesOf(policy)) {
    if (seen.has(addresses)) continue;
    seen.add(addresses);
    for (const share of addresses.shares ?? [addresses as Addresses]) count(share);
  }
  let longest = 1;
  for (const [length, lists] of [...byLength].toSorted(([a], [b]) => a - b)) {
    if (sets <= mostSets) break;
    longest = length;
    sets -= lists;
  }
  return longest;
}
