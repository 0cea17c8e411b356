/**
 * Owns the set of far addresses that a policy admits for one protocol and port. It agrees with `decide` for each
 * address.
 */
import { hasForbid, isClosed, rulesOf } from '../decide.ts';
import type { EffectivePolicy } from '../effective.ts';
import { isRefusal } from '../isolation/isolation.ts';
import { isAboutTransport, onlyFamily, ruleRanges } from '../match.ts';
import type { Packet, Transport } from '../packet.ts';
import type { Direction, Family, PolicyGroup, StoredRule } from '../rule.ts';
import { addAllBits, keepCommonBits, newBits, removeAllBits, type Bits } from './bits.ts';
import type { Cohort, FleetIndex } from './fleet-index.ts';
import { testProtocols, type PolicyTest } from './policy-test.ts';

export function transportOf({ protocol, port = 0 }: Pick<PolicyTest, 'protocol' | 'port'>, family: Family): Transport {
  if (protocol !== 'icmp') return { kind: protocol, dport: port };
  return family === 4 ? { kind: 'icmp', type: 8 } : { kind: 'icmpv6', type: 128 };
}

export class AdmittedAddresses {
  readonly #fleet: FleetIndex;
  readonly #rules = new Map<StoredRule, Bits>();
  /** By cohort and direction, and there by protocol and port. */
  readonly #known = new Map<Cohort, { readonly [D in Direction]: Map<number, Bits> }>();

  constructor(fleet: FleetIndex) {
    this.#fleet = fleet;
  }

  of(cohort: Cohort, direction: Direction, { protocol, port = 0 }: Pick<PolicyTest, 'protocol' | 'port'>): Bits {
    const { policy } = cohort;
    const isOpen = !isClosed(policy, direction);
    if (isOpen && !hasForbid(policy, direction)) return this.#fleet.addresses.all;
    let known = this.#known.get(cohort);
    if (known === undefined) this.#known.set(cohort, (known = { inbound: new Map(), outbound: new Map() }));
    const key = testProtocols.indexOf(protocol) * 65_536 + port;
    let bits = known[direction].get(key);
    if (bits === undefined) {
      // A rule is about a transport in both families alike: its addresses say which families it is about.
      const packet: Packet = { direction, family: 4, remote: 0n, transport: transportOf({ protocol, port }, 4) };
      known[direction].set(key, (bits = this.#admitted(policy, packet, isOpen)));
    }
    return bits;
  }

  #admitted({ groups, guardrails }: EffectivePolicy, packet: Packet, isOpen: boolean): Bits {
    const bits = newBits(this.#fleet.addresses.size);
    if (isOpen) addAllBits(bits, this.#fleet.addresses.all);
    else {
      this.#add(bits, groups, packet);
      this.#add(bits, guardrails?.require ?? [], packet);
    }
    if (guardrails === undefined || guardrails.forbid.length === 0) return bits;
    const forbidden = newBits(this.#fleet.addresses.size);
    this.#add(forbidden, guardrails.forbid, packet);
    removeAllBits(bits, forbidden);
    return bits;
  }

  #add(bits: Bits, groups: readonly PolicyGroup[], packet: Packet): void {
    for (const group of groups) {
      for (const rule of rulesOf(group, packet.direction)) {
        if (rule.expired !== true && isAboutTransport(rule, packet)) addAllBits(bits, this.#addressesOf(rule));
      }
    }
  }

  /** The addresses that a rule names, by its ranges and by its peers. */
  #addressesOf(rule: StoredRule): Bits {
    let bits = this.#rules.get(rule);
    if (bits !== undefined) return bits;
    const { addresses } = this.#fleet;
    bits = newBits(addresses.size);
    const { v4, v6 } = ruleRanges(rule);
    addresses.addRanges(bits, 4, v4);
    addresses.addRanges(bits, 6, v6);
    if (isRefusal(rule)) {
      addresses.addRanges(bits, 4, onlyFamily(rule) === 6 ? [] : (rule.members?.v4 ?? []));
      addresses.addRanges(bits, 6, onlyFamily(rule) === 4 ? [] : (rule.members?.v6 ?? []));
    } else if (rule.peers !== undefined) {
      const named = newBits(addresses.size);
      for (const peer of rule.peers) addAllBits(named, this.#fleet.endOf(peer).slots);
      const only = onlyFamily(rule);
      if (only !== undefined) keepCommonBits(named, addresses.families[only]);
      addAllBits(bits, named);
    }
    this.#rules.set(rule, bits);
    return bits;
  }
}
