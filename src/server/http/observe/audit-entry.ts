/** Owns what the audit is told of requests: every write that succeeded, and the first sight of each access token. Never a value, never a secret. */
import type { FastifyRequest } from 'fastify';
import type { OperationId } from '../../../api/paths.ts';
import type { Principal } from '../../identity/authenticate.ts';
import type { AuditNote } from '../../store/contract/audit.ts';
import { addressOf } from '../request/address.ts';
import { writes } from '../guard/rights.ts';

/** An agent's report changes no record and takes no revision; there would be one a minute from every device. */
export const isAudited = (id: OperationId, method: string): boolean =>
  writes(id, method) && id !== 'reportDeviceStatus';

/** What a request was made with, by its kind and, where it is ours, its id. */
export function credentialOf(principal: Principal): AuditNote['credential'] {
  if (principal.kind === 'enrollment') return { kind: 'enrollment_key', id: principal.key_id };
  if (principal.token_id === undefined) return { kind: 'access_token' };
  if (principal.kind === 'user' && principal.by_session) return { kind: 'session', id: principal.token_id };
  return { kind: principal.kind === 'device' ? 'device_token' : 'user_token', id: principal.token_id };
}

type Asked = Pick<FastifyRequest, 'ip' | 'id' | 'socket'>;

const common = (principal: Principal, request: Asked) => ({
  user_id: principal.user_id,
  credential: credentialOf(principal),
  address: addressOf(request),
  request_id: request.id,
});

const fieldsOf = (body: unknown): readonly string[] =>
  typeof body === 'object' && body !== null && !Array.isArray(body) ? Object.keys(body).toSorted() : [];

/** What the store tells with the write, in its own transaction. */
export function noteOf(id: OperationId, principal: Principal, request: Asked & { readonly body: unknown }): AuditNote {
  const fields = fieldsOf(request.body);
  return { operation: id, ...common(principal, request), ...(fields.length === 0 ? {} : { fields }) };
}

export const signInOf = (principal: Principal, request: Asked): AuditNote => ({
  operation: 'signIn',
  ...common(principal, request),
});

/** More access tokens than this are not kept in mind: the eldest is then told twice. */
const most = 20_000;

/** Which access tokens were seen by this server. */
export class SignIns {
  readonly #seen = new Set<string>();

  /** Whether this is the first request with this token; a token of our own signs nobody in. */
  isFirst(principal: Principal): boolean {
    if (principal.kind !== 'user' || principal.token_id !== undefined || this.#seen.has(principal.session))
      return false;
    this.#seen.add(principal.session);
    const [eldest] = this.#seen;
    if (this.#seen.size > most && eldest !== undefined) this.#seen.delete(eldest);
    return true;
  }
}
