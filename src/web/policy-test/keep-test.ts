/** Owns the policy test that an answer on the reachability page becomes. */
import type { PolicyTest, TestEnd } from '../../policy/policy-test/policy-test.ts';
import type { Probe } from '../model/reachability.ts';

export interface AnsweredPair {
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
