/** Owns the longest wait for the database. After it, the caller gets an error and can retry. */
import { HttpError, outcomeUnknown } from '../errors.ts';

const tooSlow = (): HttpError =>
  new HttpError('unavailable', 'The database takes too long to answer.', { headers: { 'Retry-After': '5' } });

/** The result of the work, or 503 when it takes longer. The work itself continues: whether a write happens is then unknown. */
export function within<T>(work: Promise<T>, ms: number, effect: 'read' | 'write' | 'report' = 'read'): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const timer = setTimeout(() => reject(effect === 'read' ? tooSlow() : outcomeUnknown()), ms);
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
