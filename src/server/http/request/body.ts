/** Owns the reading of bodies: bytes to JSON, strictly. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { HttpError } from '../errors.ts';

const strict = new TextDecoder('utf-8', { fatal: true });

/**
 * JSON in UTF-8. Of a key written twice the last counts, as in every JavaScript program; `__proto__` becomes a field like
 * others, which no schema knows; numbers too large become Infinity, which no schema takes. So each is harmless further on.
 */
export function parseJson(bytes: Uint8Array): unknown {
  if (bytes.length === 0) return undefined;
  let text: string;
  try {
    text = strict.decode(bytes);
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

/** Of a body that is too large, so many times the limit are read and thrown away before the answer. */
const patience = 16;

/**
 * The whole body, up to the limit. What comes beyond is read and thrown away, within reason: many clients write their whole
 * body before they read an answer, and a connection closed in between would hide from them why they were refused.
 */
function readBody(body: Readable, limit: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const done = (): void => {
      body.off('data', take).off('end', end).off('error', fail).off('close', fail);
      if (size > limit) reject(tooLarge(limit));
    };
    const take = (chunk: Buffer): void => {
      size += chunk.length;
      if (size <= limit) chunks.push(chunk);
      else if (size <= limit * patience) chunks.length = 0;
      else {
        body.pause();
        done();
      }
    };
    const end = (): void => {
      done();
      const [only] = chunks;
      resolve(chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks));
    };
    const fail = (cause?: Error): void => {
      done();
      reject(cause ?? Object.assign(new Error('the body broke off'), { code: 'ECONNRESET' }));
    };
    body.on('data', take).on('end', end).on('error', fail).on('close', fail);
  });
}

const tooLarge = (limit: number): HttpError =>
  new HttpError('payload_too_large', `A body may be ${limit} bytes large.`);

/** JSON is the one type taken. */
export function takeJsonBodies(app: FastifyInstance, limit: number): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', async (_request: FastifyRequest, payload: IncomingMessage) => {
    const coding = payload.headers['content-encoding']?.trim().toLowerCase() ?? '';
    const bytes = await readBody(payload, limit);
    // RFC 9110, 15.5.16: also for a coding, and then the answer tells which ones are taken.
    if (coding !== '' && coding !== 'identity') {
      throw new HttpError('unsupported_media_type', 'Send the body as it is, without a Content-Encoding.', {
        headers: { 'Accept-Encoding': 'identity' },
      });
    }
    return parseJson(bytes);
  });
}
