/** Owns the parts of a long benchmark: which of them run, what each took, how much of that the host took, and that one that fails leaves the others to be measured. */
import { showGoals, type Goal } from './goals.ts';
import { stolenSince } from './stolen.ts';
import { figure } from './table.ts';

export interface Parts {
  readonly parts: Readonly<Record<string, () => Promise<readonly Goal[]>>>;
  /** Those that were named; none: all but those that run only by their name. */
  readonly asked: readonly string[];
  readonly onlyByName?: ReadonlySet<string>;
}

export async function measureParts({ parts, asked, onlyByName }: Parts): Promise<void> {
  const unknown = asked.filter((name) => !Object.hasOwn(parts, name));
  if (unknown.length > 0)
    throw new Error(`no such part: ${unknown.join(', ')}; there are: ${Object.keys(parts).join(', ')}`);
  const failed: string[] = [];
  for (const [name, measure] of Object.entries(parts)) {
    if (asked.length > 0 ? !asked.includes(name) : onlyByName?.has(name)) continue;
    const began = Date.now();
    const stolen = stolenSince();
    try {
      showGoals(await measure(), { part: name, stolen: stolen() });
    } catch (error) {
      failed.push(name);
      console.log(`\n${name} failed: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
    }
    console.log(
      `\n(${name}: ${Math.round((Date.now() - began) / 1_000)} s, ${figure(stolen() * 100)} % of the processors stolen)`,
    );
  }
  if (failed.length === 0) return;
  console.log(`\nNot measured, because it failed: ${failed.join(', ')}`);
  process.exitCode = 1;
}
