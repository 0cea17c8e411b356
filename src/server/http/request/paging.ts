/** Owns lists: it reads their query, cuts pages, and links to the next page. */
import type { RequestProblem } from '../../../api/codes.ts';
import { operations, type QueryOf } from '../../../api/operations.ts';
import type { OperationId } from '../../../api/paths.ts';
import { check } from '../../../api/validate.ts';
import type { ListResult } from '../call.ts';
import { at, join } from '../../../policy/problem.ts';
import { refuseInvalid } from '../../problems.ts';

/** Turns the text of a parameter into what its schema wants, where it plainly is that; else leaves it for the check to refuse. */
function readParameter(schema: { readonly type?: string }, text: unknown): unknown {
  if (schema.type === 'integer' && typeof text === 'string' && /^-?\d{1,17}$/.test(text)) return Number(text);
  if (schema.type === 'boolean' && (text === 'true' || text === '')) return true;
  if (schema.type === 'boolean' && text === 'false') return false;
  if (schema.type === 'string' && typeof text === 'string') return text.toLowerCase();
  return text;
}

const unknownIn = (given: object, known: object): RequestProblem[] =>
  Object.keys(given)
    .filter((name) => !Object.hasOwn(known, name))
    .map((name) => ({
      pointer: at('', name),
      code: 'unknown_field',
      detail: 'This operation does not have this parameter.',
    }));

/**
 * The query parameters that the operation knows. A read ignores others, because proxies and tools add their own. A
 * write refuses them: a write with a condition that this server does not know must not happen without it.
 */
export function parseQuery<Id extends OperationId>(id: Id, given: Readonly<Record<string, unknown>>): QueryOf<Id> {
  const { query: schema, effect } = operations[id];
  const properties = schema?.properties ?? {};
  const known: [string, unknown][] = [];
  const problems: RequestProblem[] = effect === 'write' ? unknownIn(given, properties) : [];
  for (const [name, inner] of Object.entries(properties)) {
    const text = Object.hasOwn(given, name) ? given[name] : undefined;
    if (Array.isArray(text))
      problems.push({ pointer: `/${name}`, code: 'duplicate', detail: `${name} is given more than once.` });
    else if (text !== undefined) known.push([name, readParameter(inner, text)]);
  }
  const query = Object.fromEntries(known);
  refuseInvalid(join(schema === undefined ? { problems: [], more: 0 } : check(schema, query), problems));
  return query as QueryOf<Id>;
}

/** Which part of a list is asked for. */
interface PageQuery {
  readonly limit?: number | undefined;
  readonly after?: string | undefined;
  readonly gt_revision?: number | undefined;
  readonly at_revision?: number | undefined;
  readonly kind?: 'user' | 'device' | undefined;
  readonly since?: string | undefined;
  readonly until?: string | undefined;
}

interface Rows<T> extends ReadonlyArray<T> {
  /** `bytes` ended them: more rows follow. */
  readonly isCut?: true;
}

/** Asks the store for one part. */
type ReadPart<T> = (part: PageQuery & { readonly limit: number; readonly bytes: number }) => Promise<Rows<T>>;

interface RowView<T> {
  readonly id: (row: T) => string;
  readonly json: (row: T) => string;
}

/** Records that are read first. Later parts are as many as fit the size below, by what the last ones took. */
const firstPart = 200;
const largestPart = 5_000;
/** Characters of a part: the most that the server holds for one slow reader. */
const partSize = 512 * 1024;
/** Bytes of records that are read for a part, whatever the last ones took: twice what a part should have. */
const partBytes = 2 * partSize;
/** Parts of a page that ended by their bytes: records may be far larger than what is shown of them. */
const mostCuts = 2;
/** Characters of a page, and one part: one with fewer records than `limit` is followed by another. It is held until it is sent. */
const pageSize = 2 * 1024 * 1024;

/** Of a call, what a list takes. */
interface ListCall {
  readonly path: string;
  readonly query: PageQuery;
  readonly inTurn: <T>(read: () => Promise<T>) => Promise<T>;
}

interface Part {
  readonly texts: readonly string[];
  readonly size: number;
  readonly isCut: boolean;
  /** Where the next part starts; undefined after the last. */
  readonly next: string | undefined;
}

/** Of the records only their texts are held. */
async function readPart<T>(
  asked: Parameters<ReadPart<T>>[0],
  count: number,
  read: ReadPart<T>,
  show: RowView<T>,
): Promise<Part> {
  const rows = await read(asked);
  const shown = rows.slice(0, count);
  const isCut = rows.isCut === true;
  const last = shown.at(-1);
  const next = (isCut || rows.length > count) && last !== undefined ? show.id(last) : undefined;
  const texts = shown.map(show.json);
  return { texts, size: texts.reduce((sum, text) => sum + text.length, 0), isCut, next };
}

/** Reads a list part by part, each only when it is asked for; `most` records altogether. */
async function* partsOf<T>(
  query: PageQuery,
  { most, first }: { readonly most: number; readonly first: number },
  read: ReadPart<T>,
  show: RowView<T>,
): AsyncGenerator<Part> {
  let { after } = query;
  let size = first;
  for (let left = most; left > 0;) {
    const count = Math.min(size, left);
    // Reads one more row than the part holds, to see whether another part follows.
    const asked = { ...query, limit: count + 1, bytes: partBytes, ...(after === undefined ? {} : { after }) };
    const part = await readPart(asked, count, read, show);
    yield part;
    if (part.next === undefined) return;
    after = part.next;
    const { length } = part.texts;
    left -= length;
    // What did not fit is looked for again: no more of it than is likely to fit then.
    const largest = part.isCut ? 2 * length : largestPart;
    size = Math.max(1, Math.min(largest, Math.floor((length * partSize) / Math.max(1, part.size))));
  }
}

/** The rest of a list as text, read while it is sent. */
async function* restOf(first: Part, parts: AsyncGenerator<Part>, inTurn: ListCall['inTurn']): AsyncGenerator<string> {
  yield `[${first.texts.join(',')}`;
  for (let { next } = first; next !== undefined;) {
    const part = (await inTurn(() => parts.next())).value as Part;
    yield `,${part.texts.join(',')}`;
    ({ next } = part);
  }
  yield ']';
}

/** A long page as it is sent: put together it would be in memory twice. */
async function* piecesOf(texts: readonly string[]): AsyncGenerator<string> {
  let before = '[';
  for (const text of texts) {
    yield before;
    yield text;
    before = ',';
  }
  yield ']';
}

/** The parts of a page, as one. */
async function pageOf(parts: AsyncGenerator<Part>): Promise<Omit<Part, 'isCut'>> {
  const texts: string[] = [];
  let size = 0;
  let cuts = 0;
  let next: string | undefined;
  for await (const part of parts) {
    texts.push(...part.texts);
    size += part.size;
    cuts += Number(part.isCut);
    ({ next } = part);
    if (size >= pageSize || cuts >= mostCuts) break;
  }
  return { texts, size, next };
}

/**
 * Answers with a list. Without a limit it is the whole list: parts after the first are read while the answer is sent,
 * so that a slow reader costs one part of memory. With a limit it is a page, which is cut short when it would be too
 * large. A page, and each part of a whole list, is read when its caller has a place.
 */
export async function answerList<T>(
  call: ListCall,
  read: ReadPart<T>,
  show: RowView<T>,
  { first: records = firstPart }: { readonly first?: number } = {},
): Promise<ListResult> {
  const { limit, gt_revision, at_revision, kind, since, until } = call.query;
  const { inTurn } = call;
  const parts = partsOf(call.query, { most: limit ?? Number.POSITIVE_INFINITY, first: records }, read, show);
  if (limit === undefined) {
    const first = (await inTurn(() => parts.next())).value as Part;
    const json = first.next === undefined ? `[${first.texts.join(',')}]` : restOf(first, parts, inTurn);
    return { kind: 'list', json };
  }
  const { texts, size, next } = await inTurn(() => pageOf(parts));
  const json = size <= partSize ? `[${texts.join(',')}]` : piecesOf(texts);
  if (next === undefined) return { kind: 'list', json };
  const filters = Object.entries({ gt_revision, at_revision, kind, since, until })
    .map(([name, value]) => (value === undefined ? '' : `&${name}=${encodeURIComponent(value)}`))
    .join('');
  return { kind: 'list', json, next: `${call.path}?limit=${limit}&after=${next}${filters}` };
}
