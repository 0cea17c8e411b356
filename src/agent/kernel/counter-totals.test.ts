/** Proves that what was counted is counted once, and survives new counters, new tables and new starts. */
import { expect, test } from 'vitest';
import type { CounterReading } from '../../nft/read/counter-reading.ts';
import { CounterTotals } from './counter-totals.ts';

const group = 'in-00000000-0000-4000-8000-000000000001';
const reading = (packets: number, incarnation = '1.1', name = group): CounterReading => ({
  table: 'service',
  name,
  incarnation,
  packets,
  bytes: packets * 10,
});

test('readings of one counter are not added up, only what it has gone on by', () => {
  const totals = new CounterTotals();
  for (const packets of [0, 3, 3, 10]) totals.see([reading(packets)]);
  expect(totals.total(group)).toEqual({ packets: 10, bytes: 100 });
});

test('a counter that was made anew begins at zero, also where it has overtaken the old one already', () => {
  const totals = new CounterTotals();
  totals.see([reading(10)]);
  totals.see([reading(12, '2.1')]);
  expect(totals.total(group).packets).toBe(22);
  totals.see([]);
  totals.see([reading(1, '2.1')]);
  expect(totals.total(group).packets).toBe(23);
});

test('a counter that somebody has set to zero goes on from there', () => {
  const totals = new CounterTotals();
  totals.see([reading(10)]);
  totals.see([reading(4)]);
  expect(totals.total(group)).toEqual({ packets: 14, bytes: 140 });
});

test('a start goes on where the last one was written down, whatever was counted in between', () => {
  const before = new CounterTotals();
  before.see([reading(10), reading(5, '1.2', 'out-refused')]);
  const after = CounterTotals.parse(before.print());
  expect(after.total('out-refused').packets).toBe(5);
  after.see([reading(17), reading(2, '7.7', 'out-refused')]);
  expect(after.total(group).packets).toBe(17);
  expect(after.total('out-refused').packets).toBe(7);
});

test.each(['', 'half of wha', 'null', '[]', '{"format":2}', '{"format":1,"counters":[null,{"name":7},{"name":"x"}]}'])(
  'what are no totals, such as %j, counts as none',
  (text) => {
    expect(CounterTotals.parse(text).print()).toBe(new CounterTotals().print());
  },
);

test('what others count in our table is nobody’s, and what groups counted that have left is forgotten', () => {
  const totals = new CounterTotals();
  totals.see([reading(1), reading(2, '1.2', 'in-refused'), reading(3, '1.3', 'mine')]);
  expect(totals.total('mine').packets).toBe(0);
  totals.keepOnly(({ what }) => typeof what === 'string');
  expect([totals.total(group).packets, totals.total('in-refused').packets]).toEqual([0, 2]);
});

test('what the table for forwarded connections counts is added, and each table goes on by itself', () => {
  const forwarded = (packets: number, incarnation = '9.1'): CounterReading => ({
    ...reading(packets, incarnation),
    table: 'service-forward',
  });
  let totals = new CounterTotals();
  totals.see([reading(10), forwarded(3)]);
  totals = CounterTotals.parse(totals.print());
  totals.see([reading(11), forwarded(5)]);
  expect(totals.total(group)).toEqual({ packets: 16, bytes: 160 });
  totals.see([reading(12)]);
  totals.see([reading(12), forwarded(1, '10.1')]);
  expect(totals.total(group).packets).toBe(18);
});

test('totals that were saved when there was one table only go on', () => {
  const totals = CounterTotals.parse(
    JSON.stringify({ format: 1, counters: [{ name: group, packets: 7, bytes: 70, seen: reading(7) }] }),
  );
  totals.see([reading(9)]);
  expect(totals.total(group)).toEqual({ packets: 9, bytes: 90 });
});
