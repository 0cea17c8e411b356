/** Owns what a run has gathered: a folder for each benchmark, with a file of goals for each time that it, or parts of it, ran. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { leastStolen, readGoals, summary, type GatheredGoal } from './goals.ts';
import { robbedShare } from './stolen.ts';

function gathered(folder: string): ReadonlyMap<string, readonly GatheredGoal[]> {
  const goalsOf = (name: string): readonly GatheredGoal[] => {
    const files = readdirSync(join(folder, name)).toSorted();
    return leastStolen(files.map((file) => readGoals(readFileSync(join(folder, name, file), 'utf8'))));
  };
  return new Map(
    readdirSync(folder)
      .toSorted()
      .map((name) => [name, goalsOf(name)]),
  );
}

/** What is to be measured again, because the host took too much each time: benchmark and part, which is empty where it has none. */
export const robbedParts = (folder: string): readonly (readonly [benchmark: string, part: string])[] =>
  [...gathered(folder)].flatMap(([name, goals]) => {
    const robbed = goals.filter(({ stolen }) => stolen > robbedShare);
    return [...new Set(robbed.map(({ part }) => part))].map((part) => [name, part] as const);
  });

/** Every goal of the benchmarks that ran, in one table. */
export function showSummary(folder: string): void {
  const benchmarks = gathered(folder);
  if (benchmarks.size > 0) console.log(`\n# All goals\n\n${summary(benchmarks)}`);
}
