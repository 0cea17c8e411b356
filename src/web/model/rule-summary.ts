/** Owns the summary of rules: what a group admits, in one line, with each far end named once. */
import type { Direction, StoredRule } from '../../policy/rule.ts';
import { chipsOf, noNames, type DeviceNames } from './far-end.ts';
import { isIcmp, portsText } from './rule-text.ts';

export interface RuleSummary {
  /** `tcp 80, 443`. */
  readonly what: string;
  /** `app`, `10.0.0.0/8, fd00::/8`, or `any`. */
  readonly farEnd: string;
  /** Absent where it does not expire. */
  readonly expiresAt?: string;
}

const shownRanges = 2;

const farEndOf = (rule: StoredRule, names: DeviceNames): string => {
  const chips = chipsOf(rule, names).map((chip) => chip.replace(/^(label|device):/, ''));
  if (chips.length === 0) return 'any';
  const more = chips.length - shownRanges;
  return `${chips.slice(0, shownRanges).join(', ')}${more > 0 ? ` +${more}` : ''}`;
};

const protocolText = ({ ip_protocol }: StoredRule): string => (isIcmp(ip_protocol) ? 'ping' : ip_protocol);

interface Alike {
  readonly farEnd: string;
  readonly ports: Map<string, Set<string>>;
  readonly expires_at: string | undefined;
}

/** Rules with the same far end and the same expiry are shown together, with the ports of each protocol. */
export function summarize(rules: readonly StoredRule[], names: DeviceNames = noNames): readonly RuleSummary[] {
  const byFarEnd = new Map<string, Alike>();
  for (const rule of rules) {
    const { expires_at } = rule;
    const key = `${chipsOf(rule, noNames).join()} ${expires_at ?? ''}`;
    const entry: Alike = byFarEnd.get(key) ?? { farEnd: farEndOf(rule, names), ports: new Map(), expires_at };
    byFarEnd.set(key, entry);
    const protocol = protocolText(rule);
    const ports = entry.ports.get(protocol) ?? new Set();
    entry.ports.set(protocol, ports.add(portsText(rule)));
  }
  return [...byFarEnd.values()].map(({ farEnd, ports, expires_at }) => ({
    farEnd,
    what: [...ports].map(([protocol, texts]) => partText(protocol, texts)).join(', '),
    ...(expires_at !== undefined && { expiresAt: expires_at }),
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
