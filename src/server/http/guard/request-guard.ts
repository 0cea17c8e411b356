/** Owns the checks of every request before its body is read, independent of the framework. */
import type { IncomingHttpHeaders } from 'node:http';
import { operations } from '../../../api/operations.ts';
import type { OperationId } from '../../../api/paths.ts';
import type { DeviceId } from '../../../policy/ids.ts';
import type { Presented, Principal } from '../../identity/authenticate.ts';
import type { Rejected } from '../../identity/oidc.ts';
import type { Store } from '../../store/open.ts';
import type { AdmittedRequest } from '../call.ts';
import { HttpError, problemTable } from '../../problems.ts';
import type { AuditNote } from '../../store/data/audit.ts';
import { FirstUses, signInEntryOf } from '../observe/audit-entry.ts';
import { acceptsJson } from '../request/accept.ts';
import { subscriberOf } from '../../limits/subscriber.ts';
import { addressOf, type RequestOrigin } from '../request/address.ts';
import { sessionCookie } from '../request/cookies.ts';
import { refuseForgery } from '../request/csrf.ts';
import { within } from '../request/deadline.ts';
import { admit, parseVariables, subjectOf } from './admit.ts';
import type { Lookups } from './lookups.ts';
import type { RequestLimits } from './request-limits.ts';

/** A request, as far as the way in looks at it. */
export interface RequestToAdmit extends RequestOrigin {
  readonly id: string;
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
}

export interface RequestGuardOptions {
  readonly lookups: Readonly<Record<'immediate' | 'batched', Lookups>>;
  readonly limits: RequestLimits;
  readonly audit: Pick<Store['audit'], 'record'>;
  readonly invitations: Pick<Store['invitations'], 'accept'>;
  /** How long the database may take. */
  readonly answerTimeoutMs: number;
  /** Called when a device is let in by its own token, which shows that it is there; `isReport`: to report its status. */
  readonly onDeviceHeard: (device: DeviceId, isReport: boolean) => void;
  /** The URL at which people reach this server, for browser sessions; undefined when browsers cannot sign in. */
  readonly publicUrl?: (() => string) | undefined;
}

/** For a rejected credential with a known reason; 503 when it may be valid but cannot be checked right now. */
const rejectedCredential = ({ why, retryAfterSeconds }: Rejected): HttpError =>
  retryAfterSeconds === undefined
    ? new HttpError('unauthenticated', why, {
        headers: { 'WWW-Authenticate': 'Bearer realm="ringfence", error="invalid_token"' },
      })
    : new HttpError('unavailable', why, { headers: { 'Retry-After': String(retryAfterSeconds) } });

/** Who asks (401), not too often (429), for a path that is one (400), with the right to it (403, 404). Without limits it counts for nothing. */
async function admitRequest(
  id: OperationId,
  request: {
    readonly presented: Presented;
    readonly address: string;
    readonly params: Readonly<Record<string, unknown>>;
  },
  lookups: Lookups,
  limits?: RequestLimits,
): Promise<AdmittedRequest> {
  const { presented, address } = request;
  if ((presented.authorization ?? presented.session) === undefined) {
    limits?.stranger(address);
    throw problemTable.credential_missing();
  }
  limits?.presented(presented, address);
  const variables = parseVariables(request.params);
  const { principal, visible } = await lookups.authenticate(presented, subjectOf(id, variables));
  if (principal === undefined || principal.kind === 'rejected') {
    // A credential that cannot be checked right now does not count as a failed attempt.
    if (principal?.retryAfterSeconds === undefined) limits?.failed(address);
    else limits?.stranger(address);
    throw principal === undefined ? problemTable.credential_ended() : rejectedCredential(principal);
  }
  limits?.admitted(principal, presented);
  if (variables instanceof HttpError) throw variables;
  return { principal, variables, subjects: await admit(id, { principal, visible }, variables, lookups) };
}

export class RequestGuard {
  readonly #o: RequestGuardOptions;
  readonly #firstUses = new FirstUses();

  constructor(options: RequestGuardOptions) {
    this.#o = options;
  }

  /** Lets the caller in to the operation, or throws what is to be answered. `params` are the variables of the path as they were written. */
  async admit(
    id: OperationId,
    request: RequestToAdmit,
    params: Readonly<Record<string, unknown>>,
  ): Promise<AdmittedRequest> {
    if (!acceptsJson(request.headers.accept)) {
      throw new HttpError(
        'not_acceptable',
        'The server answers with application/json, which the Accept header does not allow.',
      );
    }
    const { limits, answerTimeoutMs } = this.#o;
    const admitted = await this.#judge(id, request, params, limits);
    const { principal } = admitted;
    // A stream counts once it is open.
    if (principal.kind === 'device' && id !== 'watchEvents') {
      this.#o.onDeviceHeard(principal.device_id, operations[id].effect === 'report');
    }
    if (this.#firstUses.isFirst(principal)) {
      await within(this.#signedIn(principal, signInEntryOf(principal, request)), answerTimeoutMs);
    }
    return admitted;
  }

  /** Judges the right to an admitted request again, later: the request counts neither twice for the limits nor as another sign of life. */
  async readmit(
    id: OperationId,
    request: RequestToAdmit,
    params: Readonly<Record<string, unknown>>,
  ): Promise<AdmittedRequest> {
    return this.#judge(id, request, params);
  }

  async #judge(
    id: OperationId,
    request: RequestToAdmit,
    params: Readonly<Record<string, unknown>>,
    limits?: RequestLimits,
  ): Promise<AdmittedRequest> {
    const { lookups, answerTimeoutMs } = this.#o;
    const asked = { presented: this.#presentedBy(request), address: subscriberOf(addressOf(request)), params };
    const lookup = operations[id].coalesced === true ? lookups.batched : lookups.immediate;
    return within(admitRequest(id, asked, lookup, limits), answerTimeoutMs);
  }

  /** The first use of an access token is a sign-in: it is recorded, and invitations of this person take effect. */
  async #signedIn(principal: Principal, note: AuditNote): Promise<void> {
    const { audit, invitations } = this.#o;
    await audit.record(note);
    if (principal.kind === 'user' && principal.token_id === undefined)
      await invitations.accept({ issuer: principal.issuer, ...principal.proven }, principal.user_id, note);
  }

  /** The credential of a request. A cookie counts only without a header, and never for a forged write. */
  #presentedBy(request: RequestToAdmit): Presented {
    const { authorization, cookie } = request.headers;
    const { publicUrl } = this.#o;
    if (authorization !== undefined || cookie === undefined || publicUrl === undefined) return { authorization };
    const session = sessionCookie(cookie, publicUrl());
    if (session !== undefined) refuseForgery(request, new URL(publicUrl()).origin);
    return { session };
  }
}
