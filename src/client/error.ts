/** Owns the one error that the client throws: a stable code, and the server's details. */
import { errors as wireErrors, type ErrorCode, type RequestProblem } from '../api/codes.ts';
import type { PolicyTestResult } from '../api/policy-tests/policy-test.ts';

/** What can go wrong on this side of the wire. A code never changes its meaning. */
const clientErrorCodes = {
  unreachable: 'no answer: check the server, the network and the address',
  timed_out: 'the answer took too long',
  cut_off: 'the connection broke in the middle of the stream',
  silent: 'the stream is silent: no heartbeat arrived',
  bad_answer: 'the answer does not follow the protocol',
  document_too_large: 'an answer, a document of the stream, or all records together are too large',
} as const;

export type ClientErrorCode = ErrorCode | keyof typeof clientErrorCodes;

export interface RingfenceErrorInit {
  readonly code: ClientErrorCode;
  readonly message: string;
  readonly status?: number | undefined;
  readonly errors?: readonly RequestProblem[] | undefined;
  readonly moreErrors?: number | undefined;
  readonly devices?: readonly string[] | undefined;
  readonly moreDevices?: number | undefined;
  readonly enrollmentKeys?: readonly string[] | undefined;
  readonly trialId?: string | undefined;
  readonly tests?: readonly PolicyTestResult[] | undefined;
  readonly moreTests?: number | undefined;
  readonly requestId?: string | undefined;
  readonly retryAfter?: number | undefined;
  readonly cause?: unknown;
}

/**
 * Every failure of a request or a stream. `switch (error.code)` distinguishes them. An abort is not a failure: then the
 * signal's own reason is thrown.
 */
export class RingfenceError extends Error {
  override readonly name = 'RingfenceError';
  readonly code: ClientErrorCode;
  /** The status answered; absent when there was no answer. */
  readonly status: number | undefined;
  /** The problems that the server found in the request, on `invalid`; otherwise empty. */
  readonly errors: readonly RequestProblem[];
  /** How many problems there are besides those in `errors`. */
  readonly moreErrors: number;
  /** The devices in the way, on `group_in_use` and `would_open`; otherwise empty. */
  readonly devices: readonly string[];
  /** How many devices there are besides those in `devices`. */
  readonly moreDevices: number;
  /** The enrollment keys in the way, on `group_in_use`; otherwise empty. */
  readonly enrollmentKeys: readonly string[];
  /** The trial that must end first, on `trial_pending`. */
  readonly trialId: string | undefined;
  /** The policy tests that would fail, on `policy_test_failed`; otherwise empty. */
  readonly tests: readonly PolicyTestResult[];
  /** How many tests would fail besides those in `tests`. */
  readonly moreTests: number;
  /** What to tell the operator of the server, who finds the cause under it in the log. */
  readonly requestId: string | undefined;
  /** Milliseconds that the server asks to wait. */
  readonly retryAfter: number | undefined;

  constructor(init: RingfenceErrorInit) {
    super(init.message, init.cause === undefined ? undefined : { cause: init.cause });
    this.code = init.code;
    this.status = init.status;
    this.errors = init.errors ?? [];
    this.moreErrors = init.moreErrors ?? 0;
    this.devices = init.devices ?? [];
    this.moreDevices = init.moreDevices ?? 0;
    this.enrollmentKeys = init.enrollmentKeys ?? [];
    this.trialId = init.trialId;
    this.tests = init.tests ?? [];
    this.moreTests = init.moreTests ?? 0;
    this.requestId = init.requestId;
    this.retryAfter = init.retryAfter;
  }

  /** Whether the same request may succeed later without anybody changing it: no answer, an overload, a server's fault. */
  get retryable(): boolean {
    if (this.status === undefined) return true;
    return (
      this.status >= 500 || this.status === 408 || this.status === 429 || (this.status >= 200 && this.status < 300)
    );
  }
}

export const isErrorCode = (text: unknown): text is ErrorCode =>
  typeof text === 'string' && Object.hasOwn(wireErrors, text);

/** The code of an answer that names none we know: of a proxy, or of a newer server. */
export function codeOfStatus(status: number): ClientErrorCode {
  if (status === 409) return 'conflict';
  if (status === 400) return 'malformed_request';
  if (status >= 502 && status <= 504) return 'unavailable';
  if (status >= 500) return 'internal';
  const known = Object.entries(wireErrors).find(([, [its]]) => its === status);
  return known === undefined ? 'bad_answer' : (known[0] as ErrorCode);
}
