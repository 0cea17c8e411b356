/**
 * Measures what observing traffic costs: a packet in the kernel (`packets`), a real agent beside 1,000 new tuples a minute (`agent`), a server with TLS and PostgreSQL that takes
 * 10,000 reports of 100 tuples a minute (`server`), pages over 10 million stored sums (`pages`), and what 10,000 devices observed of groups (`usage`). `npm run bench -- observe:packets,server` runs parts. Not measured: networks
 * between machines, and disks that are slower than memory.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Goal } from './lib/goals.ts';
import { measureParts } from './lib/parts.ts';
import { measureRecordingAgent } from './observe/agent.ts';
import { measureRecordedPackets } from './observe/packets.ts';
import { measureFlowPages } from './observe/pages.ts';
import { measureFlowReports } from './observe/server.ts';
import { measureUsage } from './observe/usage.ts';
import { buildOurs } from './watch/tools.ts';

const folder = mkdtempSync(join(tmpdir(), 'ringfence-bench-observe-'));
try {
  const parts: Readonly<Record<string, () => Promise<readonly Goal[]>>> = {
    packets: measureRecordedPackets,
    agent: () => measureRecordingAgent({ program: buildOurs(folder), folder }),
    server: measureFlowReports,
    pages: measureFlowPages,
    usage: measureUsage,
  };
  await measureParts({ parts, asked: process.argv.slice(2) });
} finally {
  rmSync(folder, { recursive: true, force: true });
}
