/** Owns the check of a write against the organization's policy tests, in the transaction of the write and under the organization's lock. */
import type { OrganizationId } from '../../../policy/ids.ts';
import { resultsOf } from '../../../organization/policy-test/evaluate.ts';
import { type FailingTest, type PolicyTest, testLimits } from '../../../policy/policy-test/policy-test.ts';
import { refuse } from '../../problems.ts';
import type { ModelInTransaction } from '../model/organizations.ts';
import type { Runner } from '../postgres/connection.ts';
import type { WriteCheck, WriteCheckSession } from '../write/write-check.ts';
import { isSamePolicy, judgeInTransaction, readTested, type StateMemory, type TestedOrganization } from './state.ts';

/** An answer names at most so many tests. */
const mostNamed = 20;

export interface TestedWrite {
  /** Before the write: a test that failed then may still fail. */
  readonly before: TestedOrganization;
  readonly after: TestedOrganization;
  /** What of a test is the same where it is the same test. */
  readonly identify: (test: PolicyTest) => string;
  /** Steps that the tests may take after the write. */
  readonly most: number;
}

/** Throws where tests fail after a write that did not fail before. */
export async function refuseBroken(
  memory: StateMemory,
  model: Pick<ModelInTransaction, 'hasTurn'>,
  write: TestedWrite,
): Promise<void> {
  const { before, after, identify, most } = write;
  const judged = await judgeInTransaction(after, memory, model, most);
  const failing = judged.states.flatMap((state, place) => (state === 'failing' ? [place] : []));
  if (failing.length === 0) return;
  const { states } = await judgeInTransaction(before, memory, model);
  const failed = new Set(before.tests.flatMap((test, place) => (states[place] === 'failing' ? [identify(test)] : [])));
  const broken = failing.filter((place) => !failed.has(identify(after.tests[place] as PolicyTest)));
  if (broken.length === 0) return;
  const named = broken.slice(0, mostNamed);
  const results = await memory.slices.run(resultsOf(judged, named));
  const tests = results.flatMap((result, index): FailingTest[] => {
    const test = after.tests[named[index] ?? -1];
    return test === undefined || result.state !== 'failing'
      ? []
      : [{ test, failure: result.failure, until: result.until }];
  });
  refuse({ code: 'policy_test_failed', tests, more: broken.length - tests.length });
}

class TestCheckSession implements WriteCheckSession {
  readonly #org: OrganizationId;
  readonly #memory: StateMemory;
  readonly #model: ModelInTransaction;
  #state: TestedOrganization | undefined;

  constructor(org: OrganizationId, memory: StateMemory, model: ModelInTransaction) {
    this.#org = org;
    this.#memory = memory;
    this.#model = model;
    this.#state = memory.get(org);
  }

  async #read(tx: Runner): Promise<TestedOrganization> {
    return readTested(tx, this.#org, await this.#model.read(tx), this.#state);
  }

  async before(tx: Runner): Promise<void> {
    this.#state = await this.#read(tx);
  }

  async after(tx: Runner): Promise<void> {
    const before = this.#state;
    if (before === undefined) return;
    const after = await this.#read(tx);
    // A write that replaces the tests judges them itself.
    if (after.mark === before.mark && !isSamePolicy(before.organization, after.organization))
      await refuseBroken(this.#memory, this.#model, {
        before,
        after,
        identify: ({ name }) => name,
        most: testLimits.steps,
      });
    this.#state = after;
  }

  committed(): void {
    if (this.#state !== undefined) this.#memory.set(this.#org, this.#state);
  }
}

export const policyTestCheck = (memory: StateMemory): WriteCheck => ({
  begin: (org, model) => new TestCheckSession(org, memory, model),
});
