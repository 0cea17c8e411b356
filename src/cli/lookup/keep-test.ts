/** Owns the adding of one policy test: by hand, or to keep an answer of `explain`. */
import type { PolicyTestResult } from '../../api/policy-tests/policy-test.ts';
import type { PolicyTest } from '../../policy/policy-test/policy-test.ts';
import { testInWords } from '../../policy/policy-test/words.ts';
import type { Session } from '../session/session.ts';
import { effectOf } from './effect.ts';
import { replaceTests, storedTests } from './stored-tests.ts';

export interface KeptTest {
  readonly record: PolicyTest | PolicyTestResult;
  /** What was done, for a person. */
  readonly sentence: string;
}

/** Adds the test in place of the one with its name; with `--dry-run`, only says what it would be. */
export async function keepTest(session: Session, test: PolicyTest): Promise<KeptTest> {
  const change = (tests: readonly PolicyTest[]): PolicyTest[] =>
    tests.some(({ name }) => name === test.name)
      ? tests.map((one) => (one.name === test.name ? test : one))
      : [...tests, test];
  const words = `test ${test.name}: ${testInWords(test)}`;
  const isTest = ({ name }: PolicyTestResult): boolean => name === test.name;
  if (session.values.dryRun === true) {
    const { tests } = await storedTests(session);
    const { simulation, notes } = await effectOf(session, { policy_tests: change(tests) });
    for (const note of notes) session.say(note);
    const result = simulation?.tests.find(isTest);
    const state = result === undefined ? '' : ` It would be ${result.state}.`;
    return { record: result ?? test, sentence: `+ ${words}.${state} Nothing was written.` };
  }
  const results = await replaceTests(session, change);
  const result = results.find(isTest);
  return {
    record: result ?? test,
    sentence: `Added ${words}.${result === undefined ? '' : ` It is ${result.state}.`}`,
  };
}
