/** Owns what is known of a group's rules without reading them strictly: whom they name, when they expire, and a hash that tells other rules. */
import { sha256Hex } from '#sha256';
import { peerKey } from '../policy/fleet/selector.ts';
import { isObject } from '../policy/json.ts';
import { withoutDescriptions } from '../policy/rule-identity/descriptions.ts';
import type { Peer, StoredRule, Trial } from '../policy/rule.ts';
import { expiryMoments } from '../policy/time/policy-at.ts';

/** The fields of a group's record, or of its state before a trial, that hold its rules. */
export interface RuleFields {
  readonly inbound_rules?: readonly StoredRule[] | undefined;
  readonly outbound_rules?: readonly StoredRule[] | undefined;
}

/** A hash of the rules of a record. Descriptions are no part of them: they change nothing on a device. */
export function rulesHash(record: object): string {
  const { inbound_rules = [], outbound_rules = [] } = withoutDescriptions(record) as RuleFields;
  return sha256Hex(JSON.stringify([inbound_rules, outbound_rules]));
}

/** The state of a record whose rules have this hash: the one on trial, or the one before. */
export function stateWithHash(record: object, hash: string): object | undefined {
  const { trial, ...state } = record as { readonly trial?: Trial<object> };
  if (rulesHash(state) === hash) return state;
  const before = trial?.before && { ...state, ...trial.before };
  return before && rulesHash(before) === hash ? before : undefined;
}

const listOf = (rules: unknown): readonly unknown[] => (Array.isArray(rules) ? rules : []);

type Peers = ReadonlyMap<string, Peer>;

function peersOf(rules: readonly unknown[]): Peers {
  const peers = rules.flatMap((rule) => (isObject(rule) ? (listOf(rule['peers']) as readonly Peer[]) : []));
  return new Map(peers.map((peer) => [peerKey(peer), peer]));
}

/** The rules of one state of a group. What follows from them is worked out when it is asked for; of large ones, which `again` reads, only what is small stays. */
export class GroupRules {
  readonly #read: () => RuleFields;
  readonly #isLarge: boolean;
  #known: { readonly hash: string; readonly moments: readonly number[] } | undefined;
  #peers: { deref(): Peers | undefined } | undefined;

  constructor({ inbound_rules, outbound_rules }: RuleFields, again?: () => RuleFields) {
    const fields = { inbound_rules, outbound_rules };
    this.#read = again ?? (() => fields);
    this.#isLarge = again !== undefined;
  }

  get inbound(): readonly StoredRule[] {
    return this.#read().inbound_rules ?? [];
  }

  get hash(): string {
    return (this.#known ?? this.#look().known).hash;
  }

  /** The peers that the rules name, by their keys. */
  get peers(): Peers {
    return this.#peers?.deref() ?? this.#look().peers;
  }

  /** When rules expire, in milliseconds since 1970, ascending. */
  get moments(): readonly number[] {
    return (this.#known ?? this.#look().known).moments;
  }

  #look() {
    const fields = this.#read();
    const rules = [...listOf(fields.inbound_rules), ...listOf(fields.outbound_rules)];
    const known = (this.#known ??= {
      hash: rulesHash(fields),
      moments: expiryMoments(rules as readonly StoredRule[]),
    });
    const peers = peersOf(rules);
    this.#peers = this.#isLarge ? new WeakRef(peers) : { deref: () => peers };
    return { known, peers };
  }
}
