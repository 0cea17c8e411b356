/**
 * Measures the change stream end to end: from a write's acknowledgement by the API to its arrival at the last of thousands of
 * streams, beside etcd and NATS doing the same job and a C program that only writes the bytes. RINGFENCE_BENCH_WATCH names parts.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { table } from './lib/table.ts';
import { BenchDatabase } from './watch/ours.ts';
import { parts, type Bench } from './watch/parts.ts';
import { buildOurs, compile } from './watch/tools.ts';

const chosen = process.env['RINGFENCE_BENCH_WATCH']?.split(',') ?? Object.keys(parts);
const unknown = chosen.filter((name) => !(name in parts));
if (unknown.length > 0)
  throw new Error(`no such part: ${unknown.join(', ')}; there are: ${Object.keys(parts).join(', ')}`);

const folder = mkdtempSync(join(tmpdir(), 'rf-bench-'));
const database = await BenchDatabase.start(folder);
try {
  const bench: Bench = {
    folder,
    database,
    program: buildOurs(folder),
    load: compile('load.c', folder),
    floor: compile('floor.c', folder),
  };
  for (const [name, part] of Object.entries(parts)) {
    if (!chosen.includes(name)) continue;
    const { title, head, rows } = await part(bench);
    console.log(`\n${title}\n\n${table(head, rows)}`);
  }
} finally {
  await database.stop();
  rmSync(folder, { recursive: true, force: true });
}
