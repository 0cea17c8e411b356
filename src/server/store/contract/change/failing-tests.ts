/** Owns what is known of failing policy tests where they may take too much work to be judged. */
import type { OrganizationId } from '../../../../policy/ids.ts';
import { StoreError } from '../../../problems.ts';
import type { PolicyTests } from './policy-tests.ts';
import type { FailingTest } from '../../../../policy/policy-test/policy-test.ts';

/** Whether the organization has outgrown its policy tests. */
export const isTooCostly = (cause: unknown): boolean =>
  cause instanceof StoreError && cause.problem.code === 'tests_too_costly';

/** The tests that fail, each with its reason; none where they take too much work to be judged. */
export async function failingIn(
  policyTests: Pick<PolicyTests, 'read'>,
  org: OrganizationId,
): Promise<readonly FailingTest[]> {
  const known = await policyTests.read(org).catch((cause: unknown) => {
    if (isTooCostly(cause)) return undefined;
    throw cause;
  });
  return (known?.tests ?? []).flatMap((test, index) => {
    const result = known?.results[index];
    return result?.state === 'failing' ? [{ test, failure: result.failure, until: result.until }] : [];
  });
}
