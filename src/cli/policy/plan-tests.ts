/** Owns what policy files make of the policy tests that the server has: a step for each test that is created, changed or deleted. */
import type { PolicyTest } from '../../policy/policy-test/policy-test.ts';
import type { Line } from '../../client/words/changes.ts';
import type { DeviceNaming } from '../../client/words/rule.ts';
import type { DesiredTest } from './policy-file.ts';
import { testWords } from './written-test.ts';

export interface TestStep {
  readonly action: 'create' | 'update' | 'delete';
  readonly kind: 'test';
  readonly name: string;
  /** File and line; absent for what no file names. */
  readonly where?: string;
  readonly lines: readonly Line[];
  /** As it is to be; of a deletion, as it was. */
  readonly test: PolicyTest;
}

/** Equal for tests that say the same. */
const contentOf = ({ from, to, protocol, port, expect, note = '' }: PolicyTest): string =>
  JSON.stringify([from, to, protocol, port, expect, note]);

function changeLines(before: PolicyTest, after: PolicyTest, names: DeviceNaming): readonly Line[] {
  const [old, now] = [testWords(before, names), testWords(after, names)];
  return [
    ...(old === now ? [] : [['-', old] as const, ['+', now] as const]),
    ...(before.note === after.note
      ? []
      : [['~', `note ${JSON.stringify(before.note ?? '')} → ${JSON.stringify(after.note ?? '')}`] as const]),
  ];
}

/** Tests are known by their names. Those that no file names stay, unless they are pruned. */
export function testSteps(
  desired: readonly DesiredTest[] | undefined,
  stored: readonly PolicyTest[],
  { prune, names }: { readonly prune: boolean; readonly names: DeviceNaming },
): readonly TestStep[] {
  if (desired === undefined) return [];
  const before = new Map(stored.map((test) => [test.name, test]));
  const written = desired.flatMap(({ test, where }): readonly TestStep[] => {
    const old = before.get(test.name);
    if (old === undefined)
      return [{ action: 'create', kind: 'test', where, name: test.name, test, lines: [['+', testWords(test, names)]] }];
    if (contentOf(old) === contentOf(test)) return [];
    return [{ action: 'update', kind: 'test', where, name: test.name, test, lines: changeLines(old, test, names) }];
  });
  if (!prune) return written;
  const kept = new Set(desired.map(({ test }) => test.name));
  const gone = stored
    .filter(({ name }) => !kept.has(name))
    .map((test): TestStep => ({
      action: 'delete',
      kind: 'test',
      name: test.name,
      test,
      lines: [['-', testWords(test, names)]],
    }));
  return [...written, ...gone];
}

/** The list of tests after the steps. */
export function testsAfter(stored: readonly PolicyTest[], steps: readonly TestStep[]): PolicyTest[] {
  const byName = new Map(steps.map((step) => [step.name, step]));
  const kept = stored.flatMap((test) => {
    const step = byName.get(test.name);
    return step === undefined ? [test] : step.action === 'delete' ? [] : [step.test];
  });
  return [...kept, ...steps.flatMap(({ action, test }) => (action === 'create' ? [test] : []))];
}
