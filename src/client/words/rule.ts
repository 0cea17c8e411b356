/** Owns the wording of rules and the comparison of two rule lists, for the command line and the pages. */
import { expiryWords } from './expiry.ts';
import { peerKey } from '../../policy/fleet/selector.ts';
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

/** `tcp 443 from label:app, 10.0.0.0/8`: the words that the command line reads as this rule, and when it expires. */
export function ruleWords(direction: Direction, rule: SecurityRule, names: DeviceNaming = namedById): string {
  const end = rule.expires_at === undefined ? '' : ` (${expiryWords(rule.expires_at)})`;
  return `${fieldWords(direction, rule, names)}${end}`;
}

/** The same for a file, with the exact time at which it expires: `tcp 443 from any until 2030-01-31T12:00:00Z`. */
export function ruleText(direction: Direction, rule: SecurityRule, names: DeviceNaming = namedById): string {
  const end = rule.expires_at === undefined ? '' : ` until ${rule.expires_at}`;
  return `${fieldWords(direction, rule, names)}${end}`;
}

function fieldWords(direction: Direction, rule: SecurityRule, names: DeviceNaming): string {
  const { ip_ranges = [], peers = [] } = rule;
  const farEnd = [
    ...peers.map((peer) => peerWord(peer, names)),
    ...ip_ranges.map((range) => range.replace(/\s+/g, '')),
  ];
  return `${rule.ip_protocol}${portWords(rule)} ${preposition[direction]} ${farEnd.join(', ') || 'any'}`;
}

const plain = (text: string): string => text.replaceAll(/\s+/g, '').toLowerCase();

/** Equal for rules that say the same: ranges and peers have no order. */
const ruleKey = ({ ip_protocol, from_port, to_port, ip_ranges = [], peers = [], expires_at }: StoredRule): string =>
  JSON.stringify([
    ip_protocol,
    from_port,
    to_port,
    ip_ranges.map(plain).toSorted(),
    peers.map((peer) => plain(peerKey(peer))).toSorted(),
    expires_at === undefined ? null : Date.parse(expires_at),
  ]);

/** Whether the rules say the same, whenever they expire. */
export const sameButExpiry = (a: StoredRule, b: StoredRule): boolean => {
  const [{ expires_at: _a, ...one }, { expires_at: _b, ...other }] = [a, b];
  return ruleKey(one) === ruleKey(other);
};

export const sameRule = (a: StoredRule, b: StoredRule): boolean => ruleKey(a) === ruleKey(b);

export interface RuleChanges {
  readonly added: readonly StoredRule[];
  readonly removed: readonly StoredRule[];
}

/** These rules without the taken ones. A rule that occurs twice is removed once for each. */
export function rulesWithout(rules: readonly StoredRule[], taken: readonly StoredRule[]): readonly StoredRule[] {
  const left = taken.map(ruleKey);
  return rules.filter((rule) => {
    const index = left.indexOf(ruleKey(rule));
    if (index !== -1) left.splice(index, 1);
    return index === -1;
  });
}

/** Rules have no order: only what is there too much or too little counts. */
export const ruleChanges = (before: readonly StoredRule[] = [], after: readonly StoredRule[] = []): RuleChanges => ({
  added: rulesWithout(after, before),
  removed: rulesWithout(before, after),
});
