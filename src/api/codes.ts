/** Owns the error codes of the API, free of schemas so that small programs can import them. */
import { problemCodes, type ProblemCode } from '../policy/problem.ts';

/** Every way a request can fail. A code never changes its meaning; several may share a status. */
export const errors = {
  malformed_json: [400, 'The body is not JSON'],
  malformed_request: [400, 'The request cannot be understood'],
  malformed_path: [400, 'The path is malformed'],
  unauthenticated: [401, 'No valid credential'],
  forbidden: [403, 'Not allowed'],
  labels_by_owner: [403, 'Labels are set by owners'],
  address_by_owner: [403, 'The addresses of a labelled or isolated device are changed by owners'],
  isolated_by_owner: [403, 'An isolated device is deleted by owners'],
  not_found: [404, 'Not found'],
  method_not_allowed: [405, 'Method not allowed'],
  not_acceptable: [406, 'No acceptable representation'],
  request_timeout: [408, 'The request took too long to arrive'],
  conflict: [409, 'Conflict'],
  public_key_taken: [409, 'The public key is taken'],
  username_taken: [409, 'The username is taken'],
  already_member: [409, 'Already a member'],
  group_in_use: [409, 'The group is in use'],
  last_owner: [409, 'The last owner stays'],
  would_open: [409, 'Devices would fall back to the default group'],
  changed_since: [409, 'A record has changed since'],
  newer_record: [409, 'A newer server wrote the record'],
  trial_pending: [409, 'A change of the record is being tried'],
  trial_over: [409, 'The trial is over'],
  idempotency_answer_sealed: [409, 'The answer can be read only with the credential of the first request'],
  phase_limit: [409, 'Not in this phase'],
  limit_reached: [409, 'A limit is reached'],
  revision_gone: [410, 'The revision is gone'],
  precondition_failed: [412, 'The record has changed'],
  payload_too_large: [413, 'The body is too large'],
  uri_too_long: [414, 'The address is too long'],
  unsupported_media_type: [415, 'The media type is not supported'],
  invalid: [422, 'The request is invalid'],
  idempotency_key_reused: [422, 'The idempotency key belongs to another request'],
  policy_test_failed: [422, 'A policy test would fail'],
  too_costly: [422, 'The answer takes too much work'],
  tests_too_costly: [422, 'The policy tests take too much work'],
  rate_limited: [429, 'Too many requests'],
  headers_too_large: [431, 'The headers are too large'],
  internal: [500, 'Something went wrong'],
  unavailable: [503, 'Not available right now'],
  storage_full: [503, 'The disk of the database is full'],
  outcome_unknown: [503, 'It is unknown whether the change was made'],
} as const satisfies Record<string, readonly [number, string]>;

export type ErrorCode = keyof typeof errors;

/** What can be wrong with a body or parameter, besides what the policy core finds in rules and names. */
const requestProblemCodes = {
  not_an_integer: 'the value must be a whole number',
  not_a_boolean: 'the value must be true or false',
  not_a_digest: 'the value must be a SHA-256 in 64 hexadecimal digits',
  too_deep: 'the document nests too deep',
  too_many_values: 'the document has too many arrays, objects or fields',
  out_of_range: 'the number is too small or too large',
  not_an_endpoint: 'the value is not an address, with or without a port',
  not_a_cidr: 'the value is not a CIDR prefix',
  address_not_own:
    'no device has this address for itself: it is unspecified, loopback, link-local, multicast or broadcast',
  address_unknown: 'the device has no such address',
  unknown_group: 'this group cannot be applied to this device',
  guardrail_listed: 'a guardrail applies by label and cannot be listed',
  organization_only: "only the organization's own groups may have this",
  forbids_everything: 'the guardrail would block a whole direction',
  default_group: 'the default group cannot be listed: it is implied by an empty list',
  foreign_group: "the group belongs to neither the device's user nor the organization",
  unknown_user: 'the user does not exist',
  not_an_email: 'the text is not an e-mail address of plain ASCII characters',
  unknown_issuer: 'the server accepts no sign-in at this provider',
  not_a_member: 'the user is not a member of the organization',
  view_of_device: 'only devices have this view',
  phase_limit: 'the server runs in a phase that does not allow this',
  not_a_username: 'the name has characters that cannot be seen, or mixes scripts that look alike',
  not_a_url: 'the value is not a URL',
  host_not_allowed: 'the operator of the server does not allow this host',
  not_a_selector: 'the text does not select devices',
  not_wider: 'the new scope leaves out devices of the old one',
  needs_confirm_within: 'only a change that is tried can have a scope',
  list_only: "only a device's list of groups can be tried",
  no_such_state: 'the record did not exist at that revision',
  unknown_record: 'the organization has no such record',
  idempotency_key_reused: 'the idempotency key belongs to another request',
  policy_test_failed: 'a policy test would fail',
  too_costly: 'the answer takes more work than one request may cause',
  tests_too_costly: 'the policy tests take more work than they may',
} as const;

export type RequestProblemCode = ProblemCode | keyof typeof requestProblemCodes;
export const allProblemCodes = { ...problemCodes, ...requestProblemCodes };

/** One problem: its place, its code and its message. It has the same form as the policy core's own problems. */
export interface RequestProblem {
  readonly pointer: string;
  readonly code: RequestProblemCode;
  readonly detail: string;
}

export const problemContentType = 'application/problem+json';

/** Where the docs describe this failure. */
export const problemType = (code: ErrorCode): string => `/api/docs#error-${code}`;
