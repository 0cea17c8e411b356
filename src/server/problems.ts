/**
 * Owns what can be refused: one table of problems. A row takes the data of its problem and gives the answer: the code of the wire (`api/codes.ts` has its
 * status and title), a sentence for the person who asked, and further members. The store throws a problem by its name (`StoreError`); the edge of HTTP
 * answers it.
 */
import { errors, problemType, type ErrorCode, type RequestProblem } from '../api/codes.ts';
import type { PolicyTestResult } from '../api/policy-tests/policy-test.ts';
import type { ProblemBody } from '../api/problem.ts';
import type { DeviceId, EnrollmentKeyId, OrganizationId } from '../policy/ids.ts';
import { Refused, type GroupListProblem, type NamedDevices, type Refusal } from '../organization/decide/refusal.ts';
import { TestsTooCostly } from '../organization/policy-test/effort.ts';
import type { FailingTest } from '../policy/policy-test/policy-test.ts';
import { failureInWords } from '../policy/policy-test/words.ts';
import { compareNames } from '../policy/names/compare-names.ts';
import { at, mostProblems, type Found } from '../policy/problem.ts';
import type { Direction } from '../policy/rule.ts';
import { WorkRefused } from './scheduling/work-budget.ts';

/** What the body of an answer has besides what every one has. */
type Members = {
  readonly [
    Name in Exclude<keyof ProblemBody, 'type' | 'title' | 'status' | 'detail' | 'instance' | 'code' | 'request_id'>
  ]?: ProblemBody[Name] | undefined;
};

interface More extends Members {
  readonly headers?: Readonly<Record<string, string>>;
  readonly cause?: unknown;
}

/** A failure with its answer. Its message goes over the wire: write it for the person who asked. */
export class HttpError extends Error {
  readonly code: ErrorCode;
  readonly headers: Readonly<Record<string, string>>;
  /** In the order in which the body has them. */
  readonly members: Members;

  constructor(code: ErrorCode, detail: string, { headers = {}, cause, ...members }: More = {}) {
    super(detail, cause === undefined ? {} : { cause });
    this.name = 'HttpError';
    this.code = code;
    this.headers = headers;
    this.members = members;
  }

  get status(): number {
    return errors[this.code][0];
  }
}

/** A number of further ones; the member is absent where there are none. */
const further = (count: number): number | undefined => (count > 0 ? count : undefined);

export const invalid = (problems: readonly RequestProblem[], more = 0, members: Members = {}): HttpError => {
  const [first] = problems;
  const others = problems.length - 1 + more;
  const sentence = first === undefined ? 'The request is invalid.' : first.detail;
  return new HttpError('invalid', others > 0 ? `${sentence} And ${others} more.` : sentence, {
    errors: problems.slice(0, mostProblems),
    more_errors: further(more + Math.max(0, problems.length - mostProblems)),
    ...members,
  });
};

/** Throws when there is any problem. */
export function refuseInvalid({ problems, more }: Found<RequestProblem>): void {
  if (problems.length > 0) throw invalid(problems, more);
}

const things = {
  organization: 'organization',
  device: 'device',
  group: 'security group',
  user: 'user',
  member: 'member',
  token: 'token',
  enrollment_key: 'enrollment key',
  webhook: 'webhook',
  change_set: 'change set',
  trial: 'trial',
  invitation: 'invitation',
} as const;

/** What there may be only so many of. */
const counted = {
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
} as const;

/** A sentence names at most this many records, and this many tests; the lists beside it are longer. */
const mostNamed = 5;
const mostTestsNamed = 20;
const mostListed = 1000;

interface Named {
  readonly id: string;
  readonly name: string;
}

const called = ({ id, name }: Named): string => (name === '' ? id : `${name} (${id})`);

function named(holders: readonly Named[], more = 0): string {
  const rest = Math.max(0, holders.length - mostNamed) + more;
  return `${holders.map(called).toSorted(compareNames).slice(0, mostNamed).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}

const namedDevices = (devices: NamedDevices, more = 0): string =>
  named(
    devices.map(({ id, hostname }) => ({ id, name: hostname })),
    more,
  );

const listed = <Id>(records: readonly { readonly id: Id }[]): Id[] => records.slice(0, mostListed).map(({ id }) => id);

const listEntry: {
  readonly [Code in GroupListProblem['code']]: (problem: GroupListProblem) => Omit<RequestProblem, 'pointer'>;
} = {
  unknown_group: ({ group }) => ({
    code: 'unknown_group',
    detail: `${group} is not a group of the user of the device or of the organization.`,
  }),
  default_group: () => ({
    code: 'default_group',
    detail: 'The default group cannot be listed: it applies while the list is empty.',
  }),
  guardrail: ({ group }) => ({
    code: 'guardrail_listed',
    detail: `${group} is a guardrail: guardrails apply by label and cannot be listed.`,
  }),
  duplicate: ({ group }) => ({ code: 'duplicate', detail: `${group} is already in the list.` }),
  too_many_ranges: ({ allowed, ranges }) => ({
    code: 'too_many_ranges',
    detail: `The groups of a device may have at most ${allowed} address ranges together; these have ${ranges}.`,
  }),
  too_many: ({ allowed }) =>
    allowed === 0
      ? { code: 'phase_limit', detail: 'This server runs in phase 1: every device has the default group.' }
      : {
          code: 'too_many_items',
          detail: `On this server, a device may have at most ${allowed} group${allowed === 1 ? '' : 's'}.`,
        },
};

/** Groups apply by label in phase 3 only, and only the organization's own, never the default group, which is never watch only. */
const applicationRefused = {
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
} as const satisfies Readonly<Record<string, Omit<RequestProblem, 'pointer'>>>;

const whyNotReverted = {
  changed: 'has changed since',
  gone: 'was deleted since',
  exists: 'exists again',
  deleted_device: 'is a device that was deleted and has to be enrolled again',
  reverted: 'has already undone this change set',
} as const;

const trialEnds = {
  confirmed: 'the change was confirmed',
  reverted: 'the change was reverted',
  expired: 'its time ran out, and the change was reverted',
} as const;

const later = (seconds: number) => ({ headers: { 'Retry-After': String(seconds) } });
const challenge = { headers: { 'WWW-Authenticate': 'Bearer realm="ringfence"' } };

/** Every problem, by its name. */
export const problemTable = {
  /** Absent, or not visible to the reader, or of another organization. */
  not_found: ({ what }: { readonly what: keyof typeof things }) =>
    new HttpError('not_found', `This ${things[what]} does not exist, or you do not have access to it.`),
  /** The acting user is not (or no longer) a member of the organization at the moment of the commit. */
  not_a_member: (): HttpError => problemTable.not_found({ what: 'organization' }),
  credential_missing: () =>
    new HttpError(
      'unauthenticated',
      'The request needs a credential: send `Authorization: Bearer …` with a token.',
      challenge,
    ),
  /** Now, or at the moment of the commit, the credential is revoked, rotated or expired, or its user is removed. */
  credential_ended: () => new HttpError('unauthenticated', 'The credential is unknown, revoked or expired.', challenge),
  /** At the moment of the commit, no role that the write needs is left. */
  forbidden: () => new HttpError('forbidden', 'You do not have permission to do this, or you lost it in the meantime.'),
  /** The expected revision is not the current one. */
  precondition_failed: ({ revision }: { readonly revision: number }) =>
    new HttpError(
      'precondition_failed',
      `The record has changed: its revision is ${revision} now. Read it again and repeat your change.`,
      { headers: { ETag: `"${revision}"` } },
    ),
  /** The phase allows no further group. */
  phase_forbids: () =>
    new HttpError('phase_limit', 'This server runs in phase 1: an organization has only its default group.'),
  public_key_taken: () => new HttpError('public_key_taken', 'Another device of the organization has this public key.'),
  labels_by_owner: () =>
    new HttpError('labels_by_owner', 'Only an owner of the organization may set or change labels.'),
  address_by_owner: () =>
    new HttpError(
      'address_by_owner',
      'The device has labels or is isolated: only an owner of the organization may change its tunnel_ip and addresses.',
    ),
  isolated_by_owner: () =>
    new HttpError(
      'isolated_by_owner',
      'The device is isolated. Only an owner of the organization may delete it, because that ends the isolation.',
    ),
  username_taken: () => new HttpError('username_taken', 'Another user has this name, or one that looks like it.'),
  /** An identity provider vouches for a user who was removed here. */
  user_removed: () => new HttpError('unauthenticated', 'This user was removed from this server.', challenge),
  already_member: () => new HttpError('already_member', 'The user is already a member of the organization.'),
  /** Devices have the group, or enrollment keys would give it to devices; all are named. `by`: how devices have it: by their own lists, by label, or both. */
  group_in_use: ({
    devices,
    by,
    enrollment_keys,
  }: {
    readonly devices: NamedDevices;
    readonly by: { readonly list: boolean; readonly label: boolean };
    readonly enrollment_keys: readonly { readonly id: EnrollmentKeyId; readonly name: string }[];
  }) => {
    const steps = [
      ...(by.list ? ['remove it from the lists of the devices'] : []),
      ...(by.label ? ['empty what it applies to by label (applies_to)'] : []),
      ...(enrollment_keys.length > 0 ? ['revoke the keys'] : []),
    ].join(' and ');
    const detail = [
      ...(devices.length > 0 ? [`The group is applied to ${namedDevices(devices)}.`] : []),
      ...(enrollment_keys.length > 0 ? [`Devices get the group from enrollment key ${named(enrollment_keys)}.`] : []),
      `${steps.charAt(0).toUpperCase()}${steps.slice(1)} first, or repeat this with ?detach=true (--detach on the command line).`,
    ];
    return new HttpError('group_in_use', detail.join(' '), {
      devices: listed(devices),
      enrollment_keys: listed(enrollment_keys),
    });
  },
  group_list_invalid: ({ problems }: { readonly problems: readonly GroupListProblem[] }) =>
    invalid(
      problems.map((problem) => ({
        pointer: problem.index < 0 ? '/security_groups' : at('/security_groups', problem.index),
        ...listEntry[problem.code](problem),
      })),
    ),
  /** A server of a later version wrote fields into the record that this one does not know. Only such a server may change it. */
  newer_record: ({ what }: { readonly what: 'device' | 'group' }) =>
    new HttpError(
      'newer_record',
      `The ${what} has fields that this server does not know, because a server of a later version wrote it. Try again when all servers have that version.`,
    ),
  /** An organization always has an owner who has agreed to be one. `organizations`: of a user who is to be removed, those that it owns alone. */
  last_owner: ({
    organizations,
  }: {
    readonly organizations?: readonly { readonly id: OrganizationId; readonly name: string }[];
  }) =>
    organizations === undefined
      ? new HttpError(
          'last_owner',
          'The last owner of an organization cannot leave, be removed or become a member: another owner has to accept first, or delete the organization.',
        )
      : new HttpError(
          'last_owner',
          `The user is the last owner of ${named(organizations)}. Delete these organizations with the user by ?organizations=delete, or give them to another user by ?organizations=to:USER (--organizations on the command line).`,
          { organizations },
        ),
  /** There is no ownership to accept. */
  not_an_owner: () => new HttpError('conflict', 'Only an owner has something to accept, and this member is none.'),
  /** These devices, and so many more, would be left with the default group. */
  would_open: ({ devices, more }: { readonly devices: NamedDevices; readonly more: number }) =>
    new HttpError(
      'would_open',
      `This would leave ${namedDevices(devices, more)} without a group, and the default group would apply. ` +
        'Apply another group first, or continue with ?detach=true (--detach on the command line).',
      { devices: listed(devices), more_devices: further(more) },
    ),
  /** These policy tests, and so many more, would fail that do not fail now. */
  policy_test_failed: ({ tests, more }: { readonly tests: readonly FailingTest[]; readonly more: number }) => {
    const [first] = tests;
    const rest = tests.length - 1 + more;
    const detail = [
      ...(first
        ? [
            `The policy test "${first.test.name}" would fail: ${failureInWords({ ...first.test, until: first.until }, first.failure)}`,
          ]
        : []),
      ...(rest > 0 ? [`And ${rest} more.`] : []),
      'An owner may continue with ?skip_tests=true.',
    ];
    return new HttpError('policy_test_failed', detail.join(' '), {
      tests: tests.map(({ test, failure, until }): PolicyTestResult => ({
        ...test,
        state: 'failing',
        failure,
        ...(until !== undefined && { until }),
      })),
      more_tests: further(more),
    });
  },
  /** Judging the policy tests takes too much work; the tests of these names take the most. */
  tests_too_costly: ({ tests }: { readonly tests: readonly string[] }) => {
    const names = tests.slice(0, mostTestsNamed).map((name) => `"${name}"`);
    return new HttpError(
      'tests_too_costly',
      'The policy tests take more work than they may: each is judged by every policy of its two ends. ' +
        `These take the most: ${names.join(', ')}. ` +
        'Remove some, or let them name fewer devices or ports; devices that have the same groups cost as much as one.',
    );
  },
  too_costly: () =>
    new HttpError(
      'too_costly',
      'The answer takes more work than one request may cause. Ask about less: a smaller change, a shorter time, fewer devices.',
    ),
  /** Too much other work about whole organizations runs or waits: ask again after so many seconds. */
  busy: ({ seconds }: { readonly seconds: number }) =>
    new HttpError(
      'rate_limited',
      `Too much work about whole organizations runs or waits. Try again in ${seconds} s.`,
      later(seconds),
    ),
  /** The record is on trial: nothing else changes it until the trial ends. */
  trial_pending: ({ trial }: { readonly trial?: string | undefined }) =>
    new HttpError(
      'trial_pending',
      'A change is being tried that this write touches. Confirm or revert the trial first, or wait until it ends.',
      { trial_id: trial },
    ),
  /** The trial is confirmed, reverted or expired, or its time is over. */
  trial_over: ({ state }: { readonly state: keyof typeof trialEnds }) =>
    new HttpError('trial_over', `The trial is over: ${trialEnds[state]}.`),
  /** These of the records that were asked for are not on this trial, by their place. */
  not_on_trial: ({ indexes }: { readonly indexes: readonly number[] }) =>
    invalid(
      indexes.map((index) => ({
        pointer: `/records/${index}`,
        code: 'unknown_record',
        detail: 'The trial has no such record, or it is no longer on trial.',
      })),
    ),
  /** Devices that try the change would no longer. */
  not_wider: () =>
    invalid([
      {
        pointer: '/scope',
        code: 'not_wider',
        detail: 'A trial can only be widened: the new scope must include all devices of the old one.',
      },
    ]),
  /** The webhook sends nothing until an owner confirms it. */
  webhook_paused: () =>
    new HttpError(
      'conflict',
      'The webhook is paused, because the owner who set it up is no owner any more. Confirm it first.',
    ),
  /** It was asked for too often: try again after so many seconds. */
  too_often: ({ seconds }: { readonly seconds: number }) =>
    new HttpError(
      'rate_limited',
      `Too many of these requests were made or are waiting. Try again in ${seconds} s.`,
      later(seconds),
    ),
  /** There are as many as there may be. */
  limit_reached: ({ what, limit }: { readonly what: keyof typeof counted; readonly limit: number }) =>
    new HttpError(
      'limit_reached',
      `The limit is ${limit} ${counted[what]}. Remove some that you no longer need, or ask the operator of this server to raise the limit.`,
    ),
  /** A group would name more address ranges than it may, with the direction that the write leaves as it is. */
  too_many_ranges: ({ limit }: { readonly limit: number }) =>
    invalid([{ pointer: '', code: 'too_many_ranges', detail: `A group may have at most ${limit} address ranges.` }]),
  /** Devices that hold the group would have more address ranges over all their groups than they may. */
  too_many_device_ranges: ({ limit, devices }: { readonly limit: number; readonly devices: NamedDevices }) => {
    const holders = devices.length > 0 ? namedDevices(devices) : 'every device without groups';
    const detail = `With these rules, ${holders} would have more than ${limit} address ranges over all groups.`;
    return invalid([{ pointer: '', code: 'too_many_ranges', detail }], 0, { devices: listed(devices) });
  },
  /** Rules name devices that are not in the organization. */
  device_unknown: ({ devices }: { readonly devices: readonly DeviceId[] }) =>
    invalid(
      devices.map((device) => ({
        pointer: '',
        code: 'device_unknown',
        detail: `The organization has no device ${device}.`,
      })),
    ),
  /** `fields`: what of the write asks for it. */
  application_refused: ({
    why,
    fields,
  }: {
    readonly why: keyof typeof applicationRefused;
    readonly fields: readonly ('applies_to' | 'guardrail' | 'mode')[];
  }) => invalid(fields.map((field) => ({ pointer: `/${field}`, ...applicationRefused[why] }))),
  /** The organization's head is below this revision. `pointer`: where the request names it. */
  revision_ahead: ({ head, pointer = '/revision' }: { readonly head: number; readonly pointer?: string }) =>
    invalid([{ pointer, code: 'out_of_range', detail: `The newest revision of the organization is ${head}.` }]),
  /** The history begins later; or, without `oldest`, the revision is above the head or discarded. */
  revision_gone: ({ oldest }: { readonly oldest?: number }) =>
    new HttpError(
      'revision_gone',
      oldest === undefined
        ? 'The revision is newer than the head, a restored backup discarded it, or the server no longer keeps the deletions after it. Start again without gt_revision.'
        : oldest === 0
          ? 'The organization did not exist at that time.'
          : `The history starts at revision ${oldest}.`,
    ),
  /** A guardrail leaves nothing of these directions. */
  forbids_everything: ({ directions }: { readonly directions: readonly Direction[] }) =>
    invalid(
      directions.map((direction) => ({
        pointer: `/${direction}_rules`,
        code: 'forbids_everything',
        detail: `These rules forbid all ${direction} traffic of the devices they apply to. If you want this, repeat the request with ?force=true.`,
      })),
    ),
  /** The id of a new group is or was in use, here or elsewhere. */
  group_id_used: () =>
    invalid([
      {
        pointer: '/id',
        code: 'unknown_record',
        detail:
          'The organization has no group with this id, and a new group cannot have it. To bring a deleted group back, restore it.',
      },
    ]),
  /** Records have changed since a change set wrote them, or cannot come back. */
  changed_since: ({
    records,
  }: {
    readonly records: readonly (Named & { readonly why: keyof typeof whyNotReverted })[];
  }) => {
    const first = records.slice(0, mostNamed).map((one) => `${called(one)} ${whyNotReverted[one.why]}`);
    const rest = records.length - first.length;
    return new HttpError(
      'changed_since',
      `${first.join('; ')}${rest > 0 ? `; and ${rest} more` : ''}. ` +
        'To undo the rest and overwrite later changes of these fields, repeat the request with ?force=true.',
      { records: listed(records) },
    );
  },
  /** The group that is to come back is there, or another organization has a group of this id. */
  group_exists: () =>
    new HttpError('conflict', 'A group with this id already exists, for example because someone else restored it.'),
  /** The enrollment key expired, or its uses are spent. */
  enrollment_key_spent: () =>
    new HttpError('unauthenticated', 'The enrollment key has expired or is used up.', challenge),
  /** A create with this idempotency key has just been made, and its answer could not be read. */
  repeated: () =>
    new HttpError(
      'outcome_unknown',
      'A request with this Idempotency-Key was made. Repeat the request to get its answer.',
    ),
  /** The idempotency key belongs to another request. */
  idempotency_key_reused: () =>
    new HttpError(
      'idempotency_key_reused',
      'Another request was made with this Idempotency-Key in the last 24 hours. Use a new key for each create.',
    ),
  /** A text that PostgreSQL cannot keep (a NUL character, or far beyond every limit). */
  invalid_text: () => invalid([{ pointer: '', code: 'text_invalid', detail: 'A text in the body cannot be stored.' }]),
  /** The database cannot be reached, is starting or read-only. Nothing was written; try again. */
  unavailable: () => new HttpError('unavailable', 'The server cannot reach its database. Try again shortly.', later(2)),
  /** The disk of the database is full. Nothing was written. */
  storage_full: () =>
    new HttpError(
      'storage_full',
      'The disk of the database is full, and nothing was written. Try again later.',
      later(10),
    ),
  /** The write may or may not have happened, or may be lost with the primary: its commit was sent, and not confirmed as durable. */
  outcome_unknown: () =>
    new HttpError(
      'outcome_unknown',
      'The database did not confirm the change. It may have been made, or may still be made. Check before you repeat it.',
      later(2),
    ),
  /** The database was migrated by a later version of this program. */
  schema_too_new: (_versions: { readonly found: number; readonly known: number }) =>
    new HttpError(
      'unavailable',
      'The database belongs to a later version of this program. Upgrade the server.',
      later(60),
    ),
  /** A fault of ours; the cause is for the log. */
  unexpected: () =>
    new HttpError('internal', 'The server failed to handle the request. Search its log for the request id.'),
};

type Table = typeof problemTable;
type PlainProblem = {
  readonly [Code in keyof Table]: { readonly code: Code } & (Parameters<Table[Code]> extends readonly [infer Data]
    ? Data
    : unknown);
}[keyof Table];

/** Every refusal of a decision has a row. */
type Row<Problem extends PlainProblem> = Problem;

export type StoreProblem =
  | PlainProblem
  | Row<Refusal>
  /** A part of a change set is refused: which, and why. `index` counts in the list of the set. */
  | {
      readonly code: 'change_refused';
      readonly list: 'security_groups' | 'devices' | 'delete';
      readonly index: number;
      readonly problem: PlainProblem;
    };

interface StoreErrorClass {
  new (problem: StoreProblem, options?: { readonly cause?: unknown; readonly message?: string }): StoreError;
  readonly prototype: StoreError;
}

/** The one error that leaves the store. `problem` narrows by `code`; `cause` is for the log, never for the wire. */
export const StoreError: StoreErrorClass = Refused;
export type StoreError = Refused<StoreProblem>;

/** Whether the organization has outgrown its policy tests. */
export const isTooCostly = (cause: unknown): boolean =>
  cause instanceof StoreError && cause.problem.code === 'tests_too_costly';

export const refuse = (problem: StoreProblem): never => {
  throw new StoreError(problem);
};

function answerOf(problem: StoreProblem): HttpError {
  // The table ties each row to the data of its code; the compiler cannot follow that through a union.
  if (problem.code !== 'change_refused')
    return (problemTable[problem.code] as (data: PlainProblem) => HttpError)(problem);
  // Pointers lead into the entry of the change set, and the sentence names it.
  const entry = `/${problem.list}/${problem.index}`;
  const { code, message, headers, members } = answerOf(problem.problem);
  const found = members.errors?.map((one) => ({ ...one, pointer: `${entry}${one.pointer}` }));
  return new HttpError(code, `${entry}: ${message}`, { ...members, ...(found && { errors: found }), headers });
}

/** Failures that the framework finds by itself, by its own codes. */
const framework: Readonly<Record<string, readonly [ErrorCode, string]>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: ['payload_too_large', 'The body is larger than this server accepts.'],
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['unsupported_media_type', 'Send the body as application/json.'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: ['malformed_request', 'The length of the body does not match Content-Length.'],
  FST_ERR_BAD_URL: ['malformed_path', 'The path contains an invalid percent encoding.'],
  FST_ERR_MAX_PARAM_LENGTH: ['malformed_path', 'The path contains a segment that is too long.'],
  ECONNRESET: ['malformed_request', 'The request ended before it was complete.'],
};

function answerTo(error: unknown): HttpError {
  if (error instanceof StoreError) return answerOf(error.problem);
  if (error instanceof WorkRefused)
    return error.why === 'too_costly' ? problemTable.too_costly() : problemTable.busy(error);
  if (error instanceof TestsTooCostly) return problemTable.tests_too_costly(error);
  const known = framework[error instanceof Error && 'code' in error ? String(error.code) : ''];
  return known === undefined ? problemTable.unexpected() : new HttpError(...known);
}

/** The answer to any failure at all; what failed is its cause, for the log. */
export function toHttpError(error: unknown): HttpError {
  if (error instanceof HttpError) return error;
  const answer = answerTo(error);
  answer.cause = error;
  return answer;
}

/** The body of the answer. Every 422 lists its problems: one that is of no field is of the request as a whole. */
export function problemBody(
  { code, message, members }: HttpError,
  request: { readonly path: string; readonly id: string },
): string {
  const [status, title] = errors[code];
  return JSON.stringify({
    type: problemType(code),
    title,
    status,
    detail: message,
    instance: request.path,
    code,
    request_id: request.id,
    ...(status === 422 && { errors: [{ pointer: '', code, detail: message }] }),
    ...members,
  });
}
