/** Owns an informer's reaction to a stream's failure: whether to wait, and what the next attempt leaves out. */
import type { RingfenceError } from './error.ts';

/**
 * The longest wait in milliseconds between two attempts while nothing answers. It is short, because the network may
 * return at any moment and the attempts load no server.
 */
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
