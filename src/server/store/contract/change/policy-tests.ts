/** Owns the interface of policy tests in the store: what must be allowed or refused, and the current results. */
import type { OrganizationId } from '../../../../policy/ids.ts';
import type { PolicyTest, TestResult } from '../../../../policy/policy-test/policy-test.ts';
import type { Actor } from '../actor.ts';
import type { Expected } from '../page.ts';

/** The tests of an organization and their results at one revision of it. */
export interface PolicyTestResults {
  readonly tests: readonly PolicyTest[];
  /** In the order of the tests. */
  readonly results: readonly TestResult[];
  /** Of the list of tests: it counts how often the list was replaced, and is no revision of the organization. */
  readonly revision: number;
}

/**
 * Tests run in the transaction of every write of a person that can change a verdict, under the organization's lock: a write by which a test
 * that did not fail fails is refused with `policy_test_failed`. What no person writes is never refused; the results show it.
 */
export interface PolicyTests {
  /** The tests alone, and how often the list was replaced. */
  list(org: OrganizationId): Promise<Pick<PolicyTestResults, 'tests' | 'revision'>>;
  /** Fails with `tests_too_costly` where the organization has outgrown its tests. */
  read(org: OrganizationId): Promise<PolicyTestResults>;
  /** All tests at once. A test that is new, or other than before, and fails is refused as well. */
  replace(org: OrganizationId, by: Actor, tests: readonly PolicyTest[], options?: Expected): Promise<PolicyTestResults>;
}
