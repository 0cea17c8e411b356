/** Owns well-known services: names for ports. */

export interface Service {
  /** As people write it. */
  readonly name: string;
  /** As people type it; none where it has no port. */
  readonly words: readonly string[];
  readonly ip_protocol: 'tcp' | 'udp' | 'ip' | 'icmp' | 'icmpv6';
  /** 0 where the protocol has no ports. */
  readonly port: number;
}

const service = (
  name: string,
  ip_protocol: Service['ip_protocol'],
  port: number,
  ...words: readonly string[]
): Service => ({ name, words, ip_protocol, port });

export const services: readonly Service[] = [
  service('SSH', 'tcp', 22, 'ssh'),
  service('HTTP', 'tcp', 80, 'http'),
  service('HTTPS', 'tcp', 443, 'https'),
  service('HTTP/3', 'udp', 443, 'http3', 'quic'),
  service('DNS', 'ip', 53, 'dns', 'domain'),
  service('NTP', 'udp', 123, 'ntp'),
  service('WireGuard', 'udp', 51_820, 'wireguard'),
  service('PostgreSQL', 'tcp', 5432, 'postgres', 'postgresql'),
  service('MySQL', 'tcp', 3306, 'mysql'),
  service('Redis', 'tcp', 6379, 'redis'),
  service('Kafka', 'tcp', 9092, 'kafka'),
  service('SMTP', 'tcp', 25, 'smtp'),
  service('IMAPS', 'tcp', 993, 'imaps'),
  service('LDAPS', 'tcp', 636, 'ldaps'),
  service('RDP', 'tcp', 3389, 'rdp'),
  service('Prometheus', 'tcp', 9090, 'prometheus'),
  service('Node exporter', 'tcp', 9100, 'node-exporter'),
  service('Ping (IPv4)', 'icmp', 0),
  service('Ping (IPv6)', 'icmpv6', 0),
];

/** The service that a word means, in any letter case. */
export function serviceNamed(word: string): Service | undefined {
  const lower = word.toLowerCase();
  return services.find(({ words }) => words.includes(lower));
}

/** Whether the service fits this protocol: `udp ssh` is a mistake, `ip ssh` is not. */
export const fitsProtocol = ({ ip_protocol }: Service, protocol: string): boolean =>
  ip_protocol === 'ip' || ip_protocol === protocol || (protocol !== 'tcp' && protocol !== 'udp');
