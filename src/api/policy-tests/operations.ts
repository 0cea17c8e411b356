/** Owns the operations on policy tests, as rows of the table of operations (reference 4.14). */
import { SkipTestsQuery } from '../list.ts';
import type { Row } from '../operation-row.ts';
import { PolicyTestResult, PolicyTests } from './policy-test.ts';

export const policyTestRows = {
  listPolicyTests: {
    effect: 'read',
    cost: 'shared',
    tag: 'security groups',
    summary: 'List the policy tests, each with its state now',
    answer: PolicyTestResult,
    etag: true,
    fails: ['tests_too_costly'],
  },
  replacePolicyTests: {
    effect: 'write',
    cost: 'organization',
    tag: 'security groups',
    summary: 'Replace all policy tests',
    query: SkipTestsQuery,
    body: PolicyTests,
    bodySize: 'rules',
    bodyReader: 'handler',
    answer: PolicyTestResult,
    etag: true,
    conditional: true,
    fails: ['policy_test_failed', 'tests_too_costly'],
  },
} as const satisfies Readonly<Record<string, Row>>;
