/**
 * Owns read-modify-write against concurrent writers: a change that does not depend on theirs is retried on top of it.
 */
import { RingfenceError } from '../../client/error.ts';

const attempts = 5;

/** Writes what `change` makes of the newest record, unless somebody wrote in between; then once more, a few times. */
export async function changeSafely<T extends { readonly revision: number }, R>(
  record: T,
  read: () => Promise<T>,
  change: (record: T) => Promise<R>,
): Promise<R> {
  let newest = record;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await change(newest);
    } catch (error) {
      const raced = error instanceof RingfenceError && error.code === 'precondition_failed';
      if (!raced || attempt === attempts) throw error;
      newest = await read();
    }
  }
}
