/** Proves that a search for the newest traffic goes on after an empty page, and ends. */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { parseOrganizationId } from '../../policy/ids.ts';
import type { FlowPage, FlowQuery, StoredFlow } from '../store/data/flows.ts';
import type { Store } from '../store/open.ts';
import { newestFlows } from './newest-flows.ts';

const org = parseOrganizationId(randomUUID());
const flow = { port: 22 } as StoredFlow;

const storeOf = (pages: (query: FlowQuery) => FlowPage) =>
  ({ flows: { page: (_: unknown, query: FlowQuery) => Promise.resolve(pages(query)) } }) as unknown as Pick<
    Store,
    'flows'
  >;

test('an empty page is not the end', async () => {
  const store = storeOf(({ after }) => (after === undefined ? { flows: [], next: '1.1.0' } : { flows: [flow] }));
  expect(await newestFlows(store, org, { limit: 5 })).toEqual({ flows: [flow], more: false });
});

test('it asks for no more than it needs', async () => {
  const store = storeOf(({ limit }) => ({
    flows: Array.from({ length: Math.min(limit, 3) }, () => flow),
    next: '1.1.0',
  }));
  expect(await newestFlows(store, org, { limit: 5 })).toEqual({
    flows: Array.from({ length: 5 }, () => flow),
    more: true,
  });
});

test('a search that finds nothing ends', async () => {
  let pages = 0;
  const store = storeOf(() => ({ flows: [], next: `${(pages += 1)}.1.0` }));
  expect(await newestFlows(store, org, { limit: 5 })).toEqual({ flows: [], more: true });
  expect(pages).toBe(20);
});
