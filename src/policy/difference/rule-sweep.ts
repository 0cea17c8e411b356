/**
 * Owns what the rules of a policy match at each address, worked out in steps. Rules are not merged first: each set of addresses has a cursor, so that
 * overlapping rules cost as much as they have borders, in time and nearly nothing in memory.
 */
import { isClosed, rulesOf } from '../decide.ts';
import { noPorts, PortRanges, portCount } from '../digest/port-sets.ts';
import { isSameState, Matched, nothing, type Match, type State } from '../digest/sweep.ts';
import type { EffectivePolicy } from '../effective.ts';
import { withIsolation } from '../isolation/isolation.ts';
import { isAboutSome, isAnyPort, ruleAddresses } from '../match.ts';
import { hasAddress, lastAddress, wholeFamily, type RangeSet } from '../range.ts';
import type { Direction, Family, Members, PolicyGroup, StoredRule } from '../rule.ts';
import type { PortAlgebra } from './port-algebra.ts';

/** What is matched from this address on. */
export interface Step {
  readonly at: bigint;
  readonly state: State;
}

/** `undefined` is a pause: nothing new is known, and the caller may do other work. */
export type Paused<T> = Generator<T | undefined, void, undefined>;

/** So many small pieces of work are done between two pauses: well under a millisecond. */
const piecesAtOnce = 512;

/** The rules of one side of a direction: what it admits, or what it forbids. */
export type RulePart = readonly PolicyGroup[] | 'everything';

/** What a direction of the policy admits and what it forbids; a device that does not exist admits nothing. */
export function partsOf(
  effective: EffectivePolicy | undefined,
  direction: Direction,
): { readonly admit: RulePart; readonly forbid: RulePart } {
  if (effective === undefined) return { admit: [], forbid: [] };
  const policy = withIsolation(effective);
  const { forbid = [], require = [] } = policy.guardrails ?? {};
  return { admit: isClosed(policy, direction) ? [...require, ...policy.groups] : 'everything', forbid };
}

const whole = { 4: wholeFamily(4), 6: wholeFamily(6) } as const;

type ReadAddresses = (rule: StoredRule) => Members;

function addressesOf(rule: StoredRule, family: Family, read: ReadAddresses = ruleAddresses): RangeSet {
  const { v4, v6 } = read(rule);
  const set = family === 4 ? v4 : v6;
  // Rules about whole families are often many: one set for all of them.
  return set.length > 0 && !isAboutSome(rule) ? whole[family] : set;
}

/** What the rule matches of an address. */
function matchesOf(rule: StoredRule, ports: PortRanges): readonly Match[] {
  const place = isAnyPort(rule) ? ports.placeOf(0, portCount - 1) : ports.placeOf(rule.from_port, rule.to_port);
  switch (rule.ip_protocol) {
    case 'tcp':
    case 'udp':
      return [{ subject: rule.ip_protocol, ports: place }];
    case 'icmp':
    case 'icmpv6':
      return [{ subject: 'echo', ports: 0 }];
    case 'ipv4':
    case 'ipv6':
      if (isAnyPort(rule)) return [{ subject: 'any', ports: 0 }];
      return [
        { subject: 'tcp', ports: place },
        { subject: 'udp', ports: place },
      ];
    default:
      return rule.ip_protocol satisfies never;
  }
}

/** Where the set of addresses has its next border, and what begins or ends to be matched there. */
interface Cursor {
  at: bigint;
  place: number;
  begins: boolean;
  readonly ranges: RangeSet;
  readonly matches: Match[];
}

/** False where there is no further border. */
function moveOn(cursor: Cursor): boolean {
  const { ranges } = cursor;
  const range = ranges[cursor.place];
  if (range === undefined) return false;
  if (cursor.begins) cursor.at = range.last + 1n;
  else {
    cursor.place += 1;
    const next = ranges[cursor.place];
    if (next === undefined) return false;
    cursor.at = next.first;
  }
  cursor.begins = !cursor.begins;
  return true;
}

/** The cursor with the lowest address is the first: a binary heap. */
function sink(heap: Cursor[], from: number): void {
  const cursor = heap[from] as Cursor;
  let at = from;
  for (;;) {
    let child = 2 * at + 1;
    if (child >= heap.length) break;
    if (child + 1 < heap.length && (heap[child + 1] as Cursor).at < (heap[child] as Cursor).at) child += 1;
    if ((heap[child] as Cursor).at >= cursor.at) break;
    heap[at] = heap[child] as Cursor;
    at = child;
  }
  heap[at] = cursor;
}

/** A cursor for each set of addresses; rules about the same set share one. */
function* cursorsOf(
  part: RulePart,
  direction: Direction,
  family: Family,
  ports: PortRanges,
): Generator<undefined, Cursor[], undefined> {
  const bySet = new Map<RangeSet, Cursor>();
  const add = (ranges: RangeSet, matches: readonly Match[]): void => {
    const [first] = ranges;
    if (first === undefined) return;
    const known = bySet.get(ranges);
    if (known === undefined)
      bySet.set(ranges, { at: first.first, place: 0, begins: true, ranges, matches: [...matches] });
    else known.matches.push(...matches);
  };
  if (part === 'everything') add(whole[family], [{ subject: 'any', ports: 0 }]);
  else {
    let pieces = 0;
    for (const group of part) {
      for (const rule of rulesOf(group, direction)) {
        if (rule.expired === true) continue;
        add(addressesOf(rule, family), matchesOf(rule, ports));
        pieces += 1 + (rule.ip_ranges?.length ?? 0);
        if (pieces < piecesAtOnce) continue;
        pieces = 0;
        yield;
      }
    }
  }
  const heap = [...bySet.values()];
  for (let at = (heap.length >> 1) - 1; at >= 0; at -= 1) sink(heap, at);
  return heap;
}

/** Every address at which the match changes, ascending. Before the first one nothing matches. */
export function* sweepRules(part: RulePart, direction: Direction, family: Family, ports: PortAlgebra): Paused<Step> {
  const portRanges = new PortRanges();
  const heap = yield* cursorsOf(part, direction, family, portRanges);
  const matched = new Matched(ports.sets, portRanges, false);
  const end = lastAddress(family);
  let before = nothing;
  let pieces = 0;
  for (let first = heap[0]; first !== undefined && first.at <= end; first = heap[0]) {
    const { at } = first;
    for (let cursor: Cursor | undefined = first; cursor?.at === at; cursor = heap[0]) {
      for (const match of cursor.matches) {
        matched.pass(match, cursor.begins);
        pieces += 1;
        if (pieces < piecesAtOnce) continue;
        // What many ports of one address mean is worked out piece by piece, too.
        void matched.state;
        pieces = 0;
        yield;
      }
      if (!moveOn(cursor)) {
        const last = heap.pop() as Cursor;
        if (heap.length === 0) break;
        if (last !== cursor) heap[0] = last;
      }
      sink(heap, 0);
    }
    const { state } = matched;
    if (isSameState(state, before)) continue;
    before = state;
    yield { at, state };
  }
}

/** Who is told of each rule that matches, and how addresses are read: whoever asks many times may remember them. */
export interface LookAt {
  readonly read?: ReadAddresses;
  readonly found?: (group: PolicyGroup, index: number, rule: StoredRule) => void;
}

/** What is matched at one address. */
export function* stateAt(
  part: RulePart,
  { direction, family, value }: { readonly direction: Direction; readonly family: Family; readonly value: bigint },
  ports: PortAlgebra,
  { read, found }: LookAt = {},
): Generator<undefined, State, undefined> {
  if (part === 'everything') return [2, noPorts, noPorts];
  const portRanges = new PortRanges();
  const matched = new Matched(ports.sets, portRanges, false);
  let pieces = 0;
  for (const group of part) {
    for (const [index, rule] of rulesOf(group, direction).entries()) {
      pieces += 1;
      if (pieces % piecesAtOnce === 0) yield;
      if (rule.expired === true || !hasAddress(addressesOf(rule, family, read), value)) continue;
      for (const match of matchesOf(rule, portRanges)) matched.pass(match, true);
      found?.(group, index, rule);
    }
  }
  return matched.state;
}
