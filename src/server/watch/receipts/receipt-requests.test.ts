/** Proves when a device gets a receipt request on its stream: after it was sent everything up to the requested revision. */
import { expect, test } from 'vitest';
import { both, hubMaker, loopTurns } from '../hub.fixture.ts';
import { modelOrg } from '../model.fixture.ts';

const make = hubMaker();

test('a stream that follows is asked once it was sent the revision', async () => {
  const t = make();
  const sink = await t.watch(both, { takesReceiptRequests: true });
  sink.full = true;
  t.db.create('device');
  t.db.create('device');
  const revision = t.db.head;
  t.hub.receipts.ask(modelOrg, revision);
  await loopTurns(5);
  expect(sink.body()).not.toContain('"report"');
  sink.drain();
  await t.hint();
  await loopTurns();
  const line = `{"type":"report","revision":${revision}}`;
  expect(sink.body().split(line)).toHaveLength(2);
  expect(sink.body().indexOf(line)).toBeGreaterThan(sink.body().lastIndexOf('"change"'));
});

test('a stream that takes nothing for long is asked when it reads again, and the others at once meanwhile', async () => {
  const t = make();
  const slow = await t.watch(both, { takesReceiptRequests: true });
  slow.full = true;
  t.db.create('device');
  await t.hint();
  t.hub.receipts.ask(modelOrg, t.db.head);
  // Many times as often as it is looked at quickly.
  await loopTurns(200);
  expect(t.delays.at(-1)).toBe(1_000);
  const quick = await t.watch(both, { takesReceiptRequests: true });
  t.hub.receipts.ask(modelOrg, t.db.head);
  await loopTurns(5);
  const line = `{"type":"report","revision":${t.db.head}}`;
  expect([slow.body().includes(line), quick.body().includes(line)]).toEqual([false, true]);
  slow.drain();
  await loopTurns();
  expect(slow.body().split(line)).toHaveLength(2);
});

test('a reader that did not say that it understands is never asked', async () => {
  const t = make();
  const sink = await t.watch(both);
  t.db.create('device');
  await t.hint();
  t.hub.receipts.ask(modelOrg, t.db.head);
  await loopTurns();
  expect(sink.body()).toContain('"change"');
  expect(sink.body()).not.toContain('"report"');
});

test('a revision that is not there, which anybody who may connect to the database can name, is asked for up to the head, and others still are', async () => {
  const t = make();
  const sink = await t.watch(both, { takesReceiptRequests: true });
  t.hub.receipts.ask(modelOrg, Number.MAX_SAFE_INTEGER);
  await loopTurns(5);
  t.db.create('device');
  await t.hint();
  t.hub.receipts.ask(modelOrg, t.db.head);
  await loopTurns();
  expect(sink.body()).toContain(`{"type":"report","revision":${t.db.head}}`);
  expect(sink.body()).not.toContain(String(Number.MAX_SAFE_INTEGER));
});
