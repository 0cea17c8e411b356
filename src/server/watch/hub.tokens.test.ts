/** Proves that a reader with tokens never continues in another history than its own (reference 4.3 (28)). */
import { expect, test, vi } from 'vitest';
import type { Resumption } from '../store/data/change-log.ts';
import { both, device, hubMaker, loopTurns } from './hub.fixture.ts';
import { tokenOf } from '../store/follow/revision-tokens.ts';
import { modelOrg } from './model.fixture.ts';

const make = hubMaker();

const [first, second, third] = [1, 2, 3].map((n) => `${n}a2b3c4d-5e6f-4a7b-8c9d-000000000000`) as [
  string,
  string,
  string,
];
const [one, two, three] = [first, second, third].map(tokenOf);

interface Told {
  readonly type: string;
  readonly revision?: number;
  readonly token?: string;
  readonly value?: { readonly revision: number };
}

/** Each line in short: its type, its revision and its token. */
const told = (lines: readonly string[]): readonly string[] =>
  lines.map((line) => {
    const { type, revision, token, value } = JSON.parse(line) as Told;
    return [type, value?.revision ?? revision, token].filter((part) => part !== undefined).join(' ');
  });

test('every document carries the token of its revision, of listings, tails, changes and heartbeats', async () => {
  const t = make();
  t.db.restart(first);
  t.db.create('device');
  t.db.restart(second);
  t.db.create('device');
  const sink = await t.watch(device, { tokens: true });
  expect(told(sink.lines())).toEqual([`change 1 ${one}`, `change 2 ${two}`, `tail 2 ${two}`]);
  // The database starts again and loses nothing: the hub learns that from the entry itself.
  t.db.restart(third);
  t.db.create('device');
  t.db.tell(2);
  await t.hint();
  expect(told(sink.lines().slice(3))).toEqual([`change 3 ${three}`]);
  // Of another kind: the stream shows nothing, and its position moves all the same.
  t.db.create('security-groups');
  await t.hint();
  await t.pass(t.hub.settings.heartbeatMs + 1);
  expect(told(sink.lines().slice(4))).toEqual([`heartbeat 4 ${three}`]);
});

test('a reader that does not ask for tokens is sent none, and heartbeats stay lone line feeds', async () => {
  const t = make();
  t.db.restart(first);
  t.db.create('device');
  const sink = await t.watch(both);
  await t.pass(t.hub.settings.heartbeatMs + 1);
  expect(sink.body()).not.toContain('token');
  expect(sink.body()).not.toContain('heartbeat');
  expect(sink.body().endsWith('}\n\n')).toBe(true);
});

test('a line that asks for a report carries the token of its revision, on one stream and not on the other', async () => {
  const t = make();
  t.db.restart(first);
  t.db.create('device');
  const [asks, plain] = [
    await t.watch(device, { tokens: true, takesReceiptRequests: true }),
    await t.watch(device, { takesReceiptRequests: true }),
  ];
  t.db.restart(second);
  t.db.create('device');
  await t.hint();
  for (const sink of [asks, plain]) expect(sink.body()).not.toContain('report');
  t.hub.receipts.ask(modelOrg, 2);
  await loopTurns();
  expect(told(asks.lines()).at(-1)).toBe(`report 2 ${two}`);
  expect(told(plain.lines()).at(-1)).toBe('report 2');
});

test('a resume with the token of the revision goes on, and one with another token is refused', async () => {
  const t = make();
  t.db.restart(first);
  for (let n = 0; n < 6; n += 1) t.db.create('device');
  t.db.restart(second);
  for (let n = 0; n < 2; n += 1) t.db.create('device');
  const resume = (gt_revision: number, token?: string) =>
    t.open([{ kind: 'device', gt_revision, ...(token !== undefined && { token }) }]);
  expect(await resume(6, one)).not.toBe('revision_gone');
  expect(await resume(7, two)).not.toBe('revision_gone');
  expect(await resume(6, two)).toBe('revision_gone');
  expect(await resume(7, one)).toBe('revision_gone');
  expect(await resume(7)).not.toBe('revision_gone');
});

test('a history that was cut and has grown past what a stream saw ends the stream, although the head only went up', async () => {
  const t = make();
  t.db.restart(first);
  for (let n = 0; n < 8; n += 1) t.db.create('device');
  const sink = await t.watch(device, { tokens: true });
  expect(told(sink.lines()).at(-1)).toBe(`tail 8 ${one}`);
  // A snapshot is put back, and a server that knows nothing of revisions 6 to 8 writes more than was lost.
  t.db.restart(second, 5);
  for (let n = 0; n < 6; n += 1) t.db.create('device');
  await t.pass(1);
  expect(sink.ended).toBe(true);
  expect(told(sink.lines())).toHaveLength(9);
  expect(await t.open([{ kind: 'device', gt_revision: 8, token: one ?? '' }])).toBe('revision_gone');
  const after = await t.watch([{ kind: 'device', gt_revision: 5, token: one ?? '' }], { tokens: true });
  expect(told(after.lines())).toEqual([6, 7, 8, 9, 10, 11].map((n) => `change ${n} ${two}`).concat(`tail 11 ${two}`));
});

test('what the database said about a history before it was cut changes nothing when it arrives late', async () => {
  const t = make();
  t.db.restart(first);
  for (let n = 0; n < 8; n += 1) t.db.create('device');
  await t.watch(device);
  // A server writes after a cut of which it does not know, and what this hub asks about that is answered late.
  t.db.restart(second, 5);
  for (let n = 0; n < 6; n += 1) t.db.create('device');
  const said = await t.db.resumption();
  let answer: (late: Resumption) => void = () => {};
  vi.spyOn(t.db, 'resumption').mockReturnValueOnce(new Promise((resolve) => (answer = resolve)));
  await t.pass(1);
  // Another server finds the cut, and the hub learns of it first.
  t.db.restart(third, 5);
  for (let n = 0; n < 8; n += 1) t.db.create('device');
  await t.pass(1);
  const sink = await t.watch(device, { tokens: true });
  answer(said);
  await loopTurns();
  expect(sink.ended).toBe(false);
  expect(await t.open([{ kind: 'device', gt_revision: 6, token: two ?? '' }])).toBe('revision_gone');
  expect(await t.open([{ kind: 'device', gt_revision: 6, token: three ?? '' }])).not.toBe('revision_gone');
});

test('a revision whose era is not known has no token, and any token is accepted for it', async () => {
  const t = make();
  t.db.create('device');
  const sink = await t.watch(device, { tokens: true });
  expect(told(sink.lines())).toEqual(['change 1', 'tail 1']);
  expect(await t.open([{ kind: 'device', gt_revision: 1, token: 'abc' }])).not.toBe('revision_gone');
});
