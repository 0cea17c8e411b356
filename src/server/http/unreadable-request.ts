/** Owns the answer to a request that Node cannot parse: there is no request object yet, only a socket. */
import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import { errors, problemContentType, type ErrorCode } from '../../api/codes.ts';
import { maxHeaderSize } from '../../node/http.ts';
import { HttpError, problemBody } from '../problems.ts';

/** How long a request may take to arrive; the answer may take longer. */
export const arrivalMs = 60_000;

interface Reason {
  readonly code: ErrorCode;
  readonly detail: string;
}

const malformed: Reason = { code: 'malformed_request', detail: 'The request is not valid HTTP.' };
/** By Node's name for it. */
const reasons: Readonly<Record<string, Reason>> = {
  HPE_HEADER_OVERFLOW: {
    code: 'headers_too_large',
    detail: `The headers of a request may have at most ${maxHeaderSize} bytes in total.`,
  },
  ERR_HTTP_REQUEST_TIMEOUT: {
    code: 'request_timeout',
    detail: `The request did not arrive completely within ${arrivalMs / 1000} seconds.`,
  },
};

export function answerUnreadable(error: Error & { readonly code?: string }, socket: Socket): void {
  // No answer is possible before TLS is set up: a graceful end would wait for the handshake for ever.
  const isUnsecured = error.code === 'ERR_TLS_HANDSHAKE_TIMEOUT' || error.code?.startsWith('ERR_SSL_') === true;
  if (!socket.writable || error.code === 'ECONNRESET' || isUnsecured) {
    socket.destroy();
    return;
  }
  const { code, detail } = reasons[error.code ?? ''] ?? malformed;
  const [status, title] = errors[code];
  const body = problemBody(new HttpError(code, detail), { path: '/', id: randomUUID() });
  const head = `HTTP/1.1 ${status} ${title}\r\nContent-Type: ${problemContentType}\r\nConnection: close\r\n`;
  socket.end(`${head}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
}
