/**
 * Measures rules that name devices: from the API's answer to the last of many kernels (`fleet`), a join and a leave in one kernel (`kernel`), what a new
 * flow pays for selectors (`packets`), an agent beside a thousand joins a second, and what roaming devices cost agents (`churn`).
 * `npm run bench -- peers:kernel,packets` runs parts. Shorter: RINGFENCE_BENCH_ROUNDS, RINGFENCE_BENCH_KERNELS, RINGFENCE_BENCH_DEVICES and
 * RINGFENCE_BENCH_SECONDS. Not measured: networks between machines.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { goalTable, type Goal } from './lib/goals.ts';
import { measureFleet } from './peers/fleet.ts';
import { followersArgument, serveFollowers } from './peers/follower-process.ts';
import { measureKernel } from './peers/kernel.ts';
import { measurePeerPackets } from './peers/packets.ts';
import { measureChurn } from './peers/churn.ts';
import { buildOurs } from './watch/tools.ts';

async function measureParts(asked: readonly string[]): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-bench-peers-'));
  let built: string | undefined;
  const program = (): string => (built ??= buildOurs(folder));
  const parts: Readonly<Record<string, () => Promise<readonly Goal[]>>> = {
    kernel: measureKernel,
    packets: measurePeerPackets,
    fleet: () => measureFleet(program()),
    churn: () => measureChurn(program()),
  };

  const unknown = asked.filter((name) => !Object.hasOwn(parts, name));
  if (unknown.length > 0)
    throw new Error(`no such part: ${unknown.join(', ')}; there are: ${Object.keys(parts).join(', ')}`);
  const goals: Goal[] = [];
  try {
    for (const [name, measure] of Object.entries(parts)) {
      if (asked.length > 0 && !asked.includes(name)) continue;
      try {
        goals.push(...(await measure()));
      } catch (error) {
        // The others are measured all the same.
        console.error(`\n${name} failed: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
        process.exitCode = 1;
      }
    }
    console.log('\nThe goals:\n');
    console.log(goalTable(goals));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const args = process.argv.slice(2);
if (args.includes(followersArgument)) serveFollowers();
else await measureParts(args);
