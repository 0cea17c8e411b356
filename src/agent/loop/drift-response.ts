/** Owns the response to changes that other programs make to our table: the mark that they set, and the log lines. */
import type { Finding } from '../../nft/read/read-chain.ts';
import type { MonitorEvent } from '../kernel/monitor-events.ts';
import type { Loop } from './loop.ts';
import { markUncheckedFlows } from './unchecked-flows.ts';

/** The kernel's monitor needs a moment before it sees everything. */
const settleTime = 1_000;

/** Marks what the event calls for; false where it calls for nothing. */
export function markMonitorEvent({ state, options, enforcer }: Loop, event: MonitorEvent): boolean {
  const { nft, monotonic, describe } = options;
  const now = monotonic();
  if (event.kind === 'lost') {
    enforcer.distrust();
    state.inspectAt = Math.min(state.inspectAt, now + settleTime);
    return true;
  }
  const { author, change, lines, ended = false } = event.generation;
  if (author !== undefined && nft.owns(author.pid)) {
    state.authorsAreKnown = true;
    return false;
  }
  if (change === undefined && !ended) return false;
  if (change !== undefined) enforcer.noteChange();
  if (!state.authorsAreKnown) {
    // The change may be our own under another number: only an inspection can decide.
    state.inspectAt = now;
    return true;
  }
  const by = author === undefined ? 'unknown' : (describe?.(author) ?? `${author.name} (${author.pid})`);
  state.changes = [...state.changes, { by, what: lines }];
  state.endedChanged ||= ended;
  if (change === undefined) return true;
  state.tableChange = {
    tables: new Set([...change.tables, ...(state.tableChange?.tables ?? [])]),
    chains: new Set([...change.chains, ...(state.tableChange?.chains ?? [])]),
  };
  return true;
}

/** Counts a repair and says who made it necessary. */
export function noteDrift(loop: Loop, by: string, what: readonly string[]): void {
  const {
    state,
    options: { clock, log },
  } = loop;
  state.driftRepairs++;
  state.lastDrift = { at: clock.now(), by, what };
  // Who came in meanwhile is looked at.
  markUncheckedFlows(loop);
  log('warn', 'another program changed the Ringfence table; the agent repaired it', { by, what: what.join('; ') });
}

export function noteFindings(loop: Loop, findings: readonly Finding[]): void {
  if (findings.length === 0) return;
  const what = findings.map(({ name, detail }) => (name === '' ? detail : `${name}: ${detail}`));
  noteDrift(loop, 'unknown', what);
}
