/** Owns the summary of rules: what a group admits, in one line, with each far end named once. */
import type { Direction, StoredRule } from '../../policy/rule.ts';
import { chipsOf, noNames, type DeviceNames } from './far-end.ts';
import { isIcmp, portsText } from './rule-text.ts';

export interface RuleSummary {
  /** `tcp 80, 443`. */
  readonly what: string;
  /** `app`, `10.0.0.0/8, fd00::/8`, or `any`. */
  readonly farEnd: string;
}

const shownRanges = 2;

const farEndOf = (rule: StoredRule, names: DeviceNames): string => {
  const chips = chipsOf(rule, names).map((chip) => chip.replace(/^(label|device):/, ''));
  if (chips.length === 0) return 'any';
  const more = chips.length - shownRanges;
  return `${chips.slice(0, shownRanges).join(', ')}${more > 0 ? ` +${more}` : ''}`;
};

const protocolText = ({ ip_protocol }: StoredRule): string => (isIcmp(ip_protocol) ? 'ping' : ip_protocol);

/** Rules with the same far end stand together, and ports of the same protocol behind it. */
export function summarize(rules: readonly StoredRule[], names: DeviceNames = noNames): readonly RuleSummary[] {
  const byFarEnd = new Map<string, { readonly farEnd: string; readonly ports: Map<string, Set<string>> }>();
  for (const rule of rules) {
    const key = chipsOf(rule, noNames).join();
    const entry = byFarEnd.get(key) ?? { farEnd: farEndOf(rule, names), ports: new Map<string, Set<string>>() };
    byFarEnd.set(key, entry);
    const protocol = protocolText(rule);
    const ports = entry.ports.get(protocol) ?? new Set();
    entry.ports.set(protocol, ports.add(portsText(rule)));
  }
  return [...byFarEnd.values()].map(({ farEnd, ports }) => ({
    farEnd,
    what: [...ports].map(([protocol, texts]) => partText(protocol, texts)).join(', '),
  }));
}

/** Any port says more than the ports beside it. */
function partText(protocol: string, ports: ReadonlySet<string>): string {
  if (ports.has('')) return protocol === 'ip' ? 'everything' : protocol;
  return `${protocol} ${[...ports].join(', ')}`;
}

/** Everything of a group's rules that a search looks at. */
export const summaryText = (rules: readonly StoredRule[]): string =>
  summarize(rules)
    .map(({ what, farEnd }) => `${what} ${farEnd}`)
    .join(' ');

export const meaningInShort: { readonly [D in Direction]: string } = {
  inbound: 'nothing comes in',
  outbound: 'everything goes out',
};
