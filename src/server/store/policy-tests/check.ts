/** Owns the check of a write against the organization's policy tests, in the transaction of the write and under the organization's lock. */
import type { OrganizationId } from '../../../policy/ids.ts';
import { refuse } from '../contract/errors.ts';
import type { FailingTest } from '../contract/change/policy-tests.ts';
import type { Runner } from '../postgres/connection.ts';
import type { WriteCheck, WriteCheckSession } from '../write/write-check.ts';
import { readOrganizationState, statesIn, type OrganizationState, type StateMemory } from './state.ts';

/** An answer names at most so many tests. */
const mostNamed = 20;

/** Throws where tests fail now that did not fail before; `failedBefore` says so of the place of a test. */
export function refuseBroken(state: OrganizationState, now: number, failedBefore: (index: number) => boolean): void {
  const { states, resultOf } = statesIn(state, now);
  const broken = states.flatMap((each, index) => (each === 'failing' && !failedBefore(index) ? [index] : []));
  if (broken.length === 0) return;
  const tests = broken.slice(0, mostNamed).flatMap((index): FailingTest[] => {
    const [test, result] = [state.tests[index], resultOf(index)];
    return test === undefined || result.state !== 'failing' ? [] : [{ test, failure: result.failure }];
  });
  refuse({ code: 'policy_test_failed', tests, more: broken.length - tests.length });
}

class TestCheckSession implements WriteCheckSession {
  readonly #org: OrganizationId;
  readonly #memory: StateMemory;
  #state: OrganizationState | undefined;

  constructor(org: OrganizationId, memory: StateMemory) {
    this.#org = org;
    this.#memory = memory;
    this.#state = memory.get(org);
  }

  async before(tx: Runner): Promise<void> {
    this.#state = await readOrganizationState(tx, this.#org, this.#state);
  }

  async after(tx: Runner): Promise<void> {
    const before = this.#state;
    if (before === undefined) return;
    const after = await readOrganizationState(tx, this.#org, before);
    // A write that deletes the organization has nothing to hold to; one that replaces the tests judges them itself.
    if (after === undefined) return;
    if (after.testsRevision === before.testsRevision && !isSamePolicy(before, after)) {
      const now = this.#memory.clock();
      const { states } = statesIn(before, now);
      refuseBroken(after, now, (index) => states[index] === 'failing');
    }
    this.#state = after;
  }

  committed(): void {
    if (this.#state !== undefined) this.#memory.set(this.#org, this.#state);
  }
}

const isSamePolicy = ({ snapshot: a }: OrganizationState, { snapshot: b }: OrganizationState): boolean =>
  a.devices === b.devices && a.groups === b.groups && a.defaultGroup === b.defaultGroup;

export const policyTestCheck = (memory: StateMemory): WriteCheck => ({
  begin: (org) => new TestCheckSession(org, memory),
});
