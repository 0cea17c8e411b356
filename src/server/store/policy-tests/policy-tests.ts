/** Owns policy tests in the store: one list for each organization, replaced as a whole. */
import type { OrganizationId } from '../../../policy/ids.ts';
import {
  testLimits,
  type FailingTest,
  type PolicyTest,
  type TestResult,
} from '../../../policy/policy-test/policy-test.ts';
import { resultsOf } from '../../../organization/policy-test/evaluate.ts';
import { isTooCostly, refuse } from '../../problems.ts';
import { statement } from '../postgres/sql.ts';
import type { Context } from '../write/context.ts';
import { inOrganization, type Locked } from '../write/transaction.ts';
import type { AuditSubject } from '../write/audit-entry.ts';
import type { Actor } from '../data/actor.ts';
import { refuseBroken } from './check.ts';
import {
  judge,
  judgeInTransaction,
  readTested,
  readTests,
  type StateMemory,
  type TestedOrganization,
} from './state.ts';
import type { Expected } from '../data/page.ts';

/** The tests of an organization and their results at one revision of it. */
export interface PolicyTestResults {
  readonly tests: readonly PolicyTest[];
  /** In the order of the tests. */
  readonly results: readonly TestResult[];
  /** Of the list of tests: it counts how often the list was replaced, and is no revision of the organization. */
  readonly revision: number;
}

/**
 * Runs in a transaction. The flag `has_tests` is beside the revision, in a row that every write reads anyway: without
 * tests, writes pay nothing for them. Values: organization, revision, tests, how many there are, now.
 */
const writeTests = statement<never>(
  'write_policy_tests',
  `WITH flag AS (UPDATE heads SET has_tests = $4::integer > 0 WHERE org_id = $1)
   INSERT INTO policy_tests (org_id, revision, tests, updated_at) VALUES ($1, $2, $3, $5)
   ON CONFLICT (org_id) DO UPDATE SET revision = excluded.revision, tests = excluded.tests, updated_at = excluded.updated_at`,
);

async function judgedTests(state: TestedOrganization, { clock, slices }: StateMemory): Promise<PolicyTestResults> {
  const judged = await judge(state, { now: clock(), slices });
  const results = await slices.run(resultsOf(judged, state.tests.keys()));
  return { tests: state.tests, results, revision: state.testsRevision };
}

/** What of a test decides its state. */
const contentOf = ({ name, from, to, protocol, port, expect }: PolicyTest): string =>
  JSON.stringify([name, from, to, protocol, port, expect]);

/** The tests before and after, for the audit; nothing where they are the same. */
export const testsChange = (
  before: TestedOrganization,
  after: TestedOrganization,
): Pick<AuditSubject, 'before' | 'after'> =>
  before.mark === after.mark ? {} : { before: { policy_tests: before.tests }, after: { policy_tests: after.tests } };

/**
 * Replaces the tests in a transaction and judges them by what it has written so far. `before` is the organization before the
 * transaction: a test that failed then may still fail.
 */
export async function replaceTests(
  context: Pick<Context, 'clock'>,
  memory: StateMemory,
  { tx, org, model, records }: Locked,
  by: Actor,
  { before, tests }: { readonly before: TestedOrganization; readonly tests: readonly PolicyTest[] },
): Promise<TestedOrganization> {
  const text = JSON.stringify(tests);
  const at = context.clock();
  const isSame = text === JSON.stringify(before.tests);
  if (!isSame) {
    const values = [org, before.testsRevision + 1, text, tests.length, new Date(at).toISOString()];
    await tx.run(writeTests, values);
    records.setTests(tests.length > 0);
  }
  const after = await readTested(tx, org, await model.read(tx), before);
  if (after === before) return after;
  const most = isSame ? testLimits.steps : testLimits.writtenSteps;
  // Also where they may fail, they have a price.
  if (by.tests === 'skip') await judgeInTransaction(after, memory, model, most);
  else await refuseBroken(memory, model, { before, after, identify: contentOf, most });
  return after;
}

/**
 * Tests run in the transaction of every write of a person that can change a verdict, under the organization's lock: a write by which a test
 * that did not fail fails is refused with `policy_test_failed`. What no person writes is never refused; the results show it.
 */
export function policyTestsIn(context: Context, memory: StateMemory) {
  const stateOf = async (org: OrganizationId): Promise<TestedOrganization> => {
    const state = await readTested(context.reads, org, await memory.models.read(org), memory.get(org));
    memory.set(org, state);
    return state;
  };
  const read = async (org: OrganizationId): Promise<PolicyTestResults> => {
    // What tests look at is read only where there are any.
    const { tests, testsRevision: revision } = await readTests(context.reads, org, memory.get(org));
    if (tests.length === 0) return { tests: [], results: [], revision };
    return judgedTests(await stateOf(org), memory);
  };
  return {
    /** Fails with `tests_too_costly` where the organization has outgrown its tests. */
    read,

    /** The tests that fail, each with its reason; none where they take too much work to be judged. */
    async failing(org: OrganizationId): Promise<readonly FailingTest[]> {
      const known = await read(org).catch((cause: unknown) => {
        if (isTooCostly(cause)) return undefined;
        throw cause;
      });
      return (known?.tests ?? []).flatMap((test, index) => {
        const result = known?.results[index];
        return result?.state === 'failing' ? [{ test, failure: result.failure, until: result.until }] : [];
      });
    },

    /** The tests alone, and how often the list was replaced. */
    async list(org: OrganizationId): Promise<Pick<PolicyTestResults, 'tests' | 'revision'>> {
      const { tests, testsRevision: revision } = await readTests(context.reads, org);
      return { tests, revision };
    },

    /** All tests at once. A test that is new, or other than before, and fails is refused as well. */
    async replace(
      org: OrganizationId,
      by: Actor,
      tests: readonly PolicyTest[],
      options: Expected = {},
    ): Promise<PolicyTestResults> {
      await context.models.warm(org);
      const { after: written } = await inOrganization(
        context,
        org,
        by,
        async (locked) => {
          const { tx, model } = locked;
          const before = await readTested(tx, org, await model.read(tx), memory.get(org));
          if (options.if_match !== undefined && options.if_match !== before.testsRevision)
            return refuse({ code: 'precondition_failed', revision: before.testsRevision });
          return { before, after: await replaceTests(context, memory, locked, by, { before, tests }) };
        },
        ({ before, after }) => ({ subject_id: org, ...testsChange(before, after) }),
      );
      return judgedTests(written, memory);
    },
  };
}

export type PolicyTests = ReturnType<typeof policyTestsIn>;
