/** Owns the bytes on the wire: documents as lines, lines as HTTP chunks, the response head, heartbeat and end. */
import { endLine, watchContentType, watchProtocol, type WatchKind } from '../../api/kinds.ts';
import type { Frame } from '../store/follow/frame.ts';
import type { RevisionTokens } from '../store/follow/revision-tokens.ts';

/** How documents are written: with their kind when several kinds are watched, chunked unless the client speaks HTTP/1.0, with tokens for readers that ask, with what agents do not get for people. */
export interface Format {
  readonly withKind: boolean;
  readonly chunked: boolean;
  readonly tokens: boolean;
  /** With lines that say when no change is half sent. */
  readonly complete: boolean;
  /** For an agent: without what only people read. */
  readonly forAgent: boolean;
}

/** Formats as small numbers, to key shared buffers by. */
export const formatKey = (format: Format): number =>
  (format.withKind ? 1 : 0) +
  (format.chunked ? 2 : 0) +
  (format.tokens ? 4 : 0) +
  (format.complete ? 8 : 0) +
  (format.forAgent ? 16 : 0);
/** How many formats there are. */
export const formatCount = 32;

const formats: readonly Format[] = Array.from({ length: formatCount }, (_, key) => ({
  withKind: (key & 1) > 0,
  chunked: (key & 2) > 0,
  tokens: (key & 4) > 0,
  complete: (key & 8) > 0,
  forAgent: (key & 16) > 0,
}));

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
  const opening = (type: Frame['type'] | 'tail'): readonly [string, string] => [
    `{"type":"${type}"`,
    `{"type":"${type}","kind":"${kind}"`,
  ];
  return {
    change: opening('change'),
    delete: opening('delete'),
    tail: opening('tail'),
  };
};

/** A kind that is added does not compile before it has its row. */
const lineTemplates: { readonly [Kind in WatchKind]: LineTemplates } = {
  device: lineTemplatesOf('device'),
  'security-groups': lineTemplatesOf('security-groups'),
};

/** The token of a revision as a member of a document; nothing where it is not known. */
function tokenMember(tokens: RevisionTokens, revision: number): string {
  const token = tokens.at(revision);
  return token === undefined ? '' : `,"token":"${token}"`;
}

/** One document, as one line. */
export function lineOf(frame: Frame, format: Format, tokens: RevisionTokens): string {
  const { withKind, tokens: withTokens, forAgent } = format;
  const opening = lineTemplates[frame.kind][frame.type][withKind ? 1 : 0];
  const json = forAgent ? (frame.agentJson ?? frame.json) : frame.json;
  return `${opening}${withTokens ? tokenMember(tokens, frame.revision) : ''},"value":${json}}\n`;
}

/** The tail. With tokens it also says up to which revision everything of the kind was sent. */
export function tailLine(
  kind: WatchKind,
  revision: number,
  { withKind, tokens: withTokens }: Format,
  tokens: RevisionTokens,
): string {
  const opening = lineTemplates[kind].tail[withKind ? 1 : 0];
  return `${opening}${withTokens ? `,"revision":${revision}${tokenMember(tokens, revision)}` : ''}}\n`;
}

/** Says that everything up to this revision was sent, and that no change is half sent: a transaction ends here. */
export const completeLine = (revision: number, { tokens: withTokens }: Format, tokens: RevisionTokens): string =>
  `{"type":"complete","revision":${revision}${withTokens ? tokenMember(tokens, revision) : ''}}\n`;

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

/** A line about a revision that thousands of streams are sent: the last one is kept in each format. */
class SharedRevisionLine {
  readonly #type: string;
  #key = '';
  #texts: (Buffer | undefined)[] = [];

  constructor(type: string) {
    this.#type = type;
  }

  of(revision: number, format: Format, tokens: RevisionTokens): Buffer {
    const token = tokenMember(tokens, revision);
    const key = `${revision}${token}`;
    if (this.#key !== key) {
      this.#key = key;
      this.#texts = [];
    }
    const line = `{"type":"${this.#type}","revision":${revision}${format.tokens ? token : ''}}\n`;
    return (this.#texts[formatKey(format)] ??= encode(line, format.chunked));
  }
}

const reports = new SharedRevisionLine('report');
const heartbeats = new SharedRevisionLine('heartbeat');

/** Asks a device to say when what it enforces reflects this revision. */
export const reportLine = (revision: number, format: Format, tokens: RevisionTokens): Buffer =>
  reports.of(revision, format, tokens);

/** The heartbeat of a reader that asks for tokens: everything up to this revision was sent. */
export const heartbeatLine = (revision: number, format: Format, tokens: RevisionTokens): Buffer =>
  heartbeats.of(revision, format, tokens);

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
