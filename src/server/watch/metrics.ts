/** Owns the hub's Prometheus metrics. */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { Hub } from './hub.ts';

/** Registers everything the hub counts. */
export function tellMetrics(hub: Hub, registry: Registry): void {
  const registers = [registry];
  const gauge = (name: string, help: string, read: () => number): void => {
    const made: Gauge = new Gauge({ name, help, registers, collect: () => made.set(read()) });
  };
  const counter = (name: string, help: string, read: () => number): void => {
    const made: Counter = new Counter({
      name,
      help,
      registers,
      collect: () => {
        made.reset();
        made.inc(read());
      },
    });
  };
  const { stats, logs } = hub;
  gauge('ringfence_watch_streams', 'Open streams.', () => hub.streams);
  gauge('ringfence_watch_organizations', 'Organizations kept in memory for streams.', () => hub.organizations);
  gauge('ringfence_watch_ring_bytes', 'Memory of the newest events.', () => hub.memory.rings);
  gauge('ringfence_watch_listing_bytes', 'Memory of listings kept ready.', () => hub.memory.listings);
  counter('ringfence_watch_opened_total', 'Streams opened.', () => stats.opened);
  counter('ringfence_watch_resumes_total', 'Streams opened after a revision.', () => stats.resumes);
  counter('ringfence_watch_ring_hits_total', 'Resumes answered from memory alone.', () => stats.ringHits);
  counter('ringfence_watch_deliveries_total', 'Documents sent.', () => stats.deliveries);
  counter('ringfence_watch_sent_bytes_total', 'Bytes sent in documents.', () => stats.bytes);
  counter('ringfence_watch_heartbeats_total', 'Heartbeats sent.', () => stats.heartbeats);
  counter('ringfence_watch_log_reads_total', 'Reads of the change log.', () => logs.stats.reads);
  counter('ringfence_watch_state_reads_total', 'Pages of state read for listings and resumes.', () => stats.stateReads);
  counter('ringfence_watch_resyncs_total', 'Holes met in the change log.', () => logs.stats.resyncs);
  const ended = new Counter({
    name: 'ringfence_watch_ended_total',
    help: 'Streams ended, by reason.',
    labelNames: ['why'] as const,
    registers,
    collect: () => {
      ended.reset();
      for (const [why, count] of stats.endings) ended.inc({ why }, count);
    },
  });
  const lag = new Histogram({
    name: 'ringfence_watch_lag_seconds',
    help: 'From reading changes to having written them to the last stream that could take them.',
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
    registers,
  });
  stats.onLag = (seconds) => lag.observe(seconds);
}
