/** Owns rules in words: protocols and well-known services as people name them. */
import type { SecurityRule, StoredRule } from '../../policy/rule.ts';

export interface Service {
  readonly name: string;
  readonly ip_protocol: 'tcp' | 'udp' | 'ip' | 'icmp' | 'icmpv6';
  readonly from: number;
  readonly to: number;
}

const one = (name: string, ip_protocol: Service['ip_protocol'], port: number): Service => ({
  name,
  ip_protocol,
  from: port,
  to: port,
});

export const services: readonly Service[] = [
  one('SSH', 'tcp', 22),
  one('HTTP', 'tcp', 80),
  one('HTTPS', 'tcp', 443),
  one('HTTP/3', 'udp', 443),
  one('DNS', 'ip', 53),
  one('NTP', 'udp', 123),
  one('WireGuard', 'udp', 51_820),
  one('PostgreSQL', 'tcp', 5432),
  one('MySQL', 'tcp', 3306),
  one('Redis', 'tcp', 6379),
  one('Kafka', 'tcp', 9092),
  one('SMTP', 'tcp', 25),
  one('IMAPS', 'tcp', 993),
  one('LDAPS', 'tcp', 636),
  one('RDP', 'tcp', 3389),
  one('Prometheus', 'tcp', 9090),
  one('Node exporter', 'tcp', 9100),
  one('Ping (IPv4)', 'icmp', 0),
  one('Ping (IPv6)', 'icmpv6', 0),
];

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
    ({ ip_protocol, from }) =>
      from === rule.from_port &&
      (ip_protocol === rule.ip_protocol || (ip_protocol === 'ip' && !isIcmp(rule.ip_protocol))),
  )?.name;
}

export const rangesText = (rule: SecurityRule): string => (rule.ip_ranges ?? []).join(', ') || 'any address';

/** One line, as in a list of changes. */
export function ruleText(rule: StoredRule): string {
  const ports = portsText(rule);
  const service = serviceName(rule);
  const what = `${protocolName(rule.ip_protocol)}${ports === '' ? '' : ` ${ports}`}${service === undefined ? '' : ` (${service})`}`;
  return `${what}, ${rangesText(rule)}`;
}

export const plural = (count: number, noun: string, nouns = `${noun}s`): string =>
  `${count.toLocaleString('en')} ${count === 1 ? noun : nouns}`;
