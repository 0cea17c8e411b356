/** Owns the check of the header `Host`: a request that two readers could take for requests to different hosts is refused (RFC 9112 3.2). */
import type { IncomingMessage } from 'node:http';
import { HttpError } from '../../problems.ts';

const wellFormed = /^(?:[\w.~!$&'()*+;=%-]*|\[[\da-f:.]+\])(?::\d*)?$/i;

/** Fails unless the request names one host; in HTTP/1.0 it may name none. */
export function checkHost({ rawHeaders, httpVersion }: IncomingMessage): void {
  const hosts = rawHeaders.filter((_, index) => index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === 'host');
  const [host, ...more] = hosts;
  if (more.length > 0) throw new HttpError('malformed_request', 'The request has more than one Host header.');
  if (host === undefined && httpVersion !== '1.0')
    throw new HttpError('malformed_request', 'The request has no Host header.');
  if (host !== undefined && !wellFormed.test(host))
    throw new HttpError('malformed_request', 'The Host header is not valid.');
}
