/**
 * Owns `Idempotency-Key`: a create that is repeated with its key and the same body gets the first answer again (reference 4.5 (10)).
 *
 * The store records the answer in the transaction of the create. Warnings come after the commit: then the answer is
 * replaced once, before anyone has received it. So every request with the key gets the same answer.
 */
import { createHash } from 'node:crypto';
import type { Row } from '../../../api/operation-row.ts';
import type { OperationId } from '../../../api/paths.ts';
import { isObject } from '../../../policy/json.ts';
import type { Principal } from '../../identity/authenticate.ts';
import { seal, unseal } from '../../identity/seal.ts';
import type { Actor } from '../../store/data/actor.ts';
import type { IdempotencyKey } from '../../store/data/idempotency.ts';
import { HttpError, StoreError } from '../../problems.ts';
import type { HandlerResult, PathVariables, RecordResult, Services } from '../call.ts';
import { cookieName, readCookie } from '../request/cookies.ts';

const header = 'idempotency-key';
const format = /^[\x21-\x7e]{1,255}$/;

interface KeyedRequest {
  readonly id: OperationId;
  readonly principal: Principal;
  readonly request: {
    readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
    readonly body: unknown;
  };
  readonly services: Pick<Services, 'store' | 'random'>;
  readonly variables: Partial<PathVariables>;
  readonly query: object;
}

export interface Idempotency {
  /** The caller, whose create is recorded with the key. */
  creator<Made>(by: Actor, answerOf: (made: Made) => RecordResult): Actor;
  /** The recorded answer, or the one that `call` makes. */
  answer(call: () => Promise<HandlerResult>): Promise<HandlerResult>;
}

/** The same for documents that differ only in the order of their fields. */
const canonical = (value: unknown): string =>
  JSON.stringify(value, (_name, inner: unknown) =>
    isObject(inner) ? Object.fromEntries(Object.entries(inner).toSorted(([a], [b]) => (a < b ? -1 : 1))) : inner,
  ) ?? '';

const digest = (text: string): Uint8Array => createHash('sha256').update(text).digest();

/** The secret that the caller has shown. The database knows only a digest of it. */
function secretIn({ authorization, cookie }: KeyedRequest['request']['headers']): string {
  if (typeof authorization === 'string') return authorization.trim().replace(/^bearer +/i, '');
  const cookies = typeof cookie === 'string' ? cookie : undefined;
  return readCookie(cookies, cookieName('session', true)) ?? readCookie(cookies, cookieName('session', false)) ?? '';
}

function readKey(given: string | readonly string[] | undefined): string | undefined {
  if (given === undefined) return undefined;
  if (typeof given === 'string' && format.test(given)) return given;
  throw new HttpError(
    'malformed_request',
    'Idempotency-Key must be 1 to 255 visible ASCII characters without spaces, such as a UUID.',
  );
}

/** Undefined for a request without the header. */
export function idempotencyOf(
  kind: NonNullable<Row['idempotent']>,
  { id, principal, request, services, variables, query }: KeyedRequest,
): Idempotency | undefined {
  const given = readKey(request.headers[header]);
  if (given === undefined) return undefined;
  const { org_id, ...subjects } = variables;
  const { store, random } = services;
  const key: IdempotencyKey = {
    place: org_id ?? principal.user_id,
    caller: principal.kind === 'enrollment' ? principal.key_id : principal.user_id,
    key: digest(`ringfence idempotency key ${given}`),
    fingerprint: digest(canonical([id, query, request.body ?? {}, ...Object.values(subjects)])),
  };
  const secret = `${given} ${secretIn(request.headers)}`;
  const encode = (text: string): Uint8Array => (kind === 'secret' ? seal(secret, text, random) : Buffer.from(text));
  const decode = (stored: Uint8Array): HandlerResult => {
    const text = kind === 'secret' ? unseal(secret, stored) : Buffer.from(stored).toString();
    if (text !== undefined) return JSON.parse(text) as RecordResult;
    throw new HttpError(
      'idempotency_answer_sealed',
      'The create with this Idempotency-Key was made. Its answer holds a secret and can be read only with the credential of the first request.',
    );
  };
  const find = async (): Promise<HandlerResult | undefined> => {
    const stored = await store.idempotencyKeys.find(key);
    return stored && decode(stored);
  };
  /** The answer that the transaction recorded. */
  let recorded: string | undefined;

  const make = async (call: () => Promise<HandlerResult>): Promise<HandlerResult> => {
    const made = await call();
    const text = JSON.stringify(made);
    return text === recorded ? made : decode(await store.idempotencyKeys.finish(key, encode(text)));
  };
  return {
    creator: (by, answerOf) => ({
      ...by,
      idempotency: {
        ...key,
        answerOf: (made) => {
          recorded = JSON.stringify(answerOf(made as Parameters<typeof answerOf>[0]));
          return encode(recorded);
        },
      },
    }),
    async answer(call) {
      const first = await find();
      if (first !== undefined) return first;
      try {
        return await make(call);
      } catch (error) {
        // The same request may have been made meanwhile, and then this one may be refused for what the first has changed.
        const other = await find().catch((failure: unknown) => {
          if (failure instanceof StoreError && failure.code !== 'idempotency_key_reused') throw error;
          throw failure;
        });
        if (other !== undefined) return other;
        throw error;
      }
    },
  };
}
