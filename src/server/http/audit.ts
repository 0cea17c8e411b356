/** Owns what the audit is told of requests: every write that succeeded, and the first sight of each access token. Never a value, never a secret. */
import type { FastifyRequest } from 'fastify';
import type { OperationId } from '../../api/paths.ts';
import { isUuid } from '../../policy/ids.ts';
import type { Principal } from '../identity/authenticate.ts';
import type { NewAuditRecord } from '../store/store.ts';
import type { Answer, Params } from './call.ts';
import { addressOf } from './address.ts';
import { writes } from './rights.ts';

/** An agent's report changes no record and takes no revision; there would be one a minute from every device. */
export const isAudited = (id: OperationId, method: string): boolean =>
  writes(id, method) && id !== 'reportDeviceStatus';

/** What a request was made with, by its kind and, where it is ours, its id. */
export function credentialOf(principal: Principal): NewAuditRecord['credential'] {
  if (principal.kind === 'enrollment') return { kind: 'enrollment_key', id: principal.key_id };
  if (principal.token_id === undefined) return { kind: 'access_token' };
  return { kind: principal.kind === 'device' ? 'device_token' : 'user_token', id: principal.token_id };
}

type Asked = Pick<FastifyRequest, 'ip' | 'id' | 'socket'>;

const common = (principal: Principal, request: Asked) => ({
  user_id: principal.user_id,
  credential: credentialOf(principal),
  address: addressOf(request),
  request_id: request.id,
});

/** The most particular thing in the path, or what the answer says was made. */
function subjectOf(params: Partial<Params>, answer: Answer): string | undefined {
  const { sg_id, device_id, token_id, key_id, user_id, org_id } = params;
  const made = answer.kind === 'record' ? answer.location?.split('/').at(-1) : undefined;
  return isUuid(made) ? made : (sg_id ?? device_id ?? token_id ?? key_id ?? user_id ?? org_id);
}

const fieldsOf = (body: unknown): readonly string[] =>
  typeof body === 'object' && body !== null && !Array.isArray(body) ? Object.keys(body).toSorted() : [];

export function entryOf(
  id: OperationId,
  { principal, params }: { readonly principal: Principal; readonly params: Params },
  answer: Answer,
  request: Asked & { readonly body: unknown },
): NewAuditRecord {
  const subject = subjectOf(params, answer);
  // An organization's beginning is told in it; its end outlives it, and is told where the administrator reads.
  const place = id === 'createOrganization' ? subject : id === 'deleteOrganization' ? undefined : params.org_id;
  const fields = fieldsOf(request.body);
  return {
    operation: id,
    ...common(principal, request),
    ...(place === undefined ? {} : { organization_id: place }),
    ...(subject === undefined ? {} : { subject_id: subject }),
    ...(answer.kind === 'record' && answer.revision !== undefined ? { revision: answer.revision } : {}),
    ...(fields.length === 0 ? {} : { fields }),
  };
}

export const signInOf = (principal: Principal, request: Asked): NewAuditRecord => ({
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
