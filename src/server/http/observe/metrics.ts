/** Owns the server's Prometheus metrics. */
import { AggregatorRegistry, collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';

/** The metrics of one process, in the form in which it sends them to another. */
export type Measures = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

export interface Metrics {
  readonly registry: Registry;
  /** Attempts to deliver alerts. */
  readonly webhookDeliveries: Counter<'outcome'>;
  /** Connections that were closed because there were too many, or because they said nothing. */
  readonly connectionsEnded: Counter<'reason'>;
  /** TLS handshakes: full ones, and those that resumed a session. */
  readonly tlsHandshakes: Counter<'kind'>;
  /** Packets that a device of this organization refused. */
  readonly refused: (organization: string, packets: number) => void;
  /** One answered request. */
  request(operation: string, status: number, seconds: number): void;
  /** The metrics of this server: sums over its processes, and values that all processes share once. */
  text(): Promise<string>;
  /** Devices by state, in all organizations, as last counted. */
  countDevices(read: () => Readonly<Record<string, number>> | undefined): void;
}

/** Organizations with a series of their own: a server may have many thousands, and a series lasts as long as the process. */
const mostOrganizations = 500;

/** One registry for each app, so that several may live in one process. */
export function createMetrics(
  options: { readonly process?: boolean; readonly others?: () => Promise<readonly Measures[]> } = {},
): Metrics {
  const { others } = options;
  const registry = new Registry();
  if (options.process !== false) collectDefaultMetrics({ register: registry });
  // Added up over a server's processes, this is how many of them answered.
  new Gauge({ name: 'ringfence_workers', help: 'Processes that serve requests.', registers: [registry] }).set(1);
  const requests = new Counter({
    name: 'ringfence_http_requests_total',
    help: 'Requests answered, by operation and status.',
    labelNames: ['operation', 'status'] as const,
    registers: [registry],
  });
  const seconds = new Histogram({
    name: 'ringfence_http_request_duration_seconds',
    help: 'Time from the first byte of a request to the last of its answer, by operation.',
    labelNames: ['operation'] as const,
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers: [registry],
  });
  const webhookDeliveries = new Counter({
    name: 'ringfence_webhook_deliveries_total',
    help: 'Attempts to deliver alerts to webhooks, by outcome: delivered, failed (the server retries), given_up.',
    labelNames: ['outcome'] as const,
    registers: [registry],
  });
  for (const outcome of ['delivered', 'failed', 'given_up']) webhookDeliveries.inc({ outcome }, 0);
  const connectionsEnded = new Counter({
    name: 'ringfence_connections_ended_total',
    help: 'Connections closed by the server, by reason: address_limit, process_limit, silent.',
    labelNames: ['reason'] as const,
    registers: [registry],
  });
  for (const reason of ['address_limit', 'process_limit', 'silent']) connectionsEnded.inc({ reason }, 0);
  const tlsHandshakes = new Counter({
    name: 'ringfence_tls_handshakes_total',
    help: "Handshakes of the server's own TLS, by kind: full, resumed.",
    labelNames: ['kind'] as const,
    registers: [registry],
  });
  for (const kind of ['full', 'resumed']) tlsHandshakes.inc({ kind }, 0);
  const refusedPackets = new Counter({
    name: 'ringfence_refused_packets_total',
    help: `Refused packets that devices reported, by organization. The first ${mostOrganizations} organizations in each process have their own series; the others add up as "other".`,
    labelNames: ['organization'] as const,
    registers: [registry],
  });
  refusedPackets.inc({ organization: 'other' }, 0);
  const named = new Set<string>();
  const shared = new Registry();
  let readDevices: () => Readonly<Record<string, number>> | undefined = () => undefined;
  const devices = new Gauge({
    name: 'ringfence_devices',
    help: 'Devices of all organizations, by whether their policy is in force. Every server reports the same values.',
    labelNames: ['in_force'] as const,
    registers: [shared],
  });
  // Looking a set of labels up costs more than counting.
  const counters = new Map<string, { inc(): void }>();
  const timers = new Map<string, { observe(seconds: number): void }>();
  return {
    registry,
    webhookDeliveries,
    connectionsEnded,
    tlsHandshakes,
    refused(organization, packets) {
      if (packets === 0) return;
      if (named.size < mostOrganizations) named.add(organization);
      refusedPackets.inc({ organization: named.has(organization) ? organization : 'other' }, packets);
    },
    request(operation, status, took) {
      const key = `${operation} ${status}`;
      let counter = counters.get(key);
      if (counter === undefined) counters.set(key, (counter = requests.labels(operation, String(status))));
      let timer = timers.get(operation);
      if (timer === undefined) timers.set(operation, (timer = seconds.labels(operation)));
      counter.inc();
      timer.observe(took);
    },
    async text() {
      for (const [in_force, count] of Object.entries(readDevices() ?? {})) devices.set({ in_force }, count);
      const all = await shared.metrics();
      if (others === undefined) return `${await registry.metrics()}${all}`;
      const [own, more] = await Promise.all([registry.getMetricsAsJSON(), others()]);
      return `${await AggregatorRegistry.aggregate([own, ...more]).metrics()}${all}`;
    },
    countDevices(read) {
      readDevices = read;
    },
  };
}
