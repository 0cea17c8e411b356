/** Measures the agent: from the API's answer to the kernel, putting policies in force by size, what a packet pays, drift, memory; not the server's own speed. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { measureApply } from './agent/apply.ts';
import { goalTable } from './agent/figures.ts';
import { measureLive } from './agent/live.ts';
import { measurePackets } from './agent/packets.ts';
import { buildOurs } from './watch/tools.ts';

const folder = mkdtempSync(join(tmpdir(), 'ringfence-bench-agent-'));
try {
  const live = await measureLive({ program: buildOurs(folder), folder });
  const goals = [...live, ...(await measureApply()), ...(await measurePackets())];
  console.log('\nThe goals:\n');
  console.log(goalTable(goals));
} finally {
  rmSync(folder, { recursive: true, force: true });
}
