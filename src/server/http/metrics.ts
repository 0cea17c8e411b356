/** Owns what the server measures of itself, for Prometheus. */
import { collectDefaultMetrics, Counter, Histogram, Registry } from 'prom-client';

export interface Metrics {
  readonly registry: Registry;
  /** One answered request. */
  request(operation: string, status: number, seconds: number): void;
}

/** One registry for each app, so that several may live in one process. */
export function createMetrics(options: { readonly process?: boolean } = {}): Metrics {
  const registry = new Registry();
  if (options.process !== false) collectDefaultMetrics({ register: registry });
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
  return {
    registry,
    request(operation, status, took) {
      requests.inc({ operation, status: String(status) });
      seconds.observe({ operation }, took);
    },
  };
}
