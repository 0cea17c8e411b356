/**
 * Owns which far addresses a policy admits for one protocol and port. It agrees with `decide` for each address.
 *
 * Rules are found by their ports, and ports about which the same rules are share one `Admission`. What an admission holds of an end is worked out once.
 * So many tests of one policy cost as much as its rules, not as their product.
 */
import { hasForbid, isClosed, rulesOf } from '../../policy/decide.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { peerKey } from '../../policy/fleet/selector.ts';
import { isRefusal } from '../../policy/isolation/isolation.ts';
import { isAboutTransport, isAnyPort, onlyFamily, ruleRanges } from '../../policy/match.ts';
import type { Packet, Transport } from '../../policy/packet.ts';
import { isWholeFamily, type RangeSet } from '../../policy/range.ts';
import type { Direction, Family, Peer, PolicyGroup, StoredRule } from '../../policy/rule.ts';
import type { AddressIndex } from './address-index.ts';
import type { Effort } from './effort.ts';
import type { End, Ends } from './ends.ts';
import type { PolicyTest } from '../../policy/policy-test/policy-test.ts';
import type { PortClasses } from './port-classes.ts';
import {
  commonSlots,
  eachSlot,
  isSameSet,
  mark,
  markedSlots,
  noSlots,
  stepsFor,
  unmark,
  type SlotSet,
} from './slot-set.ts';

type Connection = Pick<PolicyTest, 'protocol' | 'port'>;

export function transportOf({ protocol, port = 0 }: Connection, family: Family): Transport {
  if (protocol !== 'icmp') return { kind: protocol, dport: port };
  return family === 4 ? { kind: 'icmp', type: 8 } : { kind: 'icmpv6', type: 128 };
}

/** Sets of addresses, each once. The same sets are the same object, and have one number. */
interface SetList {
  readonly number: number;
  readonly sets: readonly SlotSet[];
}

/** What a policy admits in one direction: everything, or these addresses, but for those that are forbidden. */
interface Admission {
  readonly isAll: boolean;
  readonly sets: SetList;
  readonly forbidden: SetList;
  readonly ends: Map<End, AdmittedEnd>;
}

/** What of an end is admitted. */
export interface AdmittedEnd {
  readonly slots: SlotSet;
  readonly isAll: boolean;
  /** The parts of the end that have one of these addresses, as a bit field. */
  readonly parts: Uint32Array;
}

/** Rules with ports, by their first port; `reach` is the last port of the rules of each subtree of the sorted list. */
class PortedRules {
  readonly #rules: readonly StoredRule[];
  readonly #reach: Uint32Array;

  constructor(rules: readonly StoredRule[]) {
    this.#rules = rules.toSorted((a, b) => a.from_port - b.from_port);
    this.#reach = new Uint32Array(rules.length);
    this.#fill(0, rules.length);
  }

  #fill(first: number, end: number): number {
    if (first >= end) return 0;
    const middle = (first + end) >>> 1;
    const own = (this.#rules[middle] as StoredRule).to_port;
    const reach = Math.max(own, this.#fill(first, middle), this.#fill(middle + 1, end));
    this.#reach[middle] = reach;
    return reach;
  }

  /** Those whose ports hold the port. */
  find(port: number, found: (rule: StoredRule) => void, first = 0, end = this.#rules.length): void {
    if (first >= end) return;
    const middle = (first + end) >>> 1;
    if ((this.#reach[middle] as number) < port) return;
    this.find(port, found, first, middle);
    const rule = this.#rules[middle] as StoredRule;
    if (rule.from_port > port) return;
    if (rule.to_port >= port) found(rule);
    this.find(port, found, middle + 1, end);
  }
}

/** The rules of one group in one direction. */
interface GroupRules {
  readonly anyPort: readonly StoredRule[];
  readonly ported: PortedRules;
  /** By the class of the port. */
  readonly known: Map<number, SetList>;
}

export interface AdmittedInput {
  readonly ports: PortClasses;
  readonly addresses: AddressIndex;
  readonly ends: Ends;
  readonly effort: Effort;
}

const nothing: SetList = { number: 0, sets: [] };

export class AdmittedAddresses {
  readonly #ports: PortClasses;
  readonly #addresses: AddressIndex;
  readonly #ends: Ends;
  readonly #effort: Effort;
  readonly #setsOfRule = new Map<StoredRule, readonly SlotSet[]>();
  readonly #peers = new Map<string, SlotSet>();
  readonly #groups: { readonly [D in Direction]: Map<PolicyGroup, GroupRules> } = {
    inbound: new Map(),
    outbound: new Map(),
  };
  readonly #numbers = new Map<SlotSet, number>();
  readonly #lists = new Map<string, SetList>([['', nothing]]);
  /** By the numbers of the sets, and of those that are forbidden. */
  readonly #admissions = new Map<number, Map<number, Admission>>();
  readonly #open = new Map<number, Admission>();

  constructor({ ports, addresses, ends, effort }: AdmittedInput) {
    this.#ports = ports;
    this.#addresses = addresses;
    this.#ends = ends;
    this.#effort = effort;
  }

  /** What of the far end the policy admits. */
  *of(policy: EffectivePolicy, direction: Direction, connection: Connection, far: End): Generator<void, AdmittedEnd> {
    const { ends, ...admission } = yield* this.#admission(policy, direction, connection);
    let admitted = ends.get(far);
    this.#effort.take(8);
    if (admitted === undefined) ends.set(far, (admitted = yield* this.#admitted(admission, far)));
    return admitted;
  }

  *#admission(policy: EffectivePolicy, direction: Direction, connection: Connection): Generator<void, Admission> {
    const { guardrails, groups } = policy;
    const isForbidding = hasForbid(policy, direction);
    const forbidden = isForbidding ? yield* this.#listOf(guardrails?.forbid ?? [], direction, connection) : nothing;
    const isOpen = !isClosed(policy, direction);
    const closedBy =
      guardrails === undefined || guardrails.require.length === 0 ? groups : [...groups, ...guardrails.require];
    const sets = isOpen ? nothing : yield* this.#listOf(closedBy, direction, connection);
    let known = isOpen ? this.#open : this.#admissions.get(sets.number);
    if (known === undefined) this.#admissions.set(sets.number, (known = new Map()));
    let admission = known.get(forbidden.number);
    if (admission === undefined) {
      const isAll = isOpen || this.#isEverything(sets.sets);
      known.set(forbidden.number, (admission = { isAll, sets, forbidden, ends: new Map() }));
    }
    return admission;
  }

  #isEverything(sets: readonly SlotSet[]): boolean {
    const { all, families } = this.#addresses;
    const holds = (set: SlotSet): boolean => set.at.length === 0 || sets.includes(set);
    return holds(all) || (holds(families[4]) && holds(families[6]));
  }

  *#admitted({ isAll, sets, forbidden }: Omit<Admission, 'ends'>, far: End): Generator<void, AdmittedEnd> {
    const of = far.slots;
    const isWholeEnd = isAll || sets.sets.includes(of);
    const marks = isWholeEnd ? Uint32Array.from(of.bits) : new Uint32Array(of.at.length);
    this.#effort.take(64 + 2 * of.at.length);
    for (const set of isWholeEnd ? [] : sets.sets) {
      mark(marks, of, set);
      this.#effort.take(stepsFor(of, set));
      if (this.#effort.isDue()) yield;
    }
    for (const set of forbidden.sets) {
      unmark(marks, of, set);
      this.#effort.take(stepsFor(of, set));
      if (this.#effort.isDue()) yield;
    }
    const slots = markedSlots(of, marks);
    const isWhole = isSameSet(slots, of);
    return {
      slots: isWhole ? of : slots,
      isAll: isWhole,
      parts: isWhole ? far.partsWithAddress : yield* this.#partsWith(slots, far),
    };
  }

  *#partsWith(slots: SlotSet, far: End): Generator<void, Uint32Array> {
    const parts = new Uint32Array((far.parts.length + 31) >>> 5);
    this.#effort.take(4 + parts.length);
    for (const slot of eachSlot(slots)) {
      for (const index of this.#ends.partsAt(far, slot))
        parts[index >>> 5] = (parts[index >>> 5] ?? 0) | (1 << (index & 31));
      this.#effort.take(4);
      if (this.#effort.isDue()) yield;
    }
    return parts;
  }

  *#listOf(groups: readonly PolicyGroup[], direction: Direction, connection: Connection): Generator<void, SetList> {
    let list = nothing;
    let several: SetList[] | undefined;
    for (const group of groups) {
      const own = this.#knownOf(group, direction, connection) ?? (yield* this.#ofGroup(group, direction, connection));
      if (own === nothing || own === list) continue;
      if (list === nothing) list = own;
      else (several ??= [list]).push(own);
    }
    this.#effort.take(4 * groups.length);
    return several === undefined ? list : this.#intern(several.flatMap(({ sets }) => sets));
  }

  /** The same object for the same sets. */
  #intern(sets: readonly SlotSet[]): SetList {
    const numbers = new Set<number>();
    for (const set of sets) {
      let number = this.#numbers.get(set);
      if (number === undefined) this.#numbers.set(set, (number = this.#numbers.size));
      numbers.add(number);
    }
    const key = [...numbers].join(' ');
    this.#effort.take(8 * sets.length);
    let list = this.#lists.get(key);
    if (list === undefined) this.#lists.set(key, (list = { number: this.#lists.size, sets: [...new Set(sets)] }));
    return list;
  }

  #knownOf(group: PolicyGroup, direction: Direction, connection: Connection): SetList | undefined {
    return this.#groups[direction].get(group)?.known.get(this.#ports.of(connection));
  }

  *#ofGroup(group: PolicyGroup, direction: Direction, connection: Connection): Generator<void, SetList> {
    let rules = this.#groups[direction].get(group);
    if (rules === undefined) this.#groups[direction].set(group, (rules = this.#rulesOf(group, direction)));
    const packet: Packet = { direction, family: 4, remote: 0n, transport: transportOf(connection, 4) };
    // A rule is about a transport in both families alike: its addresses say which families it is about.
    const about: StoredRule[] = [];
    const add = (rule: StoredRule): void => void (isAboutTransport(rule, packet) && about.push(rule));
    for (const rule of rules.anyPort) add(rule);
    if (connection.protocol !== 'icmp') rules.ported.find(connection.port ?? 0, add);
    this.#effort.take(16 + 4 * (rules.anyPort.length + about.length));
    const found: SlotSet[] = [];
    for (const rule of about) {
      found.push(...this.#addressesOf(rule));
      if (this.#effort.isDue()) yield;
    }
    const list = found.length === 0 ? nothing : this.#intern(found);
    rules.known.set(this.#ports.of(connection), list);
    return list;
  }

  #rulesOf(group: PolicyGroup, direction: Direction): GroupRules {
    const rules = rulesOf(group, direction).filter(({ expired }) => expired !== true);
    this.#effort.take(4 * rules.length);
    const isPorted = (rule: StoredRule): boolean =>
      rule.ip_protocol !== 'icmp' && rule.ip_protocol !== 'icmpv6' && !isAnyPort(rule);
    return {
      anyPort: rules.filter((rule) => !isPorted(rule)),
      ported: new PortedRules(rules.filter(isPorted)),
      known: new Map(),
    };
  }

  /** The addresses that a rule names, by its ranges and by its peers; sets that hold none are left out. */
  #addressesOf(rule: StoredRule): readonly SlotSet[] {
    let sets = this.#setsOfRule.get(rule);
    if (sets !== undefined) return sets;
    const [{ families, all }, only] = [this.#addresses, onlyFamily(rule)];
    const { ip_ranges = [], peers, members } = rule;
    const found: SlotSet[] = [];
    const add = (family: Family, ranges: RangeSet): void =>
      void found.push(isWholeFamily(ranges, family) ? families[family] : this.#addresses.slotsIn(family, ranges));
    if (peers === undefined && ip_ranges.length === 0) found.push(only === undefined ? all : families[only]);
    else if (ip_ranges.length > 0) {
      const { v4, v6 } = ruleRanges(rule);
      add(4, v4);
      add(6, v6);
    }
    if (isRefusal(rule)) {
      add(4, only === 6 ? [] : (members?.v4 ?? []));
      add(6, only === 4 ? [] : (members?.v6 ?? []));
    } else for (const peer of peers ?? []) found.push(this.#named(peer, only));
    sets = found.filter(({ at }) => at.length > 0);
    this.#effort.take(16 + 32 * ip_ranges.length + sets.reduce((sum, { at }) => sum + at.length, 0));
    this.#setsOfRule.set(rule, sets);
    return sets;
  }

  #named(peer: Peer, only: Family | undefined): SlotSet {
    const key = `${only ?? ''} ${peerKey(peer)}`;
    let slots = this.#peers.get(key);
    if (slots !== undefined) return slots;
    slots = this.#ends.slotsOf(peer);
    if (only !== undefined) slots = commonSlots(slots, this.#addresses.families[only]);
    this.#peers.set(key, slots.at.length === 0 ? noSlots : slots);
    return slots;
  }
}
