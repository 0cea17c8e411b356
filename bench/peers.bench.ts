/**
 * Measures rules that name devices: from the API's answer to the last of many kernels (`fleet`), a join and a leave in one kernel (`kernel`), what a new
 * flow pays for selectors (`packets`), an agent beside a thousand joins a second, what roaming devices cost agents (`churn`), and what an isolated device reaches (`cut-off`, with packets).
 * `npm run bench -- peers:kernel,packets` runs parts. Shorter: RINGFENCE_BENCH_ROUNDS, RINGFENCE_BENCH_KERNELS, RINGFENCE_BENCH_DEVICES and
 * RINGFENCE_BENCH_SECONDS. Not measured: networks between machines.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Goal } from './lib/goals.ts';
import { measureParts } from './lib/parts.ts';
import { proveCutOff } from './peers/cut-off.ts';
import { measureFleet } from './peers/fleet.ts';
import { followersArgument, serveFollowers } from './peers/follower-process.ts';
import { measureKernel } from './peers/kernel.ts';
import { measurePeerPackets } from './peers/packets.ts';
import { measureChurn } from './peers/churn.ts';
import { buildOurs } from './watch/tools.ts';

async function measure(asked: readonly string[]): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-bench-peers-'));
  let built: string | undefined;
  const program = (): string => (built ??= buildOurs(folder));
  const parts: Readonly<Record<string, () => Promise<readonly Goal[]>>> = {
    kernel: measureKernel,
    packets: measurePeerPackets,
    fleet: () => measureFleet(program()),
    churn: () => measureChurn(program()),
    'cut-off': () => proveCutOff(program()),
  };
  try {
    await measureParts({ parts, asked });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const args = process.argv.slice(2);
if (args.includes(followersArgument)) serveFollowers();
else await measure(args);
