/** Owns the text that a user sees for any thrown value. */
import { RingfenceError } from '../../client/error.ts';

/** A sentence for a person, whatever was thrown. */
export const sentence = (error: unknown): string => {
  if (!(error instanceof RingfenceError)) return error instanceof Error ? error.message : 'Something went wrong.';
  if (error.status === undefined) return 'The server cannot be reached. What you see may be out of date.';
  const details = error.errors.map(({ detail }) => detail);
  if (error.moreErrors > 0) details.push(`And ${error.moreErrors} more.`);
  return details.length > 0 ? details.join(' ') : error.message;
};
