/** Owns the operations on policy tests (reference 4.14): owners write them; members read them with their results. */
import type { PolicyTestResult } from '../../../api/policy-tests/policy-test.ts';
import { readPolicyTests } from '../../../policy/policy-test/read-tests.ts';
import type { PolicyTestResults } from '../../store/policy-tests/policy-tests.ts';
import type { Handler, ListResult } from '../call.ts';
import { refuseInvalid } from '../../problems.ts';
import { expectedRevision } from '../request/conditions.ts';

const shown = ({ tests, results }: PolicyTestResults): readonly PolicyTestResult[] =>
  tests.map((test, index) => ({ ...test, ...(results[index] ?? { state: 'vacuous' }) }));

const answer = (results: PolicyTestResults): ListResult => ({
  kind: 'list',
  json: JSON.stringify(shown(results)),
  revision: results.revision,
});

const read: Handler<'listPolicyTests'> = async (call, { store }) =>
  answer(await store.policyTests.read(call.params.org_id));

const replace: Handler<'replacePolicyTests'> = async (call, { store }) => {
  const { org_id } = call.params;
  const { tests, ...found } = readPolicyTests(call.body);
  refuseInvalid(found);
  await call.work.next();
  const now = call.ifMatch === undefined ? undefined : await store.policyTests.list(org_id);
  const expected = now === undefined ? {} : expectedRevision(call.ifMatch, now.revision);
  return answer(await store.policyTests.replace(org_id, call.by, tests, expected));
};

export const policyTestHandlers = { listPolicyTests: read, replacePolicyTests: replace } as const;
