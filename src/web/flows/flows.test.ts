/** Proves the filters of the page of flows and its rows: what the URL may hold, what the server is asked, and sums that are one row. */
import { expect, test } from 'vitest';
import type { Flow } from '../../api/flows/flow.ts';
import { parseDeviceId } from '../../policy/ids.ts';
import type { DeviceNames } from '../model/far-end.ts';
import { flowRows } from './flow-rows.ts';
import { flowQuery, isFiltered, parseFlowSearch } from './flow-search.ts';

const id = '00000000-0000-4000-8000-000000000001';
const names: DeviceNames = {
  idOf: (text) => (text === 'web-1' ? id : text),
  nameOf: (given) => given,
  isGone: () => false,
};
const now = Date.parse('2026-11-18T12:00:00Z');

test('a URL keeps every filter that has a meaning and drops the rest', () => {
  const search = {
    verdict: 'all',
    far: 'web-1',
    device: id,
    group: id,
    direction: 'out',
    protocol: 'udp',
    port: '53',
    since: '24h',
    until: '2026-11-18T09:00',
  } as const;
  expect(parseFlowSearch({ ...search, port: 53 })).toEqual(search);
  const bad = { verdict: 'no', device: 'x', direction: 'up', protocol: 'smtp', port: '70000', since: '3w', until: 'x' };
  expect(parseFlowSearch(bad)).toEqual({});
  expect([isFiltered({ verdict: 'all' }), isFiltered({ port: '53' })]).toEqual([false, true]);
});

test('the server is asked for refused traffic unless another is chosen, with names as ids and spans as times', () => {
  expect(flowQuery({}, names, now)).toEqual({ verdict: 'refused' });
  expect(flowQuery({ verdict: 'all', far: 'web-1', since: '1h', port: '22' }, names, now)).toEqual({
    far: id,
    since: '2026-11-18T11:00:00.000Z',
    port: 22,
  });
  expect(flowQuery({ far: '10.0.0.0/8' }, names, now)).toEqual({ verdict: 'refused', far: '10.0.0.0/8' });
  expect(flowQuery({ far: 'web-9' }, names, now)).toBeUndefined();
});

test('sums of the same traffic are one row with all packets, the newest first', () => {
  const flow = (minute: number, packets: number, port: number): Flow => ({
    device_id: parseDeviceId(id),
    since: `2026-11-18T08:0${minute}:00Z`,
    until: `2026-11-18T08:0${minute + 1}:00Z`,
    direction: 'in',
    verdict: 'refused',
    far: '100.64.0.7',
    far_devices: [],
    protocol: 'tcp',
    port,
    packets,
  });
  const rows = flowRows([flow(5, 1, 22), flow(4, 7, 80), flow(3, 2, 22)]);
  expect(rows.map(({ flow: { port, until }, packets, since }) => [port, packets, since, until])).toEqual([
    [22, 3, '2026-11-18T08:03:00Z', '2026-11-18T08:06:00Z'],
    [80, 7, '2026-11-18T08:04:00Z', '2026-11-18T08:05:00Z'],
  ]);
});
