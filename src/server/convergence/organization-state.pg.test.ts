/** Proves what is known of an organization's devices while its history is found to be another one. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../test/lib/postgres.ts';
import { TimeSlices } from '../scheduling/time-slices.ts';
import { asServer } from '../store/data/actor.ts';
import type { Receipts } from '../store/devices/receipts.ts';
import { device, makeWorld, query } from '../store/store.fixture.ts';
import { OrganizationState } from './organization-state.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

test('after another history was found, every receipt counts that the database has and no other; meanwhile no device counts as one that never reported', async () => {
  const { store, url, org, owner } = await makeWorld(postgres);
  const create = () => store.devices.create(org, owner, device(owner.user_id));
  const [kept, lost] = [(await create()).record.id, (await create()).record.id];
  const looks: (number | undefined)[] = [];
  const since: Receipts['since'] = async (...given) => {
    const answer = await store.receipts.since(...given);
    looks.push(state.receiptOf(kept)?.revision);
    return answer;
  };
  const state: OrganizationState = new OrganizationState(org, {
    store: { ...store, receipts: { ...store.receipts, since } },
    slices: new TimeSlices({ monotonic: () => 0, worked: () => 0, defer: queueMicrotask, rest: queueMicrotask }),
    digester: { digest: () => Promise.resolve(undefined) },
    monotonic: () => 0,
    now: () => 0,
  });
  for (const id of [kept, lost]) await store.receipts.report(org, id, { state: 'applied', revision: 3 }, asServer);
  await state.refresh();
  expect([kept, lost].map((id) => state.receiptOf(id)?.revision)).toEqual([3, 3]);
  looks.length = 0;

  // PostgreSQL started again, with a copy of before one of the reports.
  await query(url, `DELETE FROM device_status WHERE device_id = '${lost}'`);
  await query(url, `UPDATE eras SET started_at = 'epoch'`);
  await create();
  await state.refresh();
  expect([kept, lost].map((id) => state.receiptOf(id)?.revision)).toEqual([3, undefined]);
  expect(looks).toEqual([3, 3]);
});
