/**
 * Measures the agent: from the API's answer to the kernel, drift, memory (`live`), putting policies in force by size (`apply`), what a
 * packet pays (`packets`); not the server's own speed. RINGFENCE_BENCH_AGENT names parts.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { measureApply } from './agent/apply.ts';
import { measureLive } from './agent/live.ts';
import { measurePackets } from './agent/packets.ts';
import { goalTable, type Goal } from './lib/goals.ts';
import { buildOurs } from './watch/tools.ts';

const folder = mkdtempSync(join(tmpdir(), 'ringfence-bench-agent-'));
const parts: Readonly<Record<string, () => Promise<readonly Goal[]>>> = {
  live: () => measureLive({ program: buildOurs(folder), folder }),
  apply: measureApply,
  packets: measurePackets,
};
try {
  const chosen = process.env['RINGFENCE_BENCH_AGENT']?.split(',') ?? Object.keys(parts);
  const unknown = chosen.filter((name) => !Object.hasOwn(parts, name));
  if (unknown.length > 0)
    throw new Error(`no such part: ${unknown.join(', ')}; there are: ${Object.keys(parts).join(', ')}`);
  const goals: Goal[] = [];
  for (const name of chosen) goals.push(...((await parts[name]?.()) ?? []));
  console.log('\nThe goals:\n');
  console.log(goalTable(goals));
} finally {
  rmSync(folder, { recursive: true, force: true });
}
