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

/** The rules of one state of a group. What follows from them is worked out when it is asked for, and once. */
export class GroupRules {
  readonly #fields: RuleFields;
  #hash: string | undefined;
  #peers: ReadonlyMap<string, Peer> | undefined;
  #moments: readonly number[] | undefined;

  constructor({ inbound_rules, outbound_rules }: RuleFields) {
    this.#fields = { inbound_rules, outbound_rules };
  }

  get inbound(): readonly StoredRule[] {
    return this.#fields.inbound_rules ?? [];
  }

  get hash(): string {
    return (this.#hash ??= rulesHash(this.#fields));
  }

  /** The peers that the rules name, by their keys. */
  get peers(): ReadonlyMap<string, Peer> {
    this.#peers ??= new Map(
      this.#rules
        .flatMap((rule) => (isObject(rule) ? (listOf(rule['peers']) as readonly Peer[]) : []))
        .map((peer) => [peerKey(peer), peer]),
    );
    return this.#peers;
  }

  /** When rules expire, in milliseconds since 1970, ascending. */
  get moments(): readonly number[] {
    return (this.#moments ??= expiryMoments(this.#rules as readonly StoredRule[]));
  }

  get #rules(): readonly unknown[] {
    return [...listOf(this.#fields.inbound_rules), ...listOf(this.#fields.outbound_rules)];
  }
}
