/** Owns the messages for what the store refuses: invalid group lists of devices, quotas, groups that apply by label, and reverts. */
import { failureInWords } from '../../policy/policy-test/words.ts';
import type { ErrorCode, RequestProblem } from '../../api/codes.ts';
import { at } from '../../policy/problem.ts';
import type { Direction } from '../../policy/rule.ts';
import type { GroupListProblem, StoreProblem } from '../store/contract/errors.ts';
import type { CountedQuota } from '../store/contract/quotas.ts';

export function groupProblem(problem: GroupListProblem): RequestProblem {
  const pointer = problem.index < 0 ? '/security_groups' : at('/security_groups', problem.index);
  switch (problem.code) {
    case 'unknown_group':
      return {
        pointer,
        code: 'unknown_group',
        detail: `${problem.group} is not a group of the user of the device or of the organization.`,
      };
    case 'default_group':
      return {
        pointer,
        code: 'default_group',
        detail: 'The default group cannot be listed: it applies while the list is empty.',
      };
    case 'guardrail':
      return {
        pointer,
        code: 'guardrail_listed',
        detail: `${problem.group} is a guardrail: guardrails apply by label and cannot be listed.`,
      };
    case 'duplicate':
      return { pointer, code: 'duplicate', detail: `${problem.group} is already in the list.` };
    case 'too_many_ranges':
      return {
        pointer,
        code: 'too_many_ranges',
        detail: `The groups of a device may have at most ${problem.allowed} address ranges together; these have ${problem.ranges}.`,
      };
    case 'too_many':
      return problem.allowed === 0
        ? { pointer, code: 'phase_limit', detail: 'This server runs in phase 1: every device has the default group.' }
        : {
            pointer,
            code: 'too_many_items',
            detail: `On this server, a device may have at most ${problem.allowed} group${problem.allowed === 1 ? '' : 's'}.`,
          };
    default:
      return problem.code satisfies never;
  }
}

export const forbiddenProblem = (direction: Direction): RequestProblem => ({
  pointer: `/${direction}_rules`,
  code: 'forbids_everything',
  detail: `These rules forbid all ${direction} traffic of the devices they apply to. If you want this, repeat the request with ?force=true.`,
});

export const counted: Readonly<Record<CountedQuota, string>> = {
  tokens: 'tokens of a user',
  organizations: 'organizations that a user owns',
  groups: 'security groups in an organization',
  devices: 'devices in an organization',
  enrollment_keys: 'enrollment keys in an organization',
  members: 'members of an organization',
  webhooks: 'webhooks in an organization',
  selectors: 'selectors in all groups of an organization together',
  rules: 'rules in all groups of an organization together',
  bytes: 'bytes for all groups of an organization together',
  member_rules: 'rules in all groups of a member together',
  member_bytes: 'bytes for all groups of a member together',
};

export const applicationProblem: Readonly<
  Record<Extract<StoreProblem, { readonly code: 'application_refused' }>['why'], Omit<RequestProblem, 'pointer'>>
> = {
  phase: { code: 'phase_limit', detail: 'Labels on groups and guardrails need phase 3.' },
  user_group: {
    code: 'organization_only',
    detail:
      'Only groups of the organization can apply by label or be guardrails. A group of a user applies only to devices that list it.',
  },
  default_group: {
    code: 'default_group',
    detail: 'The default group applies to devices without other groups. It cannot apply by label.',
  },
  default_mode: {
    code: 'default_group',
    detail: 'The default group cannot be watch only: devices without other groups would have no policy.',
  },
};

/** `repeated`: the first request has just been made, and its answer could not be read. */
export const keyProblems = {
  repeated: 'A request with this Idempotency-Key was made. Repeat the request to get its answer.',
  idempotency_key_reused:
    'Another request was made with this Idempotency-Key in the last 24 hours. Use a new key for each create.',
} as const;

const whyNotReverted = {
  changed: 'has changed since',
  gone: 'was deleted since',
  exists: 'exists again',
  deleted_device: 'is a device that was deleted and has to be enrolled again',
  reverted: 'has already undone this change set',
} as const;

/** Why a change set cannot be reverted as it is. Names a limited number of records. */
export function changedSinceSentence(
  records: Extract<StoreProblem, { readonly code: 'changed_since' }>['records'],
  most: number,
): string {
  const named = records
    .slice(0, most)
    .map(({ id, name, why }) => `${name === '' ? id : `${name} (${id})`} ${whyNotReverted[why]}`);
  const rest = records.length - named.length;
  return (
    `${named.join('; ')}${rest > 0 ? `; and ${rest} more` : ''}. ` +
    'To undo the rest and overwrite later changes of these fields, repeat the request with ?force=true.'
  );
}

export function testFailedSentence({
  tests,
  more,
}: Extract<StoreProblem, { readonly code: 'policy_test_failed' }>): string {
  const [first] = tests;
  const rest = tests.length - 1 + more;
  return [
    ...(first
      ? [
          `The policy test "${first.test.name}" would fail: ${failureInWords({ ...first.test, until: first.until }, first.failure)}`,
        ]
      : []),
    ...(rest > 0 ? [`And ${rest} more.`] : []),
    'An owner may continue with ?skip_tests=true.',
  ].join(' ');
}

/** A sentence names at most so many; each name has up to 255 characters. */
const namedTests = 20;

export const testsTooCostlySentence = (tests: readonly string[]): string =>
  [
    'The policy tests take more work than they may: each is judged by every policy of its two ends.',
    `These take the most: ${tests
      .slice(0, namedTests)
      .map((name) => `"${name}"`)
      .join(', ')}.`,
    'Remove some, or let them name fewer devices or ports; devices that have the same groups cost as much as one.',
  ].join(' ');

/** How a trial ended, at the end of a sentence. */
export const trialEnds = {
  confirmed: 'the change was confirmed',
  reverted: 'the change was reverted',
  expired: 'its time ran out, and the change was reverted',
} as const;

export const trialPending =
  'A change is being tried that this write touches. Confirm or revert the trial first, or wait until it ends.';

export const notWider: RequestProblem = {
  pointer: '/scope',
  code: 'not_wider',
  detail: 'A trial can only be widened: the new scope must include all devices of the old one.',
};

/** Every 422 lists its problems. A failure that is no problem of one field is one of the request as a whole. */
export const wholeRequest = ({
  code,
  message,
}: {
  readonly code: ErrorCode;
  readonly message: string;
}): readonly RequestProblem[] | undefined =>
  code === 'policy_test_failed' ||
  code === 'idempotency_key_reused' ||
  code === 'too_costly' ||
  code === 'tests_too_costly'
    ? [{ pointer: '', code, detail: message }]
    : undefined;
