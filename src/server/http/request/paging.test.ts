/** Proves that a list is complete, that it is read no faster than the client takes it, and that a page has a limit. */
import { expect, test } from 'vitest';
import { answerList } from './paging.ts';

/** A caller that has a place whenever it wants one. */
const call = { path: '/x', inTurn: <T>(read: () => Promise<T>): Promise<T> => read() };

interface Row {
  readonly id: string;
  readonly text: string;
}

/** A store with this many rows, which records the reads. */
function store(count: number, size: number) {
  const rows = Array.from({ length: count }, (_, index): Row => ({
    id: String(index).padStart(6, '0'),
    text: 'x'.repeat(size),
  }));
  const asked: number[] = [];
  const read = ({ limit, after }: { readonly limit: number; readonly after?: string | undefined }): Promise<Row[]> => {
    asked.push(limit);
    const from = after === undefined ? 0 : rows.findIndex(({ id }) => id === after) + 1;
    return Promise.resolve(rows.slice(from, from + limit));
  };
  return { rows, asked, read, show: { id: (row: Row) => row.id, json: (row: Row) => JSON.stringify(row) } };
}

async function whole(json: string | AsyncIterable<string>): Promise<Row[]> {
  let text = '';
  if (typeof json === 'string') text = json;
  else for await (const part of json) text += part;
  return JSON.parse(text) as Row[];
}

test.each([0, 1, 199, 200, 201, 1000, 5000])('a list of %i without a limit is whole and in order', async (count) => {
  const { rows, read, show } = store(count, 10);
  const { json, next } = await answerList({ ...call, query: {} }, read, show);
  expect(next).toBeUndefined();
  expect(await whole(json)).toEqual(rows);
});

test('a reader that takes nothing has the store asked once, and holds a part', async () => {
  const { asked, read, show } = store(5000, 10_000);
  const { json } = await answerList({ ...call, query: {} }, read, show, { first: 16 });
  if (typeof json === 'string') throw new Error('the whole list is held');
  const iterator = json[Symbol.asyncIterator]();
  await iterator.next();
  expect(asked).toEqual([17]);
  const second = await iterator.next();
  expect(asked).toHaveLength(2);
  expect(String(second.value).length).toBeLessThan(1024 * 1024);
});

test.each([
  [10, 25],
  [25, 25],
  [300, 1000],
])('pages of %i lead through %i rows, each once', async (limit, count) => {
  const { rows, read, show } = store(count, 10);
  const seen: Row[] = [];
  let after: string | undefined;
  for (let pages = 0; pages < 100; pages += 1) {
    const query = { limit, ...(after === undefined ? {} : { after }) };
    const { json, next } = await answerList({ ...call, query }, read, show);
    const page = await whole(json);
    expect(page.length).toBeLessThanOrEqual(limit);
    seen.push(...page);
    if (next === undefined) break;
    after = new URLSearchParams(next.split('?')[1]).get('after') ?? undefined;
  }
  expect(seen).toEqual(rows);
});

/** A store whose records are larger than what is shown of them, `stored` bytes each. */
function largeStore(count: number, stored: number) {
  const { rows, read, show } = store(count, 10);
  const given: number[] = [];
  const readWithin = async (part: Parameters<typeof read>[0] & { readonly bytes: number }) => {
    const asked = await read(part);
    const fitting = asked.slice(0, Math.max(1, Math.ceil(part.bytes / stored)));
    given.push(fitting.length * stored);
    return fitting.length < asked.length ? Object.assign(fitting, { isCut: true as const }) : fitting;
  };
  return { rows, given, read: readWithin, show };
}

test('a list of records that are larger than the last ones is whole, and no read takes more bytes than a part may have', async () => {
  const { rows, given, read, show } = largeStore(500, 300_000);
  const { json } = await answerList({ ...call, query: {} }, read, show);
  expect(await whole(json)).toEqual(rows);
  expect(Math.max(...given)).toBeLessThan(2 * 1024 * 1024);
});

test('a page ends after some reads that ended by their bytes, and another follows', async () => {
  const { rows, given, read, show } = largeStore(500, 4_000_000);
  const { json, next } = await answerList({ ...call, query: { limit: 500 } }, read, show);
  const page = await whole(json);
  expect(page).toEqual(rows.slice(0, page.length));
  expect(given.length).toBeLessThan(20);
  expect(next).toBe(`/x?limit=500&after=${page.at(-1)?.id}`);
});

test('a page that would be too large is shorter than its limit, and another follows', async () => {
  const { read, show } = store(100, 1024 * 1024);
  const { json, next } = await answerList({ ...call, query: { limit: 100 } }, read, show, { first: 2 });
  const page = await whole(json);
  expect(page.length).toBeGreaterThan(1);
  expect(page.length).toBeLessThan(5);
  expect(next).toBe(`/x?limit=100&after=${page.at(-1)?.id}`);
});

test('each part is read in a turn of its caller, and what is sent meanwhile is outside of it', async () => {
  const { asked, rows, read, show } = store(3000, 1_000);
  let turns = 0;
  let isInTurn = false;
  const inTurn = async <T>(work: () => Promise<T>): Promise<T> => {
    isInTurn = true;
    turns += 1;
    const made = await work();
    isInTurn = false;
    return made;
  };
  const { json } = await answerList({ ...call, inTurn, query: {} }, read, show);
  expect(turns).toBe(1);
  if (typeof json === 'string') throw new Error('the whole list is held');
  let text = '';
  for await (const part of json) {
    expect(isInTurn).toBe(false);
    text += part;
  }
  expect(JSON.parse(text)).toEqual(rows);
  expect(turns).toBe(asked.length);
  expect(turns).toBeGreaterThan(3);
});
