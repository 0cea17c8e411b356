/** Owns when the loop reads the kernel's counters and when it saves the totals. */
import type { Loop } from './loop.ts';

/** Reads the counters. Where they cannot be read, the totals stay. */
export async function readCounters({ state, options: { nft } }: Pick<Loop, 'state' | 'options'>): Promise<void> {
  const readings = await nft.counters().catch(() => undefined);
  if (readings !== undefined) state.totals.see(readings);
}

/** Reads the counters and saves the totals. They are worth no trouble: what cannot be written is written the next time. */
export async function saveCounters(loop: Pick<Loop, 'state' | 'options'>): Promise<void> {
  await readCounters(loop);
  if (loop.state.started) await loop.options.state?.saveCounterTotals(loop.state.totals).catch(() => {});
}
