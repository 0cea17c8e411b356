/** Owns how a benchmark sums up what it measured, sets it beside its goals, and hands them to the summary of a whole run. */
import { appendFileSync } from 'node:fs';
import { stolenSince } from './stolen.ts';
import { table, figure } from './table.ts';

export const at = (values: readonly number[], share: number): number =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))] ?? Number.NaN;
export const median = (values: readonly number[]): number => at(values, 0.5);

export interface Goal {
  readonly what: string;
  readonly goal: number;
  readonly measured: number;
  readonly unit: string;
  /** Whether more is better; less is, unless said otherwise. */
  readonly atLeast?: true;
  /** What the floor, or a peer, showed in the same run: how much of the figure is not ours. */
  readonly beside?: string;
}

const met = ({ goal, measured, atLeast }: Goal): string => {
  if (Number.isNaN(measured)) return 'not measured';
  return (atLeast ? measured >= goal : measured <= goal) ? 'yes' : 'NO';
};

const cells = (one: Goal): string[] => [
  one.what,
  `${one.atLeast ? '≥' : '≤'} ${figure(one.goal)} ${one.unit}`,
  `${figure(one.measured)} ${one.unit}`,
  met(one),
  one.beside ?? '',
];
const head = ['goal', 'wanted', 'measured', 'met', 'beside it'];

/** Every goal with what was measured. */
export const goalTable = (goals: readonly Goal[]): string => table(head, goals.map(cells));

/** A goal as a run gathers it. */
export interface GatheredGoal extends Goal {
  /** Of which part of its benchmark; empty where that has none. */
  readonly part: string;
  /** The share of the processors that the host took meanwhile. */
  readonly stolen: number;
}

const stolenFromBeginning = stolenSince();

/** Prints goals, and appends them to the file of this benchmark where a whole run gathers them. */
export function showGoals(goals: readonly Goal[], { part = '', stolen = stolenFromBeginning() } = {}): void {
  if (goals.length === 0) return;
  console.log(`\n${goalTable(goals)}`);
  const file = process.env['RINGFENCE_BENCH_GOALS'];
  if (file === undefined) return;
  const lines = goals.map((goal) => `${JSON.stringify({ ...goal, part, stolen } satisfies GatheredGoal)}\n`);
  appendFileSync(file, lines.join(''));
}

/** What `showGoals` appended. */
export const readGoals = (text: string): readonly GatheredGoal[] =>
  text
    .split('\n')
    .filter(Boolean)
    .map((line) => {
      // JSON has no NaN.
      const goal = JSON.parse(line) as Omit<GatheredGoal, 'measured'> & { readonly measured: number | null };
      return { ...goal, measured: goal.measured ?? Number.NaN };
    });

/** Of several measurements of one benchmark, for each of its parts the one from which the host took least, whole. */
export function leastStolen(measurements: readonly (readonly GatheredGoal[])[]): readonly GatheredGoal[] {
  const best = new Map<string, { readonly stolen: number; readonly goals: readonly GatheredGoal[] }>();
  for (const measurement of measurements) {
    for (const part of new Set(measurement.map((goal) => goal.part))) {
      const goals = measurement.filter((goal) => goal.part === part);
      const stolen = Math.max(...goals.map((goal) => goal.stolen));
      if (stolen < (best.get(part)?.stolen ?? Infinity)) best.set(part, { stolen, goals });
    }
  }
  return [...best.values()].flatMap(({ goals }) => goals);
}

/** The goals of several benchmarks in one table, and how many are met. */
export function summary(benchmarks: ReadonlyMap<string, readonly GatheredGoal[]>): string {
  const all = [...benchmarks].flatMap(([name, goals]) => goals.map((goal) => ({ name, goal })));
  const yes = all.filter(({ goal }) => met(goal) === 'yes').length;
  const rows = all.map(({ name, goal }) => [name, `${figure(goal.stolen * 100)} %`, ...cells(goal)]);
  return `${table(['benchmark', 'stolen', ...head], rows)}\n\n${yes} of ${all.length} goals met.`;
}
