/** Owns the longest wait for the database and for work. After it, the caller gets an error and can retry. */
import { HttpError, problemTable } from '../../problems.ts';

export const tooSlow = (): HttpError =>
  new HttpError('unavailable', 'The database takes too long to answer.', { headers: { 'Retry-After': '5' } });

/**
 * The result of the work, or a failure when it takes longer: of a read that `why` gives, or 503. The work itself continues: whether a write happens is
 * then unknown.
 */
export function within<T>(
  work: Promise<T>,
  ms: number,
  effect: 'read' | 'write' | 'report' = 'read',
  why: () => Error = tooSlow,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const timer = setTimeout(() => reject(effect === 'read' ? why() : problemTable.outcome_unknown()), ms);
    work.then(
      (outcome) => {
        clearTimeout(timer);
        resolve(outcome);
      },
      (failure: unknown) => {
        clearTimeout(timer);
        reject(failure);
      },
    );
  });
}
