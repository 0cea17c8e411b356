/**
 * Measures the change stream end to end: from a write's acknowledgement by the API to its arrival at the last of thousands of
 * streams, beside etcd and NATS doing the same job and a C program that only writes the bytes. Not the speed of the API itself.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Goal } from './lib/goals.ts';
import { measureParts } from './lib/parts.ts';
import { table } from './lib/table.ts';
import { makeCertificate } from './lib/tls.ts';
import type { Bench, Part } from './watch/bench.ts';
import { capacity } from './watch/capacity.ts';
import { fanOut } from './watch/fanout.ts';
import { fanOuts } from './watch/fanout-goals.ts';
import { BenchDatabase } from './watch/ours.ts';
import { flat, listing, many, opening, reconnect, replicas, stuck } from './watch/parts.ts';
import { buildOurs, compile } from './watch/tools.ts';

const folder = mkdtempSync(join(tmpdir(), 'rf-bench-'));
const database = await BenchDatabase.start(folder);
const tls = makeCertificate(folder);
try {
  const bench: Bench = {
    folder,
    database,
    program: buildOurs(folder),
    load: compile('load.c', folder),
    floor: compile('floor.c', folder),
    tls,
  };
  const shown = (part: (given: Bench) => Promise<Part>) => async (): Promise<readonly Goal[]> => {
    const { title, head, rows, goals = [] } = await part(bench);
    console.log(`\n${title}\n\n${table(head, rows)}`);
    return goals;
  };
  const parts = {
    deployed: shown((given) => fanOut(given, fanOuts.deployed)),
    '1k': shown((given) => fanOut(given, fanOuts['1k'])),
    '10k': shown((given) => fanOut(given, fanOuts['10k'])),
    '19k': shown((given) => fanOut(given, fanOuts['19k'])),
    opening: shown(opening),
    listing: shown(listing),
    reconnect: shown(reconnect),
    stuck: shown(stuck),
    replicas: shown(replicas),
    flat: shown(flat),
    many: shown(many),
    capacity: shown(capacity),
  };
  await measureParts({ parts, asked: process.argv.slice(2), onlyByName: new Set(['capacity']) });
} finally {
  await database.stop();
  rmSync(folder, { recursive: true, force: true });
}
