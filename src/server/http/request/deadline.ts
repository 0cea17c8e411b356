/** Owns the longest wait for the database: a caller is asked to come back rather than left hanging. */
import { HttpError } from '../errors.ts';

const tooSlow = (): HttpError =>
  new HttpError('unavailable', 'The database takes too long to answer.', { headers: { 'Retry-After': '5' } });

/**
 * The outcome of the work, or 503 when it takes longer. The work itself goes on: whether a write happened is
 * unknown then, as with every answer of 503.
 */
export function within<T>(work: Promise<T>, ms: number): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const timer = setTimeout(() => reject(tooSlow()), ms);
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
