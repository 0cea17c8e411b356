/** Owns the bytes on the wire: documents as lines, lines as HTTP chunks, the response head, heartbeat and end. */
import { endLine, watchContentType, watchProtocol, type WatchKind } from '../../api/kinds.ts';
import type { Frame } from './frame.ts';

/** How documents are written: with their kind when several kinds are watched, chunked unless the client speaks HTTP/1.0. */
export interface Format {
  readonly withKind: boolean;
  readonly chunked: boolean;
}

/** Formats as small numbers, to key shared buffers by. */
export const formatKey = (format: Format): number => (format.withKind ? 1 : 0) + (format.chunked ? 2 : 0);

const formats: readonly Format[] = [0, 1, 2, 3].map((key) => ({ withKind: (key & 1) > 0, chunked: (key & 2) > 0 }));

/** One object for each format: thousands of streams share it, and it stays in the processor's cache. */
export function formatOf(format: Format): Format {
  return formats[formatKey(format)] ?? format;
}

/** The parts of a kind's documents that are always the same, so that a line costs one concatenation. */
interface LineTemplates {
  /** Each without the kind, and with it. */
  readonly change: readonly [string, string];
  readonly delete: readonly [string, string];
  readonly tail: readonly [string, string];
}

const lineTemplatesOf = (kind: WatchKind): LineTemplates => {
  const opening = (type: Frame['type']): readonly [string, string] => [
    `{"type":"${type}","value":`,
    `{"type":"${type}","kind":"${kind}","value":`,
  ];
  return {
    change: opening('change'),
    delete: opening('delete'),
    tail: ['{"type":"tail"}\n', `{"type":"tail","kind":"${kind}"}\n`],
  };
};

/** A kind that is added does not compile before it has its row. */
const lineTemplates: { readonly [Kind in WatchKind]: LineTemplates } = {
  device: lineTemplatesOf('device'),
  'security-groups': lineTemplatesOf('security-groups'),
};

/** One document, as one line. */
export const lineOf = (frame: Frame, withKind: boolean): string =>
  `${lineTemplates[frame.kind][frame.type][withKind ? 1 : 0]}${frame.json}}\n`;

export const tailLine = (kind: WatchKind, withKind: boolean): string => lineTemplates[kind].tail[withKind ? 1 : 0];

/** Lines as they go to the socket. */
export function encode(lines: string, chunked: boolean): Buffer {
  if (!chunked) return Buffer.from(lines);
  return Buffer.from(`${Buffer.byteLength(lines).toString(16)}\r\n${lines}\r\n`);
}

const lines = { heartbeat: '\n', end: '' };
const ready = {
  heartbeat: [encode(lines.heartbeat, false), encode(lines.heartbeat, true)],
  end: [encode(lines.end, false), encode(lines.end, true)],
};

/** A lone line feed: proxies and watchdogs see that the stream lives. */
export const heartbeat = (chunked: boolean): Buffer => ready.heartbeat[chunked ? 1 : 0] ?? Buffer.alloc(0);

let lastReport = { revision: -1, texts: [] as readonly Buffer[] };

/** Asks a device to say when what it enforces reflects this revision. Thousands of streams are asked the same. */
export function reportLine(revision: number, chunked: boolean): Buffer {
  if (lastReport.revision !== revision) {
    const line = `{"type":"report","revision":${revision}}\n`;
    lastReport = { revision, texts: [encode(line, false), encode(line, true)] };
  }
  return lastReport.texts[chunked ? 1 : 0] ?? Buffer.alloc(0);
}

/** The clean end of the body. */
export const ending = (chunked: boolean): Buffer => ready.end[chunked ? 1 : 0] ?? Buffer.alloc(0);

/** The clean end of a stream that goes both ways: the end of its connection alone could also be that of a server that died. */
export const twoWayEnding: Buffer = Buffer.from(`${endLine}\n`);

/**
 * The response's head, with further headers as lines. `Connection: close`, because a stream has its connection for itself; `X-Accel-Buffering` keeps
 * proxies of the nginx family from collecting documents before they pass them on.
 */
const heads = [false, true].map(
  (chunked) =>
    `HTTP/1.1 200 OK\r\nContent-Type: ${watchContentType}\r\nX-Accel-Buffering: no\r\n` +
    `Connection: close\r\n${chunked ? 'Transfer-Encoding: chunked\r\n' : ''}`,
);

/** The head of a stream that goes both ways. */
const twoWayHead =
  `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${watchProtocol}\r\n` +
  `Content-Type: ${watchContentType}\r\n`;

export const twoWayResponseHead = (headers: string): Buffer => Buffer.from(`${twoWayHead}${headers}\r\n`, 'latin1');

export const responseHead = (chunked: boolean, headers: string): Buffer =>
  Buffer.from(`${heads[chunked ? 1 : 0] ?? ''}${headers}\r\n`, 'latin1');
