/** Owns the one place where failures become responses: the client gets problem+json, the log gets the cause. */
import { errors, problemType, type ErrorCode, type RequestProblem } from '../../api/codes.ts';
import type { PolicyTestResult } from '../../api/policy-tests/policy-test.ts';
import type { ProblemBody } from '../../api/problem.ts';
import type { DeviceId, EnrollmentKeyId, OrganizationId } from '../../policy/ids.ts';
import { TestsTooCostly } from '../../organization/policy-test/effort.ts';
import { mostProblems, type Found } from '../../policy/problem.ts';
import type { Rejected } from '../identity/oidc.ts';
import { WorkRefused } from '../scheduling/work-budget.ts';
import { StoreError, type StoreProblem } from '../store/contract/errors.ts';
import {
  applicationProblem,
  changedSinceSentence,
  counted,
  forbiddenProblem,
  groupProblem,
  keyProblems,
  testFailedSentence,
  testsTooCostlySentence,
  notWider,
  trialEnds,
  trialPending,
  wholeRequest,
} from './store-problems.ts';

interface Extras {
  readonly errors?: readonly RequestProblem[];
  /** How many problems there are besides those in `errors`. */
  readonly more?: number;
  readonly devices?: readonly DeviceId[];
  /** How many devices there are besides those in `devices`. */
  readonly moreDevices?: number;
  readonly enrollment_keys?: readonly EnrollmentKeyId[];
  /** Those that a user owns alone who is to be removed. */
  readonly organizations?: readonly { readonly id: OrganizationId; readonly name: string }[];
  /** Groups and devices in the way of a revert. */
  readonly records?: readonly string[];
  readonly tests?: readonly PolicyTestResult[];
  /** How many tests there are besides those in `tests`. */
  readonly moreTests?: number;
  readonly trial?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  readonly cause?: unknown;
}

/** A failure with its answer. Its message goes over the wire: write it for the person who asked. */
export class HttpError extends Error {
  readonly code: ErrorCode;
  readonly extras: Extras;

  constructor(code: ErrorCode, detail: string, extras: Extras = {}) {
    super(detail, 'cause' in extras ? { cause: extras.cause } : {});
    this.name = 'HttpError';
    this.code = code;
    this.extras = extras;
  }

  get status(): number {
    return errors[this.code][0];
  }
}

export const invalid = (problems: readonly RequestProblem[], more = 0, extras: Extras = {}): HttpError => {
  const [first] = problems;
  const others = problems.length - 1 + more;
  const sentence = first === undefined ? 'The request is invalid.' : first.detail;
  return new HttpError('invalid', others > 0 ? `${sentence} And ${others} more.` : sentence, {
    ...extras,
    errors: problems.slice(0, mostProblems),
    more: more + Math.max(0, problems.length - mostProblems),
  });
};

/** Why a reader cannot go on from the revision that it names. */
export const revisionGone =
  'The revision is newer than the head, a restored backup discarded it, or the server no longer keeps the deletions after it. Start again without gt_revision.';
const historyStart = (oldest: number): string =>
  oldest === 0 ? 'The organization did not exist at that time.' : `The history starts at revision ${oldest}.`;

export const revisionAhead = (pointer: string, head: number): HttpError =>
  invalid([{ pointer, code: 'out_of_range', detail: `The newest revision of the organization is ${head}.` }]);

/** Throws when there is any problem. */
export function refuse({ problems, more }: Found<RequestProblem>): void {
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

export const notFound = (what: keyof typeof things): HttpError =>
  new HttpError('not_found', `This ${things[what]} does not exist, or you do not have access to it.`);

/** A sentence names at most this many; the lists beside it are longer. */
const namedHolders = 5;
const listedHolders = 1000;

type NamedDevices = readonly { readonly id: DeviceId; readonly hostname: string }[];

const sentence = (holders: readonly { readonly id: string; readonly name: string }[], more = 0): string => {
  const named = holders.slice(0, namedHolders).map(({ id, name }) => (name === '' ? id : `${name} (${id})`));
  const rest = holders.length - named.length + more;
  return `${named.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
};

function nameDevices(devices: NamedDevices, more = 0): string {
  return sentence(
    devices.map(({ id, hostname }) => ({ id, name: hostname })),
    more,
  );
}

const listDevices = (devices: NamedDevices): Extras => ({
  devices: devices.slice(0, listedHolders).map(({ id }) => id),
});

function inUse({ devices, by, enrollment_keys }: Extract<StoreProblem, { readonly code: 'group_in_use' }>): HttpError {
  const steps = [
    ...(by.list ? ['remove it from the lists of the devices'] : []),
    ...(by.label ? ['empty what it applies to by label (applies_to)'] : []),
    ...(enrollment_keys.length > 0 ? ['revoke the keys'] : []),
  ].join(' and ');
  const detail = [
    ...(devices.length > 0 ? [`The group is applied to ${nameDevices(devices)}.`] : []),
    ...(enrollment_keys.length > 0 ? [`Devices get the group from enrollment key ${sentence(enrollment_keys)}.`] : []),
    `${steps.charAt(0).toUpperCase()}${steps.slice(1)} first, or repeat this with ?detach=true (--detach on the command line).`,
  ];
  return new HttpError('group_in_use', detail.join(' '), {
    ...listDevices(devices),
    enrollment_keys: enrollment_keys.slice(0, listedHolders).map(({ id }) => id),
  });
}

const wouldOpen = ({ devices, more }: Extract<StoreProblem, { readonly code: 'would_open' }>): HttpError =>
  new HttpError(
    'would_open',
    `This would leave ${nameDevices(devices, more)} without a group, and the default group would apply. ` +
      'Apply another group first, or continue with ?detach=true (--detach on the command line).',
    { ...listDevices(devices), moreDevices: more },
  );

const ownsAlone = (organizations: readonly { readonly id: OrganizationId; readonly name: string }[]): HttpError =>
  new HttpError(
    'last_owner',
    `The user is the last owner of ${sentence(organizations)}. Delete these organizations with the user by ?organizations=delete, or give them to another user by ?organizations=to:USER (--organizations on the command line).`,
    { organizations },
  );

const testFailed = (problem: Extract<StoreProblem, { readonly code: 'policy_test_failed' }>): HttpError =>
  new HttpError('policy_test_failed', testFailedSentence(problem), {
    tests: problem.tests.map(({ test, failure, until }) => ({
      ...test,
      state: 'failing',
      failure,
      ...(until !== undefined && { until }),
    })),
    moreTests: problem.more,
  });

const testsTooCostly = (tests: readonly string[]): HttpError =>
  new HttpError('tests_too_costly', testsTooCostlySentence(tests));

const later = (seconds: number): Extras => ({ headers: { 'Retry-After': String(seconds) } });

function fromStore(problem: StoreProblem, cause: unknown): HttpError {
  switch (problem.code) {
    case 'not_found':
      return notFound(problem.what);
    case 'not_a_member':
      return notFound('organization');
    case 'credential_ended':
      return unauthenticated(true);
    case 'forbidden':
      return new HttpError('forbidden', 'You do not have permission to do this, or you lost it in the meantime.');
    case 'precondition_failed':
      return changed(problem.revision);
    case 'phase_forbids':
      return new HttpError('phase_limit', 'This server runs in phase 1: an organization has only its default group.');
    case 'public_key_taken':
      return new HttpError('public_key_taken', 'Another device of the organization has this public key.');
    case 'labels_by_owner':
      return new HttpError('labels_by_owner', 'Only an owner of the organization may set or change labels.');
    case 'address_by_owner':
      return new HttpError(
        'address_by_owner',
        'The device has labels or is isolated: only an owner of the organization may change its tunnel_ip and addresses.',
      );
    case 'isolated_by_owner':
      return new HttpError(
        'isolated_by_owner',
        'The device is isolated. Only an owner of the organization may delete it, because that ends the isolation.',
      );
    case 'username_taken':
      return new HttpError('username_taken', 'Another user has this name, or one that looks like it.');
    case 'user_removed':
      return new HttpError('unauthenticated', 'This user was removed from this server.', challenge);
    case 'already_member':
      return new HttpError('already_member', 'The user is already a member of the organization.');
    case 'group_in_use':
      return inUse(problem);
    case 'group_list_invalid':
      return invalid(problem.problems.map(groupProblem));
    case 'last_owner':
      if (problem.organizations !== undefined) return ownsAlone(problem.organizations);
      return new HttpError(
        'last_owner',
        'The last owner of an organization cannot leave, be removed or become a member: another owner has to accept first, or delete the organization.',
      );
    case 'not_an_owner':
      return new HttpError('conflict', 'Only an owner has something to accept, and this member is none.');
    case 'newer_record':
      return new HttpError(
        'newer_record',
        `The ${problem.what} has fields that this server does not know, because a server of a later version wrote it. Try again when all servers have that version.`,
      );
    case 'would_open':
      return wouldOpen(problem);
    case 'policy_test_failed':
      return testFailed(problem);
    case 'tests_too_costly':
      return testsTooCostly(problem.tests);
    case 'revision_ahead':
      return revisionAhead('/revision', problem.head);
    case 'revision_gone':
      return new HttpError('revision_gone', problem.oldest === undefined ? revisionGone : historyStart(problem.oldest));
    case 'change_refused':
      return inEntry(fromStore(problem.problem, cause), `/${problem.list}/${problem.index}`);
    case 'forbids_everything':
      return invalid(problem.directions.map(forbiddenProblem));
    case 'group_id_used':
      return invalid([
        {
          pointer: '/id',
          code: 'unknown_record',
          detail:
            'The organization has no group with this id, and a new group cannot have it. To bring a deleted group back, restore it.',
        },
      ]);
    case 'changed_since':
      return changedSince(problem);
    case 'group_exists':
      return new HttpError(
        'conflict',
        'A group with this id already exists, for example because someone else restored it.',
      );
    case 'webhook_paused':
      return new HttpError(
        'conflict',
        'The webhook is paused, because the owner who set it up is no owner any more. Confirm it first.',
      );
    case 'too_often':
      return new HttpError(
        'rate_limited',
        `Too many of these requests were made or are waiting. Try again in ${problem.seconds} s.`,
        later(problem.seconds),
      );
    case 'limit_reached':
      return new HttpError(
        'limit_reached',
        `The limit is ${problem.limit} ${counted[problem.what]}. Remove some that you no longer need, or ask the operator of this server to raise the limit.`,
      );
    case 'device_unknown':
      return invalid(
        problem.devices.map((device) => ({
          pointer: '',
          code: 'device_unknown' as const,
          detail: `The organization has no device ${device}.`,
        })),
      );
    case 'application_refused':
      return invalid(problem.fields.map((field) => ({ pointer: `/${field}`, ...applicationProblem[problem.why] })));
    case 'too_many_ranges':
      return invalid([
        { pointer: '', code: 'too_many_ranges', detail: `A group may have at most ${problem.limit} address ranges.` },
      ]);
    case 'too_many_device_ranges': {
      const named = problem.devices.length > 0 ? nameDevices(problem.devices) : 'every device without groups';
      const detail = `With these rules, ${named} would have more than ${problem.limit} address ranges over all groups.`;
      return invalid([{ pointer: '', code: 'too_many_ranges', detail }], 0, listDevices(problem.devices));
    }
    case 'trial_pending':
      return new HttpError('trial_pending', trialPending, { trial: problem.trial });
    case 'trial_over':
      return new HttpError('trial_over', `The trial is over: ${trialEnds[problem.state]}.`);
    case 'not_on_trial':
      return invalid(
        problem.indexes.map((index) => ({
          pointer: `/records/${index}`,
          code: 'unknown_record' as const,
          detail: 'The trial has no such record, or it is no longer on trial.',
        })),
      );
    case 'not_wider':
      return invalid([notWider]);
    case 'enrollment_key_spent':
      return new HttpError('unauthenticated', 'The enrollment key has expired or is used up.', challenge);
    case 'repeated':
    case 'idempotency_key_reused':
      return new HttpError(problem.code === 'repeated' ? 'outcome_unknown' : problem.code, keyProblems[problem.code]);
    case 'invalid_text':
      return invalid([{ pointer: '', code: 'text_invalid', detail: 'A text in the body cannot be stored.' }]);
    case 'unavailable':
      return new HttpError('unavailable', 'The server cannot reach its database. Try again shortly.', {
        ...later(2),
        cause,
      });
    case 'storage_full':
      return new HttpError(
        'storage_full',
        'The disk of the database is full, and nothing was written. Try again later.',
        { ...later(10), cause },
      );
    case 'outcome_unknown':
      return outcomeUnknown(cause);
    case 'schema_too_new':
      return new HttpError(
        'unavailable',
        'The database belongs to a later version of this program. Upgrade the server.',
        { ...later(60), cause },
      );
    case 'unexpected':
      return unexpected(cause);
    default:
      return problem satisfies never;
  }
}

/** A failure of one entry of a change set: pointers lead into the entry, and the sentence names it. */
function inEntry(error: HttpError, entry: string): HttpError {
  const problems = error.extras.errors?.map((one) => ({ ...one, pointer: `${entry}${one.pointer}` }));
  return new HttpError(error.code, `${entry}: ${error.message}`, {
    ...error.extras,
    ...(problems && { errors: problems }),
  });
}

const changedSince = ({ records }: Extract<StoreProblem, { readonly code: 'changed_since' }>): HttpError =>
  new HttpError('changed_since', changedSinceSentence(records, namedHolders), {
    records: records.slice(0, listedHolders).map(({ id }) => id),
  });

/** For a write that may have happened. */
export const outcomeUnknown = (cause?: unknown): HttpError =>
  new HttpError(
    'outcome_unknown',
    'The database did not confirm the change. It may have been made, or may still be made. Check before you repeat it.',
    { ...later(2), cause },
  );

const challenge: Extras = { headers: { 'WWW-Authenticate': 'Bearer realm="ringfence"' } };

export const unauthenticated = (given: boolean): HttpError =>
  new HttpError(
    'unauthenticated',
    given
      ? 'The credential is unknown, revoked or expired.'
      : 'The request needs a credential: send `Authorization: Bearer …` with a token.',
    challenge,
  );

/** For a rejected credential with a known reason; 503 when it may be valid but cannot be checked right now. */
export const rejectedCredential = ({ why, retryAfterSeconds }: Rejected): HttpError =>
  retryAfterSeconds === undefined
    ? new HttpError('unauthenticated', why, {
        headers: { 'WWW-Authenticate': 'Bearer realm="ringfence", error="invalid_token"' },
      })
    : new HttpError('unavailable', why, later(retryAfterSeconds));

export const changed = (revision: number): HttpError =>
  new HttpError(
    'precondition_failed',
    `The record has changed: its revision is ${revision} now. Read it again and repeat your change.`,
    { headers: { ETag: `"${revision}"` } },
  );

const unexpected = (cause: unknown): HttpError =>
  new HttpError('internal', 'The server failed to handle the request. Search its log for the request id.', {
    cause,
  });

const workRefused = ({ why, seconds }: WorkRefused): HttpError =>
  why === 'too_costly'
    ? new HttpError(
        'too_costly',
        'The answer takes more work than one request may cause. Ask about less: a smaller change, a shorter time, fewer devices.',
      )
    : new HttpError(
        'rate_limited',
        `Too many questions about whole organizations are being worked out. Try again in ${seconds} s.`,
        later(seconds),
      );

/** Failures that the framework finds by itself, by its own codes. */
const framework: Readonly<Record<string, readonly [ErrorCode, string]>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: ['payload_too_large', 'The body is larger than this server accepts.'],
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['unsupported_media_type', 'Send the body as application/json.'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: ['malformed_request', 'The length of the body does not match Content-Length.'],
  FST_ERR_BAD_URL: ['malformed_path', 'The path contains an invalid percent encoding.'],
  FST_ERR_MAX_PARAM_LENGTH: ['malformed_path', 'The path contains a segment that is too long.'],
  ECONNRESET: ['malformed_request', 'The request ended before it was complete.'],
};

/** The answer to any failure at all. */
export function toHttpError(error: unknown): HttpError {
  if (error instanceof HttpError) return error;
  if (error instanceof StoreError) return fromStore(error.problem, error);
  if (error instanceof WorkRefused) return workRefused(error);
  if (error instanceof TestsTooCostly) return testsTooCostly(error.tests);
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  const known = framework[code];
  return known === undefined ? unexpected(error) : new HttpError(known[0], known[1]);
}

/** The body of the answer. */
export function problemBody(error: HttpError, request: { readonly path: string; readonly id: string }): ProblemBody {
  const [status, title] = errors[error.code];
  const {
    errors: problems = wholeRequest(error),
    more = 0,
    devices,
    moreDevices = 0,
    enrollment_keys,
    organizations,
    records,
    trial,
    tests,
    moreTests = 0,
  } = error.extras;
  return {
    type: problemType(error.code),
    title,
    status,
    detail: error.message,
    instance: request.path,
    code: error.code,
    request_id: request.id,
    ...(problems === undefined ? {} : { errors: problems }),
    ...(more === 0 ? {} : { more_errors: more }),
    ...(devices === undefined ? {} : { devices }),
    ...(moreDevices === 0 ? {} : { more_devices: moreDevices }),
    ...(trial === undefined ? {} : { trial_id: trial }),
    ...(enrollment_keys === undefined ? {} : { enrollment_keys }),
    ...(organizations === undefined ? {} : { organizations }),
    ...(records === undefined ? {} : { records }),
    ...(tests === undefined ? {} : { tests }),
    ...(moreTests === 0 ? {} : { more_tests: moreTests }),
  };
}
