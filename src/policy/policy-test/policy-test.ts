/** Owns what a policy test is: which connections must be allowed or refused, and what came of checking that (reference 4.14). */
import type { DeviceId, GroupId } from '../ids.ts';
import type { Direction, Selector, StoredRule } from '../rule.ts';

export const testProtocols = ['tcp', 'udp', 'icmp'] as const;
export type TestProtocol = (typeof testProtocols)[number];

export const testExpectations = ['allow', 'refuse'] as const;
export type TestExpectation = (typeof testExpectations)[number];

/** One end of the connections that a test is about. An address has no policy of its own. */
export type TestEnd = Selector | { readonly device_id: string } | { readonly address: string };

export interface PolicyTest {
  readonly name: string;
  readonly from: TestEnd;
  readonly to: TestEnd;
  readonly protocol: TestProtocol;
  /** The destination port; absent with icmp. */
  readonly port?: number;
  /** `allow`: every pair may connect. `refuse`: no pair may. */
  readonly expect: TestExpectation;
  readonly note?: string;
}

/**
 * `steps`: what judging all tests of an organization may take. When they are written, `writtenSteps`, so that an organization can grow with its tests.
 */
export const testLimits = {
  tests: 1_000,
  nameLength: 255,
  noteLength: 1_024,
  writtenSteps: 3_000_000,
  steps: 6_000_000,
} as const;

/** One end of the pair that fails a test. */
export interface FailedEnd {
  readonly address: string;
  readonly device_id?: DeviceId;
  readonly hostname?: string;
}

/** Why a test fails: one pair, and what decides it. */
export interface TestFailure {
  readonly from: FailedEnd;
  readonly to: FailedEnd;
  /** The device whose policy decides: the one that refuses, or of two that admit the one that is connected to. */
  readonly device_id: DeviceId;
  readonly direction: Direction;
  /** `no-rule`, `forbid`, `isolated` where the pair should be allowed; the others where it should be refused. */
  readonly reason: 'no-rule' | 'forbid' | 'isolated' | 'rule' | 'require' | 'open' | 'isolation-allows';
  /** The group whose rule decides, and the rule. */
  readonly group_id?: GroupId;
  readonly group_name?: string;
  readonly rule?: StoredRule;
  /** A rule that would admit the pair, where nothing admits it. */
  readonly fix?: { readonly direction: Direction; readonly rule: StoredRule; readonly group_id?: GroupId };
}

export type TestResult =
  | { readonly state: 'passing' }
  /** No pair matches: nothing was checked. */
  | { readonly state: 'vacuous' }
  /** `until`, an RFC 3339 time: it passes until then, only by a change that is being tried. */
  | { readonly state: 'failing'; readonly failure: TestFailure; readonly until?: string };

/** A test that fails, and why. */
export interface FailingTest {
  readonly test: PolicyTest;
  readonly failure: TestFailure;
  /** It passes until then, only by a change that is being tried. */
  readonly until?: string | undefined;
}

export type TestState = TestResult['state'];
