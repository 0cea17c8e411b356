/** Owns a running hub: it drives the hub's clock in real time, and stops it. */
import type { Registry } from 'prom-client';
import type { StreamQuota } from '../limits/stream-quota.ts';
import { Hub, type HubOptions } from './hub.ts';
import { tellMetrics } from './metrics.ts';
import type { WatchSettings } from './settings.ts';

export interface WatchService {
  readonly hub: Hub;
  /** Ends every stream cleanly, spread over at most this time; those that do not take their end are closed after a few seconds. */
  drain(longestMs: number): Promise<void>;
  close(): void;
}

export interface WatchServiceOptions {
  readonly source: HubOptions['source'];
  readonly logs: HubOptions['logs'];
  readonly broadcast: HubOptions['broadcast'];
  readonly settings?: Partial<WatchSettings>;
  readonly clock?: () => number;
  readonly random?: () => number;
  readonly registry?: Registry;
  readonly streamQuota?: StreamQuota | undefined;
  readonly devices?: HubOptions['devices'];
  readonly onWarning: (message: string, cause: unknown) => void;
}

/** How often every stream is looked at: well within the second in which an expired credential must end its stream. */
export const sweepMs = 500;

export function startWatch(options: WatchServiceOptions): WatchService {
  const hub = new Hub({
    source: options.source,
    logs: options.logs,
    broadcast: options.broadcast,
    settings: options.settings ?? {},
    clock: { now: options.clock ?? Date.now },
    random: options.random ?? Math.random,
    defer: (run) => void setImmediate(run),
    later: (run, ms) => void setTimeout(run, ms),
    streamQuota: options.streamQuota,
    devices: options.devices,
    onWarning: options.onWarning,
  });
  if (options.registry !== undefined) tellMetrics(hub, options.registry);
  let sweeping = false;
  const sweep = (): void => {
    sweeping = !hub.sweep();
    if (sweeping) setImmediate(sweep);
  };
  const timers = [
    setInterval(() => void hub.poll(), hub.settings.pollMs).unref(),
    setInterval(() => {
      if (!sweeping) sweep();
    }, sweepMs).unref(),
  ];
  return {
    hub,
    drain: (longestMs) => hub.drain(longestMs),
    close() {
      for (const timer of timers) clearInterval(timer);
      hub.close();
    },
  };
}
