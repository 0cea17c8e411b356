/**
 * Measures the agent: its start (`start`), from the API's answer to the kernel, drift, memory (`live`), putting policies in force by size (`apply`), the
 * worst that the limits admit (`worst`) and the search for them (`search`), what a packet pays (`packets`), a forwarded one too
 * (`forwarded`); not the server's own speed.
 * `npm run bench -- agent:worst` runs a part.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { applySizes, measureApply, sizesArgument } from './agent/apply.ts';
import { measureLive } from './agent/live.ts';
import { measureForwarded } from './agent/forwarded.ts';
import { measurePackets } from './agent/packets.ts';
import { searchWorst } from './agent/search.ts';
import { measureStart } from './agent/start.ts';
import { applyArgument, applyFromInput, measureWorst } from './agent/worst.ts';
import type { Goal } from './lib/goals.ts';
import { measureParts } from './lib/parts.ts';
import { buildOurs } from './watch/tools.ts';

/** A search takes minutes and serves only developers of the compiler, so it runs only when named. */
const onlyByName = new Set(['search']);

async function measure(named: readonly string[]): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-bench-agent-'));
  const parts: Readonly<Record<string, () => Promise<readonly Goal[]>>> = {
    start: measureStart,
    live: () => measureLive({ program: buildOurs(folder), folder }),
    apply: measureApply,
    worst: measureWorst,
    packets: measurePackets,
    forwarded: measureForwarded,
    search: async () => {
      searchWorst();
      return [];
    },
  };
  try {
    await measureParts({ parts, asked: named, onlyByName });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const [first, ...rest] = process.argv.slice(2);
if (first === applyArgument) await applyFromInput(rest);
else if (first === sizesArgument) await applySizes(rest);
else await measure(first === undefined ? (process.env['RINGFENCE_BENCH_AGENT']?.split(',') ?? []) : [first, ...rest]);
