/** Owns the wording of rules: protocols and services by their common names, a rule in a line, and what a group admits in one line. */
import { expiryWords } from '../../client/words/expiry.ts';
import type { SecurityRule, StoredRule, Direction } from '../../policy/rule.ts';
import { services } from '../../policy/services.ts';
import { chipsOf, noNames, type DeviceNames } from './far-end.ts';

export const protocolNames: readonly (readonly [string, string])[] = [
  ['tcp', 'TCP'],
  ['udp', 'UDP'],
  ['ip', 'Any IP'],
  ['icmp', 'Ping (IPv4)'],
  ['icmpv6', 'Ping (IPv6)'],
  ['ipv4', 'IPv4'],
  ['ipv6', 'IPv6'],
];

export const protocolName = (protocol: string): string =>
  protocolNames.find(([key]) => key === protocol)?.[1] ?? protocol;

export const isIcmp = (protocol: string): boolean => protocol.startsWith('icmp');

export const portsText = ({ from_port, to_port }: Pick<SecurityRule, 'from_port' | 'to_port'>): string =>
  from_port === 0 && to_port === 0 ? '' : from_port === to_port ? String(from_port) : `${from_port}-${to_port}`;

export function serviceName(rule: SecurityRule): string | undefined {
  if (rule.from_port === 0 || rule.from_port !== rule.to_port) return undefined;
  return services.find(
    ({ ip_protocol, port }) =>
      port === rule.from_port &&
      (ip_protocol === rule.ip_protocol || (ip_protocol === 'ip' && !isIcmp(rule.ip_protocol))),
  )?.name;
}

const rangesText = (rule: SecurityRule, names: DeviceNames = noNames): string =>
  chipsOf(rule, names).join(', ') || 'any address';

const trafficText = (rule: SecurityRule): string => {
  const ports = portsText(rule);
  const service = serviceName(rule);
  return `${protocolName(rule.ip_protocol)}${ports === '' ? '' : ` ${ports}`}${service === undefined ? '' : ` (${service})`}`;
};

/** The traffic that a rule is about: `TCP 5432 (PostgreSQL)`, or `Everything`. */
export const whatText = (rule: SecurityRule): string =>
  rule.ip_protocol === 'ip' && portsText(rule) === '' ? 'Everything' : trafficText(rule);

/** One line, as in a list of changes; `now` decides what has expired. */
export function ruleText(rule: StoredRule, names: DeviceNames = noNames, now: number = Date.now()): string {
  const end = rule.expires_at === undefined ? '' : `, ${expiryWords(rule.expires_at, now)}`;
  const description = rule.description === undefined ? '' : ` – ${rule.description}`;
  return `${trafficText(rule)}, ${rangesText(rule, names)}${end}${description}`;
}

interface RuleSummary {
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
