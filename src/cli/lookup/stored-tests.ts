/** Owns the stored policy tests: read with the revision that a write of them expects, and replaced without losing what others wrote. */
import type { PolicyTestResult } from '../../api/policy-tests/policy-test.ts';
import { RingfenceError } from '../../client/error.ts';
import { revisionOf } from '../../client/headers.ts';
import type { PolicyTest } from '../../policy/policy-test/policy-test.ts';
import type { Session } from '../session/session.ts';
import { testInWords } from '../../policy/policy-test/words.ts';
import { effectOf } from './effect.ts';

export interface StoredTests {
  readonly tests: readonly PolicyTest[];
  /** Of the list of tests; no revision of the organization. */
  readonly revision: number | undefined;
}

export const noTests: StoredTests = { tests: [], revision: undefined };

/** The tests as they are stored, without their states. */
export async function storedTests(session: Session): Promise<StoredTests> {
  const client = await session.client();
  const params = { org_id: await session.organization() };
  const { value, etag } = await client.request('listPolicyTests', { params });
  return {
    tests: value.map(({ state: _state, failure: _failure, until: _until, ...test }) => test as PolicyTest),
    revision: revisionOf(etag),
  };
}

const attempts = 5;

/** Replaces the tests with what `change` makes of them. Tests that somebody else wrote in the meantime are kept. */
export async function replaceTests(
  session: Session,
  change: (tests: readonly PolicyTest[]) => PolicyTest[],
): Promise<readonly PolicyTestResult[]> {
  const client = await session.client();
  const organization = await session.organization();
  for (let attempt = 1; ; attempt += 1) {
    const { tests, revision } = await storedTests(session);
    try {
      return await client.policyTests.replace(organization, change(tests), {
        ...session.testQuery,
        ...(revision !== undefined && { ifMatch: revision }),
      });
    } catch (error) {
      const raced = error instanceof RingfenceError && error.code === 'precondition_failed';
      if (!raced || attempt === attempts) throw error;
    }
  }
}

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
