/** Owns the wording of rules and the comparison of two rule lists, for the command line and the pages. */
import { expiryWords } from './expiry.ts';
import { ruleIdentity } from '../../policy/rule-identity/rule-identity.ts';
import type { Direction, Peer, SecurityRule, StoredRule } from '../../policy/rule.ts';

export interface DeviceNaming {
  /** What people call the device; undefined for one that is gone. */
  readonly nameOf: (id: string) => string | undefined;
}

/** For rules that name no device, or are shown where none is known. */
export const namedById: DeviceNaming = { nameOf: (id) => id };

export const preposition: { readonly [D in Direction]: 'from' | 'to' } = { inbound: 'from', outbound: 'to' };

/** `label:app+prod`, `device:web-1`, `all-devices`. */
export function peerWord(peer: Peer, names: DeviceNaming = namedById): string {
  if ('all_devices' in peer) return 'all-devices';
  if ('labels' in peer) return `label:${peer.labels.join('+')}`;
  return `device:${names.nameOf(peer.device_id) ?? peer.device_id}`;
}

export const portWords = ({ from_port, to_port }: Pick<SecurityRule, 'from_port' | 'to_port'>): string => {
  if (from_port === 0 && to_port === 0) return '';
  return from_port === to_port ? ` ${from_port}` : ` ${from_port}-${to_port}`;
};

/** `tcp 443 from label:app # app servers`: the words that the command line reads as this rule, when it expires, and its description. */
export const ruleWords = (direction: Direction, rule: SecurityRule, names: DeviceNaming = namedById): string =>
  `${ruleInSentence(direction, rule, names)}${descriptionWords(rule)}`;

/** The same without the description, for a sentence that goes on after it. */
export function ruleInSentence(direction: Direction, rule: SecurityRule, names: DeviceNaming = namedById): string {
  const end = rule.expires_at === undefined ? '' : ` (${expiryWords(rule.expires_at)})`;
  return `${fieldWords(direction, rule, names)}${end}`;
}

const descriptionWords = ({ description = '' }: SecurityRule): string =>
  description === '' ? '' : ` # ${description}`;

/** The same for a file, with the exact time at which it expires: `tcp 443 from any until 2030-01-31T12:00:00Z`. */
export function ruleText(direction: Direction, rule: SecurityRule, names: DeviceNaming = namedById): string {
  const end = rule.expires_at === undefined ? '' : ` until ${rule.expires_at}`;
  return `${fieldWords(direction, rule, names)}${end}${descriptionWords(rule)}`;
}

function fieldWords(direction: Direction, rule: SecurityRule, names: DeviceNaming): string {
  const { ip_ranges = [], peers = [] } = rule;
  const farEnd = [
    ...peers.map((peer) => peerWord(peer, names)),
    ...ip_ranges.map((range) => range.replace(/\s+/g, '')),
  ];
  return `${rule.ip_protocol}${portWords(rule)} ${preposition[direction]} ${farEnd.join(', ') || 'any'}`;
}

/** Whether the rules are the same, whenever they expire. */
export const sameButExpiry = (a: StoredRule, b: StoredRule): boolean => {
  const [{ expires_at: _a, ...one }, { expires_at: _b, ...other }] = [a, b];
  return ruleIdentity(one) === ruleIdentity(other);
};

/** Whether they are one rule: its description is no part of it. */
export const sameRule = (a: StoredRule, b: StoredRule): boolean => ruleIdentity(a) === ruleIdentity(b);

/** Equal for rules that are the same and have the same description. */
const writtenKey = (rule: StoredRule): string => `${ruleIdentity(rule)} ${rule.description ?? ''}`;

/** Whether writing the one in the place of the other changes nothing. */
export const sameWritten = (a: StoredRule, b: StoredRule): boolean => writtenKey(a) === writtenKey(b);

export interface RuleChanges {
  readonly added: readonly StoredRule[];
  readonly removed: readonly StoredRule[];
}

/** These rules without the taken ones. A rule that occurs twice is removed once for each. */
export function rulesWithout(rules: readonly StoredRule[], taken: readonly StoredRule[]): readonly StoredRule[] {
  const left = taken.map(writtenKey);
  return rules.filter((rule) => {
    const index = left.indexOf(writtenKey(rule));
    if (index !== -1) left.splice(index, 1);
    return index === -1;
  });
}

/** A rule before and after its description changed. */
export interface DescribedRule {
  readonly before: StoredRule;
  readonly after: StoredRule;
}

/** Changes of rules, those of a description alone apart: they change nothing that is admitted. */
export function splitDescribed({ added, removed }: RuleChanges): RuleChanges & {
  readonly described: readonly DescribedRule[];
} {
  const left = [...removed];
  const described: DescribedRule[] = [];
  const really = added.filter((after) => {
    const index = left.findIndex((rule) => sameRule(rule, after));
    const before = left[index];
    if (before === undefined) return true;
    left.splice(index, 1);
    described.push({ before, after });
    return false;
  });
  return { added: really, removed: left, described };
}

/** Rules have no order: only what is there too much or too little counts. A rule with another description is removed and added. */
export const ruleChanges = (before: readonly StoredRule[] = [], after: readonly StoredRule[] = []): RuleChanges => ({
  added: rulesWithout(after, before),
  removed: rulesWithout(before, after),
});
