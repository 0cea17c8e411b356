/**
 * Owns the audit entries of requests: every successful write, and the first use of each access token. They hold no
 * values and no secrets.
 */
import type { OperationId } from '../../../api/paths.ts';
import type { Principal } from '../../identity/authenticate.ts';
import type { AuditNote } from '../../store/data/audit.ts';
import { addressOf, type RequestOrigin } from '../request/address.ts';

type RequestCredential = Pick<AuditNote['credential'], 'id'> & {
  readonly kind: Exclude<AuditNote['credential']['kind'], 'server'>;
};

/** The credential of a request: its kind and, if it is ours, its id. */
export function credentialOf(principal: Principal): RequestCredential {
  if (principal.kind === 'enrollment') return { kind: 'enrollment_key', id: principal.key_id };
  if (principal.token_id === undefined) return { kind: 'access_token' };
  if (principal.kind === 'user' && principal.by_session) return { kind: 'session', id: principal.token_id };
  return { kind: principal.kind === 'device' ? 'device_token' : 'user_token', id: principal.token_id };
}

type AuditedRequest = RequestOrigin & { readonly id: string };

const common = (principal: Principal, request: AuditedRequest) => ({
  user_id: principal.user_id,
  credential: credentialOf(principal),
  address: addressOf(request),
  request_id: request.id,
});

const fieldsOf = (body: unknown): readonly string[] =>
  typeof body === 'object' && body !== null && !Array.isArray(body) ? Object.keys(body).toSorted() : [];

/** The note that the store records with the write, in the same transaction. */
export function auditEntryOf(
  id: OperationId,
  principal: Principal,
  request: AuditedRequest & { readonly body: unknown },
  skipsTests = false,
): AuditNote {
  const fields = [...fieldsOf(request.body), ...(skipsTests ? ['skip_tests'] : [])];
  return { operation: id, ...common(principal, request), ...(fields.length === 0 ? {} : { fields }) };
}

export const signInEntryOf = (principal: Principal, request: AuditedRequest): AuditNote => ({
  operation: 'signIn',
  ...common(principal, request),
});

/** More access tokens than this are not remembered: the oldest is then recorded twice. */
const most = 20_000;

/** Which access tokens this server has seen. */
export class FirstUses {
  readonly #seen = new Set<string>();

  /** Whether this is the first request with this access token. A token of our own is not a sign-in. */
  isFirst(principal: Principal): boolean {
    if (principal.kind !== 'user' || principal.token_id !== undefined || this.#seen.has(principal.session))
      return false;
    this.#seen.add(principal.session);
    const [oldest] = this.#seen;
    if (this.#seen.size > most && oldest !== undefined) this.#seen.delete(oldest);
    return true;
  }
}
