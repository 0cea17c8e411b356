/** Proves that heads are read once for all who ask before the read begins, and that the patient wait for each other. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { parseOrganizationId } from '../../policy/ids.ts';
import { HeadReader } from './heads.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const org = (n: number) => parseOrganizationId(`00000000-0000-4000-8000-00000000000${n}`);
const patient = { patient: true };

function reader() {
  const reads: string[][] = [];
  const heads = new HeadReader({
    source: {
      heads: (orgs) => {
        reads.push(orgs.map((id) => id.slice(-1)));
        return Promise.resolve({ organizations: new Map(), ended: [] });
      },
      readChanges: () => Promise.reject(new Error('not asked for')),
      readState: () => Promise.reject(new Error('not asked for')),
      onHint: () => () => {},
    },
    known: () => 0,
    onRead: () => {},
    spacing: { ms: 10, now: () => performance.now(), later: (run, ms) => void setTimeout(run, ms) },
  });
  return { heads, reads };
}

test('a lone patient one is answered at once, those who come within the spacing share the next read', async () => {
  const { heads, reads } = reader();
  await heads.read([org(1)], patient);
  expect(reads).toEqual([['1']]);
  const later = [heads.read([org(1)], patient), heads.read([org(2)], patient)];
  await vi.advanceTimersByTimeAsync(9);
  expect(reads).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(1);
  await Promise.all(later);
  expect(reads).toEqual([['1'], ['1', '2']]);
});

test('somebody in a hurry does not wait, and takes the patient along', async () => {
  const { heads, reads } = reader();
  await heads.read([org(1)], patient);
  const waiting = heads.read([org(2)], patient);
  await vi.advanceTimersByTimeAsync(1);
  expect(reads).toHaveLength(1);
  await heads.read([org(3)]);
  await waiting;
  expect(reads).toEqual([['1'], ['2', '3']]);
  await vi.advanceTimersByTimeAsync(50);
  expect(reads).toHaveLength(2);
  await heads.read([org(1)]);
  await heads.read([org(1)]);
  expect(reads).toHaveLength(4);
});
