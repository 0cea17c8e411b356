/** Owns the reading of bodies: bytes to JSON, strictly. */
import type { FastifyInstance } from 'fastify';
import { HttpError } from './errors.ts';

/**
 * JSON in UTF-8. Of a key written twice the last counts, as in every JavaScript program; `__proto__` becomes a field like
 * others, which no schema knows; numbers too large become Infinity, which no schema takes. So each is harmless further on.
 */
export function parseJson(bytes: Uint8Array): unknown {
  if (bytes.length === 0) return undefined;
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new HttpError('malformed_json', 'The body is not UTF-8.');
  }
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new HttpError('malformed_json', `The body is not JSON${place(error, text)}.`);
  }
}

/** Where the text stops being JSON, in lines and columns; what stands there is left out, as it may be a secret. */
function place(error: unknown, text: string): string {
  const position = error instanceof Error ? /at position (\d+)/.exec(error.message)?.[1] : undefined;
  if (position === undefined) return '';
  const before = text.slice(0, Number(position)).split('\n');
  return `: line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}`;
}

/** JSON is the one type taken. */
export function takeJsonBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body, done) => {
    try {
      done(null, parseJson(body as Buffer));
    } catch (error) {
      done(error as HttpError);
    }
  });
}
