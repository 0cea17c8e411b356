/** Owns the table of requests for a stream that are written in unusual ways, byte for byte, and what each is answered. */
import { connect, type Socket } from 'node:net';
import { eventually } from '../lib/eventually.ts';

/** Where a request goes, and by whom. */
export interface Target {
  readonly url: string;
  readonly org: string;
  readonly token: string;
}

interface Parts {
  readonly method?: string;
  readonly path?: string;
  readonly version?: string;
  /** The lines of that header; one, unless given. */
  readonly hosts?: readonly string[];
  /** Those besides host and credential; a body's length comes by itself. */
  readonly headers?: readonly string[];
  readonly isAnonymous?: boolean;
  readonly body?: string | Buffer;
}

const items = '[{"kind":"device","at_tail":false}]';
const json = 'Content-Type: application/json';
const plain: Parts = { headers: [json], body: items };

function write({ org, token }: Target, parts: Parts): Buffer {
  const { method = 'POST', version = '1.1', hosts = ['ringfence'], headers = [], body = '' } = parts;
  const path = parts.path ?? `/api/organizations/${org}/events`;
  const hasLength = headers.some((line) => /^(content-length|transfer-encoding):/i.test(line));
  const lines = [
    `${method} ${path.replace('ORG', org)} HTTP/${version}`,
    ...hosts.map((host) => `Host: ${host}`),
    ...(parts.isAnonymous === true ? [] : [`Authorization: Bearer ${token}`]),
    ...headers,
    ...(body.length > 0 && !hasLength ? [`Content-Length: ${Buffer.byteLength(body)}`] : []),
  ];
  return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`), Buffer.from(body)]);
}

/** What is sent in one go on one connection, and the answers in their order: status, code, what is said of the connection and the like. */
export const rows: readonly (readonly [title: string, requests: readonly Parts[], answers: readonly string[]])[] = [
  ['as clients write it', [plain], ['200 stream']],
  ['without /api', [{ ...plain, path: '/organizations/ORG/events' }], ['200 stream']],
  ['with a query', [{ ...plain, path: '/api/organizations/ORG/events?x=%zz' }], ['200 stream']],
  ['with a fragment', [{ ...plain, path: '/api/organizations/ORG/events#x' }], ['200 stream']],
  ['percent encoded', [{ ...plain, path: '/api/organizations/ORG/%65vents' }], ['200 stream']],
  ['in HTTP/1.0', [{ ...plain, version: '1.0' }], ['200 stream without chunks']],
  ['in HTTP/1.0, of no host', [{ ...plain, version: '1.0', hosts: [] }], ['200 stream without chunks']],
  ['of no host', [{ ...plain, hosts: [] }], ['400 malformed_request']],
  ['of two hosts', [{ ...plain, hosts: ['ringfence', 'ringfence'] }], ['400 malformed_request']],
  ['of two hosts, in HTTP/1.0', [{ ...plain, version: '1.0', hosts: ['a', 'b'] }], ['400 malformed_request close']],
  ['of two hosts in one line', [{ ...plain, hosts: ['a, b'] }], ['400 malformed_request']],
  ['of a host that is none', [{ ...plain, hosts: ['a/b'] }], ['400 malformed_request']],
  ['of a host with a port', [{ ...plain, hosts: ['[::1]:8080'] }], ['200 stream']],
  [
    'of nobody, of no host',
    [{ isAnonymous: true, method: 'GET', path: '/healthz', hosts: [] }],
    ['400 malformed_request'],
  ],
  ['with a slash at the end', [{ ...plain, path: '/api/organizations/ORG/events/' }], ['404 not_found']],
  ['with two slashes', [{ ...plain, path: '/api//organizations/ORG/events' }], ['404 not_found']],
  ['with a broken encoding', [{ ...plain, path: '/api/organizations/%zz/events' }], ['400 malformed_path']],
  ['with an id that is none', [{ ...plain, path: '/api/organizations/x/events' }], ['400 malformed_path']],
  [
    'of nowhere, in the form of an id',
    [{ ...plain, path: `/api/organizations/${'-'.repeat(36)}/events` }],
    ['400 malformed_path'],
  ],
  ['by HEAD', [{ method: 'HEAD' }], ['405 allow POST']],
  ['by GET', [{ method: 'GET' }], ['405 method_not_allowed allow POST']],
  ['by OPTIONS', [{ method: 'OPTIONS' }], ['405 method_not_allowed allow POST']],
  ['by PUT', [{ ...plain, method: 'PUT' }], ['405 method_not_allowed allow POST']],
  ['by nobody', [{ ...plain, isAnonymous: true }], ['401 unauthenticated']],
  ['by nobody, without a type', [{ isAnonymous: true, body: 'x' }], ['401 unauthenticated']],
  ['for HTML', [{ ...plain, headers: [json, 'Accept: text/html'] }], ['406 not_acceptable']],
  ['with a body in chunks', [{ headers: [json, 'Transfer-Encoding: chunked'], body: chunks(items) }], ['200 stream']],
  [
    'with an empty body in chunks',
    [{ headers: [json, 'Transfer-Encoding: chunked'], body: '0\r\n\r\n' }],
    ['422 invalid'],
  ],
  ['that waits to be told to go on', [{ ...plain, headers: [json, 'Expect: 100-continue'] }], ['100', '200 stream']],
  ['that expects something else', [{ ...plain, headers: [json, 'Expect: tea'] }], ['417']],
  [
    'with JSON in capitals and a charset',
    [{ ...plain, headers: ['content-type:APPLICATION/JSON ; charset="utf-8"'] }],
    ['200 stream'],
  ],
  ['without a type', [{ body: items }], ['415 unsupported_media_type close']],
  ['of another type', [{ headers: ['Content-Type: text/plain'], body: items }], ['415 unsupported_media_type close']],
  [
    'in a coding',
    [{ headers: [json, 'Content-Encoding: gzip'], body: items }],
    ['415 unsupported_media_type close takes identity'],
  ],
  ['without a body', [{}], ['422 invalid']],
  ['without a body, of a length', [{ headers: ['Content-Length: 0'] }], ['422 invalid']],
  ['without a body, of a type', [{ headers: [json] }], ['422 invalid']],
  ['with half a document', [{ ...plain, body: '[{"kind":' }], ['400 malformed_json close']],
  [
    'with bytes that are no text',
    [{ ...plain, body: Buffer.from([0x5b, 0x22, 0xff, 0x22, 0x5d]) }],
    ['400 malformed_json close'],
  ],
  ['with __proto__', [{ ...plain, body: '[{"kind":"device","__proto__":{"at_tail":true}}]' }], ['422 invalid']],
  ['that nests deeply', [{ ...plain, body: '['.repeat(10_000) }], ['422 invalid close']],
  ['that is too large', [{ ...plain, body: `["${'x'.repeat(70_000)}"]` }], ['413 payload_too_large close']],
  ['with a problem', [{ ...plain, body: '[{"kind":"user"}]' }], ['422 invalid']],
  ['from the future', [{ ...plain, body: '[{"kind":"device","gt_revision":999999}]' }], ['410 revision_gone']],
  [
    'one after the other',
    [{ ...plain, isAnonymous: true }, { ...plain, body: '[]' }, { method: 'GET', path: '/healthz' }, plain],
    ['401 unauthenticated', '422 invalid', '200', '200 stream'],
  ],
  [
    'with another behind it, which a stream does not read',
    [plain, { method: 'GET', path: '/healthz' }],
    ['200 stream'],
  ],
  ['that is no HTTP', [{ ...plain, headers: [json, 'Content-Length: x'] }], ['400 malformed_request close']],
  [
    'of two lengths',
    [{ ...plain, headers: [json, 'Content-Length: 35', 'Transfer-Encoding: chunked'] }],
    ['400 malformed_request close'],
  ],
];

function chunks(text: string): string {
  const half = text.length >> 1;
  return [text.slice(0, half), text.slice(half), '']
    .map((part) => `${part.length.toString(16)}\r\n${part}\r\n`)
    .join('');
}

interface RawAnswer {
  readonly head: string;
  readonly body: string;
}

const lastChunk = '0\r\n\r\n';

/** The answers on a connection so far, whole ones only; a stream counts once its tail has come. */
function answersIn(text: string, methods: readonly string[]): readonly RawAnswer[] {
  const answers: RawAnswer[] = [];
  for (let rest = text; ;) {
    const end = rest.indexOf('\r\n\r\n');
    if (end < 0) return answers;
    const head = rest.slice(0, end);
    const after = rest.slice(end + 4);
    const isInterim = head.startsWith('HTTP/1.1 1');
    const final = answers.filter((one) => !one.head.startsWith('HTTP/1.1 1')).length;
    const isEmpty = isInterim || methods[final] === 'HEAD' || after === lastChunk;
    const length = isEmpty ? '0' : /^content-length: (\d+)$/im.exec(head)?.[1];
    if (length === undefined && !after.includes('"tail"')) return answers;
    const body = after.slice(0, length === undefined ? undefined : Number(length));
    if (length !== undefined && body.length < Number(length)) return answers;
    answers.push({ head, body });
    rest = after === lastChunk ? '' : after.slice(body.length);
  }
}

const isStream = ({ head }: RawAnswer): boolean => head.includes('application/json;stream=watch');

/** An answer in short. */
function inShort(answer: RawAnswer): string {
  const { head, body } = answer;
  const valueOf = (name: string): string | undefined => new RegExp(`^${name}: (.*)$`, 'im').exec(head)?.[1];
  const [allow, takes] = [valueOf('allow'), valueOf('accept-encoding')];
  return [
    head.slice('HTTP/1.1 '.length, 'HTTP/1.1 200'.length),
    ...(isStream(answer) ? ['stream'] : []),
    ...(isStream(answer) && valueOf('transfer-encoding') === undefined ? ['without chunks'] : []),
    ...(body.startsWith('{"type":"/api/docs') ? [(JSON.parse(body) as { code: string }).code] : []),
    ...(valueOf('connection')?.toLowerCase() === 'close' && !isStream(answer) ? ['close'] : []),
    ...(allow === undefined ? [] : [`allow ${allow}`]),
    ...(takes === undefined ? [] : [`takes ${takes}`]),
  ].join(' ');
}

/** The first lines of an answer, with what is different each time left out. */
export const fixedLines = (head: string): readonly string[] =>
  head.split('\r\n').map((line) => line.replace(/^(date|x-request-id|content-length): .*/i, '$1'));

/** How bytes are sent: all at once, as clients do it, or the first alone, so that no request is whole in what a connection sends first. */
export type Sending = 'at once' | 'in two';

/** Should they come together after all, on a busy machine, that is the other way to send them. */
async function send(socket: Socket, bytes: Buffer, sending: Sending): Promise<void> {
  if (sending === 'in two') {
    await new Promise<unknown>((resolve) => socket.write(bytes.subarray(0, 1), resolve));
    for (let turn = 0; turn < 10; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  }
  socket.write(sending === 'in two' ? bytes.subarray(1) : bytes);
}

/**
 * Sends the requests on one connection, waits until so many answers have come, half closes it, which ends what is left, and gives back
 * all that came.
 */
export async function exchange(
  target: Target,
  requests: readonly Parts[],
  answers: number,
  sending: Sending = 'at once',
) {
  const { hostname, port } = new URL(target.url);
  const methods = requests.map(({ method = 'POST' }) => method);
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
  let text = '';
  let isClosed = false;
  socket.setEncoding('latin1').on('data', (chunk) => (text += String(chunk)));
  socket.on('error', () => {}).on('close', () => (isClosed = true));
  socket.on('end', () => socket.end());
  try {
    await send(socket, Buffer.concat(requests.map((parts) => write(target, parts))), sending);
    const told = (what: string) => (): string => `${what}; received: ${text}`;
    await eventually(told(`${answers} answers`), () => isClosed || answersIn(text, methods).length >= answers);
    socket.end();
    await eventually(told('the end of the connection'), () => isClosed);
    const came = answersIn(text, methods);
    return { short: came.map(inShort), heads: came.map(({ head }) => fixedLines(head)), text };
  } finally {
    socket.destroy();
  }
}
