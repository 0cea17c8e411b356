/** Proves that what was counted is counted once, and survives new counters, new tables and new starts. */
import { expect, test } from 'vitest';
import type { Reading } from '../../nft/reading.ts';
import { Tally } from './counter-totals.ts';

const group = 'in-00000000-0000-4000-8000-000000000001';
const reading = (packets: number, incarnation = '1.1', name = group): Reading => ({
  table: 'service',
  name,
  incarnation,
  packets,
  bytes: packets * 10,
});

test('readings of one counter are not added up, only what it has gone on by', () => {
  const tally = new Tally();
  for (const packets of [0, 3, 3, 10]) tally.see([reading(packets)]);
  expect(tally.total(group)).toEqual({ packets: 10, bytes: 100 });
});

test('a counter that was made anew begins at zero, also where it has overtaken the old one already', () => {
  const tally = new Tally();
  tally.see([reading(10)]);
  tally.see([reading(12, '2.1')]);
  expect(tally.total(group).packets).toBe(22);
  tally.see([]);
  tally.see([reading(1, '2.1')]);
  expect(tally.total(group).packets).toBe(23);
});

test('a counter that somebody has set to zero goes on from there', () => {
  const tally = new Tally();
  tally.see([reading(10)]);
  tally.see([reading(4)]);
  expect(tally.total(group)).toEqual({ packets: 14, bytes: 140 });
});

test('a start goes on where the last one was written down, whatever was counted in between', () => {
  const before = new Tally();
  before.see([reading(10), reading(5, '1.2', 'out-refused')]);
  const after = Tally.parse(before.print());
  expect(after.total('out-refused').packets).toBe(5);
  after.see([reading(17), reading(2, '7.7', 'out-refused')]);
  expect(after.total(group).packets).toBe(17);
  expect(after.total('out-refused').packets).toBe(7);
});

test.each(['', 'half of wha', 'null', '[]', '{"format":2}', '{"format":1,"counters":[null,{"name":7},{"name":"x"}]}'])(
  'what is no tally, such as %j, counts as none',
  (text) => {
    expect(Tally.parse(text).print()).toBe(new Tally().print());
  },
);

test('what others count in our table is nobody’s, and what groups counted that have left is forgotten', () => {
  const tally = new Tally();
  tally.see([reading(1), reading(2, '1.2', 'in-refused'), reading(3, '1.3', 'mine')]);
  expect(tally.total('mine').packets).toBe(0);
  tally.keepOnly(({ what }) => typeof what === 'string');
  expect([tally.total(group).packets, tally.total('in-refused').packets]).toEqual([0, 2]);
});

test('what the table for forwarded connections counts is added, and each table goes on by itself', () => {
  const forwarded = (packets: number, incarnation = '9.1'): Reading => ({
    ...reading(packets, incarnation),
    table: 'service-forward',
  });
  let tally = new Tally();
  tally.see([reading(10), forwarded(3)]);
  tally = Tally.parse(tally.print());
  tally.see([reading(11), forwarded(5)]);
  expect(tally.total(group)).toEqual({ packets: 16, bytes: 160 });
  tally.see([reading(12)]);
  tally.see([reading(12), forwarded(1, '10.1')]);
  expect(tally.total(group).packets).toBe(18);
});

test('totals that were kept when there was one table only go on', () => {
  const tally = Tally.parse(
    JSON.stringify({ format: 1, counters: [{ name: group, packets: 7, bytes: 70, seen: reading(7) }] }),
  );
  tally.see([reading(9)]);
  expect(tally.total(group)).toEqual({ packets: 9, bytes: 90 });
});
