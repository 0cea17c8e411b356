/** Owns "keep it this way": one click makes a policy test of what a page has just answered. */
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { PolicyTest, TestEnd } from '../../policy/policy-test/policy-test.ts';
import { TestIcon } from '../components/icons.tsx';
import { notify, useWrite } from '../state/write.tsx';
import { freeName, testOf } from './test-draft.ts';
import { useLive, useRights } from '../state/organization.ts';
import { useEditTests, usePolicyTests } from '../state/policy-tests.ts';
import type { Probe } from '../model/reachability.ts';
import { SmallButton } from '../components/page.tsx';

export function KeepThis({ test }: { readonly test: PolicyTest }): ReactNode {
  const { id: org } = useLive();
  const { governs } = useRights();
  const { data } = usePolicyTests();
  const edit = useEditTests();
  const { start, busy } = useWrite(async () => {
    let name = test.name;
    await edit((tests) => {
      name = freeName(test.name, new Set(tests.map((one) => one.name)));
      return [...tests, { ...test, name }];
    });
    notify(`The policy test “${name}” keeps it this way.`, () =>
      edit((tests) => tests.filter((one) => one.name !== name)),
    );
  }, 'No test was made');
  const existing = data && testOf(data.results, test);
  if (existing !== undefined) {
    return (
      <p className="small dimmed">
        The policy test{' '}
        <Link className="link" to="/o/$org/tests" params={{ org }}>
          {existing.name}
        </Link>{' '}
        demands that it is {existing.expect === 'allow' ? 'allowed' : 'refused'}.
      </p>
    );
  }
  if (!governs || data === undefined) return null;
  return (
    <SmallButton
      leftSection={<TestIcon size={16} />}
      loading={busy}
      onClick={() => start()}
      title="Makes a policy test: a change that would break it is not saved"
    >
      Keep it this way
    </SmallButton>
  );
}

interface AnsweredPair {
  readonly from: TestEnd;
  readonly to: TestEnd;
  /** What people call the two. */
  readonly names: readonly [from: string, to: string];
  readonly isAllowed: boolean;
}

export function keptTest({ from, to, names, isAllowed }: AnsweredPair, { kind, port }: Probe): PolicyTest {
  const what = kind === 'ping' ? 'ping' : `${kind} ${port}`;
  return {
    name: `${names[0]} ${isAllowed ? 'reaches' : 'does not reach'} ${names[1]} by ${what}`,
    from,
    to,
    ...(kind === 'ping' ? { protocol: 'icmp' } : { protocol: kind, port }),
    expect: isAllowed ? 'allow' : 'refuse',
  };
}
