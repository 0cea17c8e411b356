/**
 * Owns the bytes that a policy is digested from. They depend on what the policy matches and on nothing else, and what it
 * matches can be read from them again: policies that differ for any packet have different bytes.
 *
 * Every number has four bytes, highest first. The order is: `digestForm`; then for inbound and outbound, what is admitted
 * and what is forbidden, each for IPv4 and IPv6, one list of steps; then the list of port sets. Each list begins with its
 * length. A step is an address (4 or 16 bytes) and what is matched from there up to the next step: 2 for every protocol,
 * else 1 or 0 for echo, then the numbers of the TCP and UDP ports. Before the first step nothing is matched. A port set is
 * the numbers of its lower and upper half; 0 is the empty set, 1 the full one, 2 the first set of the list.
 */
import type { Addresses, CanonicalPolicy, DirectionPolicy, MatchSet, PortMap } from '../canonical.ts';
import { UnresolvedPeers } from '../match.ts';
import { lastAddress, wholeFamily, type Range } from '../range.ts';
import type { Family } from '../rule.ts';
import { ByteWriter } from './byte-writer.ts';
import { digestForm } from './digest-form.ts';
import { noPorts, portCount, PortRanges, PortSets, PortUnion } from './port-sets.ts';

const families: readonly Family[] = [4, 6];

type Subject = 'any' | 'echo' | 'tcp' | 'udp';

/** Addresses that begin or end to be matched here, for one subject, on some ports. */
interface Border {
  readonly at: bigint;
  readonly subject: Subject;
  /** The place of its ports among all port ranges. */
  readonly ports: number;
  readonly begins: boolean;
}

const byAddress = (a: Border, b: Border): number => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0);

const everything: MatchSet = (() => {
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
class Matched {
  #any = 0;
  #echo = 0;
  readonly #tcp: PortUnion;
  readonly #udp: PortUnion;

  constructor(sets: PortSets, ranges: PortRanges, oneUnion: boolean) {
    this.#tcp = new PortUnion(sets, ranges);
    this.#udp = oneUnion ? this.#tcp : new PortUnion(sets, ranges);
  }

  pass({ subject, ports, begins }: Border): void {
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

type State = readonly [kind: number, tcp: number, udp: number];
const nothing: State = [0, noPorts, noPorts];
const isSame = (a: State, b: State): boolean => a[0] === b[0] && a[1] === b[1] && a[2] === b[2];

class Encoder {
  readonly #writer = new ByteWriter();
  readonly #sets = new PortSets();

  policy({ inbound, outbound }: CanonicalPolicy): Uint8Array {
    this.#writer.number(digestForm);
    this.#direction(inbound);
    this.#direction(outbound);
    const { halves } = this.#sets;
    this.#writer.number(halves.length / 2);
    this.#writer.numbers(halves);
    return this.#writer.bytes;
  }

  #direction(policy: DirectionPolicy): void {
    for (const part of [policy.kind === 'open' ? everything : policy, policy.forbid]) {
      for (const family of families) this.#steps(part, family);
    }
  }

  #steps(part: MatchSet | undefined, family: Family): void {
    const lengthAt = this.#writer.size;
    this.#writer.number(0);
    if (part === undefined) return;
    const ranges = new PortRanges();
    const borders = bordersOf(part, family, ranges);
    const matched = new Matched(this.#sets, ranges, isAlike(part));
    const end = lastAddress(family);
    let [before, length] = [nothing, 0];
    // By index, and without closures: this runs for every range.
    for (let i = 0; i < borders.length; i += 1) {
      const border = borders[i] as Border;
      if (border.at > end) break;
      matched.pass(border);
      if (borders[i + 1]?.at === border.at) continue;
      const { state } = matched;
      if (isSame(state, before)) continue;
      before = state;
      length += 1;
      this.#writer.address(family, border.at);
      this.#writer.number(state[0]);
      this.#writer.number(state[1]);
      this.#writer.number(state[2]);
    }
    this.#writer.numberAt(lengthAt, length);
  }
}

export const encodePolicy = (policy: CanonicalPolicy): Uint8Array => new Encoder().policy(policy);
