/** Owns the reading of a request that is written as programs write it and whole in its first bytes. Whatever else there is, Node's parser reads. */
import type { IncomingHttpHeaders } from 'node:http';

export interface PlainRequest {
  readonly url: string;
  /** By name in lower case, as Node gives them. */
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** Longer ones are rare, and for others to judge. */
const mostBytes = 8_192;

/**
 * The headers that such a request may have, each once, by the ways in which programs write them. None of them changes how a message is read, but for
 * its length and `Connection`. With any other the request is not plain: a coding, an expectation, a cookie, a proxy's word.
 */
const headerNames: ReadonlyMap<string, string> = new Map(
  [
    'Host',
    'Connection',
    'Authorization',
    'Content-Type',
    'Content-Length',
    'Accept',
    'Accept-Encoding',
    'Accept-Language',
    'User-Agent',
    'Prefer',
    'Sec-Fetch-Mode',
    'X-Request-Id',
  ].flatMap((name) => [
    [name, name.toLowerCase()],
    [name.toLowerCase(), name.toLowerCase()],
  ]),
);

/** Lines of visible ASCII and spaces, parted by CR LF and nothing else. */
const plainLines = /^[ -~]+(?:\r\n[ -~]+)*$/;
const plainPath = /^\/[A-Za-z0-9/_-]+$/;
const plainLength = /^[1-9][0-9]{0,3}$/;
const before = 'POST ';
const after = ' HTTP/1.1';

function headersIn(lines: readonly string[]): IncomingHttpHeaders | undefined {
  const headers: IncomingHttpHeaders = {};
  for (const line of lines) {
    const colon = line.indexOf(':');
    const name = headerNames.get(line.slice(0, colon));
    const value = line.slice(colon + 1).trim();
    if (name === undefined || value === '' || headers[name] !== undefined) return undefined;
    headers[name] = value;
  }
  return headers;
}

/** Whether the message is framed as simply as can be: a JSON body of a known length, which is all that came. */
const isPlainlyFramed = (headers: IncomingHttpHeaders, bodyBytes: number): boolean =>
  headers.host !== undefined &&
  headers['content-type'] === 'application/json' &&
  plainLength.test(headers['content-length'] ?? '') &&
  Number(headers['content-length']) === bodyBytes &&
  (headers.connection === undefined || headers.connection === 'keep-alive' || headers.connection === 'close');

/** A `POST` of JSON that is these bytes and nothing more, in the one way that every reader of HTTP understands alike; undefined for all others. */
export function readPlainRequest(bytes: Buffer): PlainRequest | undefined {
  // Most that is not meant goes by its first letter.
  if (bytes[0] !== 0x50 || bytes.length > mostBytes) return undefined;
  const end = bytes.indexOf('\r\n\r\n');
  if (end < 0) return undefined;
  const head = bytes.toString('latin1', 0, end);
  if (!plainLines.test(head)) return undefined;
  const [first = '', ...lines] = head.split('\r\n');
  if (!first.startsWith(before) || !first.endsWith(after)) return undefined;
  const url = first.slice(before.length, -after.length);
  const headers = headersIn(lines);
  const body = bytes.subarray(end + 4);
  if (!plainPath.test(url) || headers === undefined || !isPlainlyFramed(headers, body.length)) return undefined;
  return { url, headers, body };
}
