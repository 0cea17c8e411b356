/** Owns which texts the database can keep. */
import { refuse } from '../../../problems.ts';

/** PostgreSQL holds no NUL, and UTF-8 no half of a surrogate pair: one such text must not fail the writes that share its transaction. */
export function keepable(given: string): string {
  // eslint-disable-next-line no-control-regex -- it is looked for
  if (!/[\0\uD800-\uDFFF]/.test(given)) return given;
  if (given.includes('\0')) return refuse({ code: 'invalid_text' });
  return /\p{Surrogate}/u.test(given) ? Buffer.from(given).toString() : given;
}

/** The list itself, where each of its texts is so: then it is seen at once that it is the same. */
export const keepableList = (given: readonly string[]): readonly string[] =>
  given.every((text) => keepable(text) === text) ? given : given.map(keepable);
