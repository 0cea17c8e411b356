/** Owns the reading of request bodies: only where an operation has one, only JSON, and only up to the operation's size limit. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { flowLimits, limits } from '../../../api/limits.ts';
import { operations } from '../../../api/operations.ts';
import type { OperationId } from '../../../api/paths.ts';
import type { ServerConfig } from '../../options/config.ts';
import { HttpError } from '../../problems.ts';
import { subscriberOf } from '../../limits/subscriber.ts';
import { addressOf } from './address.ts';
import type { BodyClaim, BodyMemory } from './body-memory.ts';
import { JsonScan, parseJson, type JsonBounds } from './json.ts';

export interface BodyLimits {
  /** Bytes of a body that holds rules. */
  readonly rules: number;
  /** Bytes of any other body. */
  readonly plain: number;
  readonly json: JsonBounds;
  /** Of a report of observed traffic. */
  readonly traffic: JsonBounds;
}

/** Fields of a tuple of observed traffic. */
const tupleFields = 7;

/**
 * Allows twice the rules and peers that a group may have, and twice the tuples of a report, so that a body with too many gets a validation error with a
 * message. A peer counts as a range.
 */
export const bodyLimitsOf = (config: ServerConfig): BodyLimits => {
  const { maxBody, maxPlainBody, maxRules, maxRanges, maxName, maxDescription } = config;
  // A character has up to 4 bytes.
  const beyondAscii = Math.max(2 * 4 * (maxName + maxDescription), maxPlainBody);
  const { jsonDepth: depth, selectorLabels } = limits;
  const { tuplesPerReport } = flowLimits;
  return {
    rules: maxBody,
    plain: maxPlainBody,
    json: {
      depth,
      containers: 8 * maxRules + 4 * maxRanges + 1_000,
      fields: 20 * maxRules + 2 * maxRanges + 1_000,
      // A peer may have as many labels as a selector.
      values: 20 * maxRules + 2 * (2 + selectorLabels) * maxRanges + 1_000,
      beyondAscii,
    },
    traffic: {
      depth,
      containers: 2 * tuplesPerReport + 1_000,
      fields: 2 * tupleFields * tuplesPerReport + 1_000,
      values: 2 * tupleFields * tuplesPerReport + 1_000,
      beyondAscii,
    },
  };
};

/** For a body that is too large, the server reads and discards up to this many times the limit before the answer. */
const drainFactor = 16;

/**
 * The whole body, up to the limit. Bytes beyond it are read and discarded, within reason: many clients write their
 * whole body before they read an answer, and a connection closed in between would hide from them why they were refused.
 */
async function readBody(
  body: IncomingMessage,
  limit: number,
  bounds: JsonBounds,
  claim: BodyClaim | undefined,
): Promise<Buffer> {
  // More than would be discarded below: the client learns it before it sends anything.
  if ((declaredLength(body.headers) ?? 0) > limit * drainFactor) throw tooLarge(limit);
  // Most bodies have come with their headers, and need not be listened for.
  if (body.complete && !body.destroyed && body.readableLength <= limit) {
    claim?.grow(body.readableLength);
    return wholeBody(body, bounds);
  }
  return await new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const scan = new JsonScan(bounds);
    let size = 0;
    /** The refusal, once it is certain. */
    let refusal: unknown;
    const done = (): void => {
      body.off('data', take).off('end', end).off('error', fail).off('close', fail);
      if (size > limit) reject(tooLarge(limit));
      else if (refusal !== undefined) reject(refusal);
    };
    const take = (chunk: Buffer): void => {
      size += chunk.length;
      if (refusal !== undefined && size <= limit) return;
      if (size <= limit) {
        try {
          claim?.grow(size);
        } catch (error) {
          // There is no room for it: answer at once and discard the rest.
          chunks.length = 0;
          refusal = error;
          done();
          return;
        }
        try {
          scan.push(chunk);
          chunks.push(chunk);
        } catch (error) {
          refusal = error;
          chunks.length = 0;
        }
      } else if (size <= limit * drainFactor) chunks.length = 0;
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

function wholeBody(body: IncomingMessage, bounds: JsonBounds): Buffer {
  const scan = new JsonScan(bounds);
  const parts: Buffer[] = [];
  // One `read` gives all that has come, or, since Node 26, one part of it.
  for (let part = body.read() as Buffer | null; part !== null; part = body.read() as Buffer | null) {
    scan.push(part);
    parts.push(part);
  }
  const [only] = parts;
  return parts.length === 1 && only !== undefined ? only : Buffer.concat(parts);
}

const tooLarge = (limit: number): HttpError =>
  new HttpError('payload_too_large', `The body may be at most ${limit} bytes.`);

const isJson = (type: string | undefined): boolean =>
  type?.split(';', 1)[0]?.trim().toLowerCase() === 'application/json';

/** The body of a request for the operation, parsed; undefined for an empty one, and where the operation takes none, which stays unread. */
async function readJson(
  id: OperationId | undefined,
  payload: IncomingMessage,
  bounds: BodyLimits,
  claim?: BodyClaim,
): Promise<unknown> {
  const operation = id === undefined ? undefined : operations[id];
  if (operation?.body === undefined) return undefined;
  if (!isJson(payload.headers['content-type'])) {
    throw new HttpError('unsupported_media_type', 'Send the body as application/json.');
  }
  const coding = payload.headers['content-encoding']?.trim().toLowerCase() ?? '';
  const json = id === 'reportFlows' ? bounds.traffic : bounds.json;
  const bytes = await readBody(payload, bounds[operation.bodySize ?? 'plain'], json, claim);
  // RFC 9110, 15.5.16: the same status covers an unsupported coding, and the answer names the supported ones.
  if (coding !== '' && coding !== 'identity') {
    throw new HttpError('unsupported_media_type', 'Send the body without a Content-Encoding.', {
      headers: { 'Accept-Encoding': 'identity' },
    });
  }
  return parseJson(bytes);
}

const hasBody = (headers: IncomingHttpHeaders): boolean =>
  headers['transfer-encoding'] !== undefined || (declaredLength(headers) ?? 0) > 0;

/** The length that a request says its body has; undefined where it says none. */
function declaredLength(headers: IncomingHttpHeaders): number | undefined {
  const text = headers['content-length'];
  return text === undefined ? undefined : Number(text);
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The bytes that the request's body counts, if its operation takes one. */
    bodyClaim: BodyClaim | undefined;
  }
}

/**
 * Bodies are read after the guard: the server reads no body of a request without a credential. The bytes that Node has
 * already read count for the client address before the guard runs.
 */
export function takeBodies(app: FastifyInstance, bounds: BodyLimits, memory: BodyMemory): void {
  app.decorateRequest('bodyClaim', undefined);
  app.addHook('onRequest', (request, reply, done) => {
    const id = request.routeOptions.config.operation;
    if (id !== undefined && operations[id].body !== undefined && hasBody(request.headers)) {
      const claim = memory.open(subscriberOf(addressOf(request)), declaredLength(request.headers));
      request.bodyClaim = claim;
      reply.raw.once('close', () => claim.end());
    }
    done();
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', async (request: FastifyRequest, payload: IncomingMessage) => {
    const { bodyClaim: claim, admitted } = request;
    const id = request.routeOptions.config.operation;
    if (claim !== undefined && admitted !== undefined && id !== undefined) {
      const limit = bounds[operations[id].bodySize ?? 'plain'];
      const declared = declaredLength(request.headers);
      claim.bill(admitted.principal.user_id, declared === undefined ? undefined : Math.min(declared, limit));
    }
    const body = await readJson(id, payload, bounds, claim);
    // A stream is answered for hours, and keeps nothing of its body.
    if (id === 'watchEvents') claim?.end();
    return body;
  });
}
