/**
 * Measures the change stream end to end: from a write's acknowledgement by the API to its arrival at the last of thousands of
 * streams, beside etcd and NATS doing the same job and a C program that only writes the bytes. Not the speed of the API itself.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { goalTable, type Goal } from './lib/goals.ts';
import { table } from './lib/table.ts';
import type { Bench, Part } from './watch/bench.ts';
import { fanOut, fanOuts } from './watch/fanout.ts';
import { BenchDatabase } from './watch/ours.ts';
import { flat, listing, many, opening, reconnect, replicas, stuck } from './watch/parts.ts';
import { buildOurs, compile } from './watch/tools.ts';

const parts: Readonly<Record<string, (bench: Bench) => Promise<Part>>> = {
  '1k': (bench) => fanOut(bench, fanOuts['1k']),
  '10k': (bench) => fanOut(bench, fanOuts['10k']),
  '19k': (bench) => fanOut(bench, fanOuts['19k']),
  opening,
  listing,
  reconnect,
  stuck,
  replicas,
  flat,
  many,
};

const asked = process.argv.slice(2);
const unknown = asked.filter((name) => !(name in parts));
if (unknown.length > 0)
  throw new Error(`no such part: ${unknown.join(', ')}; there are: ${Object.keys(parts).join(', ')}`);

const folder = mkdtempSync(join(tmpdir(), 'rf-bench-'));
const database = await BenchDatabase.start(folder);
const goals: Goal[] = [];
const failed: string[] = [];
try {
  const bench: Bench = {
    folder,
    database,
    program: buildOurs(folder),
    load: compile('load.c', folder),
    floor: compile('floor.c', folder),
  };
  for (const [name, part] of Object.entries(parts)) {
    if (asked.length > 0 && !asked.includes(name)) continue;
    const began = Date.now();
    try {
      const done = await part(bench);
      const seconds = Math.round((Date.now() - began) / 1_000);
      console.log(`\n${done.title}\n\n${table(done.head, done.rows)}\n\n(${name}: ${seconds} s)`);
      goals.push(...(done.goals ?? []));
    } catch (error) {
      // The others can still be measured; that one is missing is told at the end too.
      failed.push(name);
      console.log(`\n${name} failed: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  console.log(`\nThe goals:\n\n${goalTable(goals)}`);
  if (failed.length > 0) {
    console.log(`\nNot measured, because it failed: ${failed.join(', ')}`);
    process.exitCode = 1;
  }
} finally {
  await database.stop();
  rmSync(folder, { recursive: true, force: true });
}
