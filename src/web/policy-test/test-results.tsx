/** Owns results of policy tests for reading: what a test demands, the pair that fails it, and the rule that would fix it. */
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { PolicyTestResult } from '../../api/policy-tests/policy-test.ts';
import { failureInWords, testInWords } from '../../policy/policy-test/words.ts';
import { Tag, type Tone } from '../components/page.tsx';
import { useDeviceNames, useLive } from '../state/organization.ts';

const testTones: { readonly [State in PolicyTestResult['state']]: Tone } = {
  passing: 'plain',
  failing: 'bad',
  vacuous: 'warn',
};

export function TestStateTag({ state }: { readonly state: PolicyTestResult['state'] }): ReactNode {
  return <Tag tone={testTones[state]}>{state}</Tag>;
}

/** Why a test fails: the pair, what decides it, and the fix. */
export function TestFailure({ result }: { readonly result: PolicyTestResult }): ReactNode {
  const names = useDeviceNames();
  return result.failure === undefined
    ? testInWords(result, names.nameOf)
    : failureInWords(result, result.failure, names.nameOf);
}

/** Tests that fail, by name, each with its pair and rule. */
export function FailingTests({
  title,
  results,
  more = 0,
}: {
  readonly title: string;
  readonly results: readonly PolicyTestResult[];
  /** How many fail besides. */
  readonly more?: number;
}): ReactNode {
  const { id: org } = useLive();
  return (
    <section className="note note-bad stack tight" aria-label={title}>
      <strong>{title}</strong>
      <ul className="stack tight">
        {results.map((result) => (
          <li key={result.name}>
            <strong>{result.name}</strong>: <TestFailure result={result} />
          </li>
        ))}
      </ul>
      {more > 0 ? (
        <p>
          And {more} more.{' '}
          <Link className="plain-link" to="/o/$org/tests" params={{ org }}>
            See all tests
          </Link>
        </p>
      ) : null}
    </section>
  );
}
