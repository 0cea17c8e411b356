/** Owns the end of a run: every goal of the benchmarks that ran, in one table. Given the folder that holds a file of goals for each. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readGoals, summary } from './goals.ts';

const [folder = '.'] = process.argv.slice(2);
const benchmarks = readdirSync(folder)
  .toSorted()
  .map((name) => [name, readGoals(readFileSync(join(folder, name), 'utf8'))] as const);
if (benchmarks.length > 0) console.log(`\n# All goals\n\n${summary(new Map(benchmarks))}`);
