/** Owns the sweep over addresses: what rules match at each address, in ascending order, in one form per meaning. */
import type { Addresses, MatchSet, PortMap } from '../canonical.ts';
import { UnresolvedPeers } from '../match.ts';
import { lastAddress, wholeFamily, type Range } from '../range.ts';
import type { Family } from '../rule.ts';
import { noPorts, portCount, PortRanges, PortUnion, type PortSets } from './port-sets.ts';

type Subject = 'any' | 'echo' | 'tcp' | 'udp';

/** What is matched of an address: a subject, and the place of its ports among all port ranges. */
export interface Match {
  readonly subject: Subject;
  readonly ports: number;
}

/** Addresses that begin or end to be matched here. */
interface Border extends Match {
  readonly at: bigint;
  readonly begins: boolean;
}

const byAddress = (a: Border, b: Border): number => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0);

export const everything: MatchSet = (() => {
  const none: Addresses = { v4: [], v6: [] };
  const nowhere = { anyPort: none, ports: { kind: 'intervals', intervals: [] } } as const;
  return { any: { v4: wholeFamily(4), v6: wholeFamily(6) }, echo: none, tcp: nowhere, udp: nowhere };
})();

/** Rules about both protocols are one object: the ports of one are those of the other. */
const isAlike = ({ tcp, udp }: MatchSet): boolean => udp.anyPort === tcp.anyPort && udp.ports === tcp.ports;

/** The borders of one family, ascending. Those of UDP are left out where they are TCP's. */
function bordersOf(part: MatchSet, family: Family, portRanges: PortRanges): readonly Border[] {
  const { any, echo, tcp, udp } = part;
  const borders: Border[] = [];
  const addRange = (subject: Subject, { first, last }: Range, ports: number): void => {
    borders.push({ at: first, subject, ports, begins: true }, { at: last + 1n, subject, ports, begins: false });
  };
  const add = (subject: Subject, addresses: Addresses, from = 0, to = portCount - 1): void => {
    if (addresses.names !== undefined) throw new UnresolvedPeers();
    const ports = portRanges.placeOf(from, to);
    for (const range of family === 4 ? addresses.v4 : addresses.v6) addRange(subject, range, ports);
  };
  const addPorts = (subject: Subject, ports: PortMap): void => {
    const layers = ports.kind === 'intervals' ? [ports.intervals] : ports.layers;
    for (const node of layers.flat()) {
      if ('addresses' in node) {
        add(subject, node.addresses, node.from, node.to);
        continue;
      }
      if (node.names !== undefined) throw new UnresolvedPeers();
      for (const share of node.shares) {
        for (const range of family === 4 ? share.v4 : share.v6) {
          addRange(subject, range, portRanges.placeOf(range.from, range.to));
        }
      }
    }
  };
  add('any', any);
  add('echo', echo);
  add('tcp', tcp.anyPort);
  addPorts('tcp', tcp.ports);
  if (!isAlike(part)) {
    add('udp', udp.anyPort);
    addPorts('udp', udp.ports);
  }
  return borders.toSorted(byAddress);
}

/** What is matched at the address that a sweep has reached. */
export class Matched {
  #any = 0;
  #echo = 0;
  readonly #tcp: PortUnion;
  readonly #udp: PortUnion;

  constructor(sets: PortSets, ranges: PortRanges, oneUnion: boolean) {
    this.#tcp = new PortUnion(sets, ranges);
    this.#udp = oneUnion ? this.#tcp : new PortUnion(sets, ranges);
  }

  pass({ subject, ports }: Match, begins: boolean): void {
    const by = begins ? 1 : -1;
    if (subject === 'any') this.#any += by;
    else if (subject === 'echo') this.#echo += by;
    else (subject === 'tcp' ? this.#tcp : this.#udp).change(ports, by);
  }

  /** Where every protocol is matched, nothing else says more. */
  get state(): State {
    if (this.#any > 0) return [2, noPorts, noPorts];
    return [this.#echo > 0 ? 1 : 0, this.#tcp.number, this.#udp.number];
  }
}

/** What is matched from an address on: 2 for every protocol, else 1 or 0 for echo; and the numbers of TCP and UDP ports. */
export type State = readonly [kind: number, tcp: number, udp: number];
export const nothing: State = [0, noPorts, noPorts];
export const isSameState = (a: State, b: State): boolean => a[0] === b[0] && a[1] === b[1] && a[2] === b[2];

/**
 * Calls `tell` for every address at which the match changes, in ascending order. Before the first one nothing matches.
 * Port sets are numbers of `sets`.
 */
export function sweepAddresses(
  part: MatchSet,
  family: Family,
  sets: PortSets,
  tell: (at: bigint, state: State) => void,
): void {
  const ranges = new PortRanges();
  const borders = bordersOf(part, family, ranges);
  const matched = new Matched(sets, ranges, isAlike(part));
  const end = lastAddress(family);
  let before = nothing;
  // By index, and without closures: this runs for every range.
  for (let i = 0; i < borders.length; i += 1) {
    const border = borders[i] as Border;
    if (border.at > end) break;
    matched.pass(border, border.begins);
    if (borders[i + 1]?.at === border.at) continue;
    const { state } = matched;
    if (isSameState(state, before)) continue;
    before = state;
    tell(border.at, state);
  }
}
