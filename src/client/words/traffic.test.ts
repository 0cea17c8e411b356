/** Proves what people read of a simulation: who gains and loses what, named devices first, and where the present policy is not in force. */
import { expect, test } from 'vitest';
import type { SimulatedTraffic } from '../../api/change/simulation.ts';
import type { DeviceId } from '../../policy/ids.ts';
import { notInForceNote, tooMuchNote, trafficLines, trafficSummary } from './traffic.ts';

const idOf = (n: number): DeviceId => `018f9c3e-5b7a-7c1d-9e2f-00000000000${n}` as DeviceId;
const named = (n: number, hostname: string) => ({ id: idOf(n), hostname });

const traffic = (device: number, fields: Partial<SimulatedTraffic>): SimulatedTraffic => ({
  device: { ...named(device, `db-${device}`), in_force: 'yes' },
  direction: 'inbound',
  protocol: 'tcp',
  ports: [{ from: 5432, to: 5432 }],
  far: { ranges: ['10.0.0.7'], devices: [named(7, 'app-7')], device_count: 1, others: false },
  ...fields,
});
const anywhere = { ranges: ['0.0.0.0/0', '::/0'], devices: [named(7, 'app-7')], device_count: 1, others: true };

test('devices that gain or lose the same share a line, and named far ends come first', () => {
  const lines = trafficLines({
    gained: [
      traffic(1, { protocol: 'udp', ports: [{ from: 0, to: 65_535 }], far: anywhere }),
      traffic(2, {}),
      traffic(1, {}),
    ],
    lost: [
      traffic(1, {
        direction: 'outbound',
        ports: [
          { from: 0, to: 442 },
          { from: 444, to: 65_535 },
        ],
        far: anywhere,
      }),
      traffic(1, {
        protocol: 'icmp',
        ports: [],
        far: { ranges: ['10.0.0.0/24'], devices: [named(7, 'app-7')], device_count: 1, others: true },
      }),
    ],
  });
  expect(lines).toEqual([
    ['+', 'db-1 and db-2 accept tcp 5432 from app-7'],
    ['+', 'db-1 accepts udp from any address'],
    ['-', 'db-1 can no longer connect to any address by tcp (all ports except 443)'],
    ['-', 'db-1 no longer accepts ping from 10.0.0.0/24 (among them app-7)'],
  ]);
});

test('the summary counts devices that admit more and less, and says where nothing changes', () => {
  expect(trafficSummary({ affected: 2, gained: [traffic(1, {}), traffic(2, {})], lost: [traffic(1, {})] })).toBe(
    '2 devices admit more, 1 device admits less.',
  );
  expect(trafficSummary({ affected: 0, gained: [], lost: [] })).toBe('No device admits more or less than now.');
  expect(trafficSummary({ affected: 1, gained: [], lost: [] })).toBe(
    'The rules of 1 device change, and they admit the same as now.',
  );
});

test('a note names the devices on which the present policy is not in force', () => {
  const gained = [traffic(1, {}), traffic(2, {})];
  expect(notInForceNote({ in_force: { [idOf(1)]: 'yes' }, gained, lost: [] })).toBeUndefined();
  const many = { [idOf(1)]: 'web-10', [idOf(2)]: 'web-2' };
  expect(
    notInForceNote({ in_force: { [idOf(1)]: 'behind', [idOf(2)]: 'behind' }, gained: [], lost: [] }, (id) => many[id]),
  ).toMatch(/ on web-2 \(.*\), web-10 \(/);
  expect(notInForceNote({ in_force: { [idOf(1)]: 'offline', [idOf(2)]: 'yes' }, gained, lost: [] })).toBe(
    'The present policy is not in force on db-1 (offline): there the change may do more than this shows.',
  );
});

test('what is left out is counted, in the singular where it is one', () => {
  const far = (count: number) => ({
    ranges: Array.from({ length: count }, (_, n) => `10.${n}.0.0/16`),
    devices: [],
    device_count: 0,
    others: true,
  });
  const lines = trafficLines({ gained: [traffic(1, { far: far(5) }), traffic(2, { far: far(6) })], lost: [] });
  expect(lines.map(([, line]) => line)).toEqual([
    expect.stringMatching(/10\.3\.0\.0\/16 and 1 more range$/),
    expect.stringMatching(/10\.3\.0\.0\/16 and 2 more ranges$/),
  ]);
});

test('what one device has too much is counted in words', () => {
  expect(tooMuchNote({})).toBeUndefined();
  expect(tooMuchNote({ too_much: { gained: 1, lost: 0 } })).toBe(
    'There is too much to show: 1 more entry of what is gained is left out.',
  );
  expect(tooMuchNote({ too_much: { gained: 2, lost: 17_430 } })).toBe(
    'There is too much to show: 2 more entries of what is gained and 17430 more entries of what is lost are left out.',
  );
});
