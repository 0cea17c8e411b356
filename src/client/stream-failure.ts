/** Owns what an informer makes of a stream's failure: whether waiting heals it, and what the next attempt does without. */
import type { RingfenceError } from './error.ts';

/** Milliseconds between two attempts where nothing answers: the network may be back any moment, and asking loads nobody. */
export const longestUnanswered = 5_000;

export const healsByWaiting = (error: RingfenceError): boolean => error.retryable || error.code === 'revision_gone';

/** The fields of items that a server of an earlier version does not know. */
export type OptionalField = 'view' | 'token';

/** Which of these the server refused. */
export function refusedFields(error: RingfenceError | undefined): readonly OptionalField[] {
  const unknown = (error?.errors ?? []).filter(({ code }) => code === 'unknown_field');
  return (['view', 'token'] as const).filter((field) =>
    unknown.some(({ pointer }) => /^\/\d+\/(view|token)$/.exec(pointer)?.[1] === field),
  );
}

export const isUnanswered = ({ code, cause }: RingfenceError): boolean =>
  code === 'silent' ||
  code === 'timed_out' ||
  (code === 'unreachable' && !(cause instanceof Error && 'code' in cause && cause.code === 'ECONNREFUSED'));

/** Something between us and the server answered, for the server's own answers have an id. */
export const isAnsweredOnTheWay = (error: RingfenceError | undefined): boolean =>
  error?.status !== undefined && error.requestId === undefined;

export const isGarbled = (error: RingfenceError | undefined): boolean =>
  error?.code === 'bad_answer' || error?.code === 'document_too_large';
