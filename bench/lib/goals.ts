/** Owns how a benchmark sums up what it measured and sets it beside its goals. */
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
}

/** Every goal with what was measured. */
export const goalTable = (goals: readonly Goal[]): string =>
  table(
    ['goal', 'wanted', 'measured', 'met'],
    goals.map(({ what, goal, measured, unit, atLeast }) => [
      what,
      `${atLeast ? '≥' : '≤'} ${figure(goal)} ${unit}`,
      `${figure(measured)} ${unit}`,
      (atLeast ? measured >= goal : measured <= goal) ? 'yes' : 'NO',
    ]),
  );
