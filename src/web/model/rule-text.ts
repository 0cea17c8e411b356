/** Owns the wording of rules: protocols and services by their common names. */
import { expiryWords } from '../../client/words/expiry.ts';
import type { SecurityRule, StoredRule } from '../../policy/rule.ts';
import { services } from '../../policy/services.ts';
import { chipsOf, noNames, type DeviceNames } from './far-end.ts';
import { grouped } from '../../client/words/number.ts';

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

export const plural = (count: number, noun: string, nouns = `${noun}s`): string =>
  `${grouped(count)} ${count === 1 ? noun : nouns}`;
