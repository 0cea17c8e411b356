/** Proves the filters of the page of flows, its rows, and the rule that a refused flow becomes: never more than the flow. */
import { expect, test } from 'vitest';
import type { Device } from '../../api/device.ts';
import type { Flow } from '../../api/flows/flow.ts';
import { parseDeviceId } from '../../policy/ids.ts';
import type { DeviceNames } from '../model/far-end.ts';
import { draftedRule, draftedTest, farEndChoices, isAllowable, usualChoice } from './flow-draft.ts';
import { flowRows, flowQuery, isFiltered, parseFlowSearch } from './flow-search.ts';

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

const refused: Flow = {
  device_id: parseDeviceId(id),
  since: '2026-11-18T08:00:00Z',
  until: '2026-11-18T08:01:00Z',
  direction: 'in',
  verdict: 'refused',
  far: '100.64.0.7',
  far_devices: [],
  protocol: 'tcp',
  port: 22,
  packets: 1,
  decision: { verdict: 'refused', reason: 'no-rule' },
};

test('only what a missing rule refuses can be allowed, and only where a rule can name exactly that', () => {
  expect(isAllowable(refused)).toBe(true);
  const rows: readonly Partial<Flow>[] = [
    { verdict: 'admitted' },
    { decision: { verdict: 'admitted', reason: 'rule' } },
    { decision: { verdict: 'refused', reason: 'forbid' } },
    { decision: { verdict: 'refused', reason: 'isolated' } },
    // Port 0 of a rule means every port.
    { port: 0 },
    { protocol: '47' },
    { protocol: 'icmp', far: 'fd00::7' },
  ];
  for (const row of rows) expect(isAllowable({ ...refused, ...row }), JSON.stringify(row)).toBe(false);
  const { decision: _decision, ...unknown } = refused;
  expect(isAllowable(unknown)).toBe(false);
});

test('a draft names the narrowest labels of the far device, else the address, and tests exactly the two ends', () => {
  const far = (last: number, ...labels: readonly string[]) => ({
    device_id: parseDeviceId(`00000000-0000-4000-8000-00000000000${last}`),
    hostname: `host-${last}`,
    labels: [...labels],
  });
  const device = ({ device_id, labels }: ReturnType<typeof far>) => ({ id: device_id, labels }) as unknown as Device;
  const [one, two, three] = [far(1, 'ci', 'prod'), far(2, 'prod'), far(3, 'ci', 'prod')];
  const fleet = [one, two, three].map(device);
  const choices = (...far_devices: readonly ReturnType<typeof far>[]) =>
    farEndChoices({ ...refused, far_devices: [...far_devices] }, fleet, names);
  expect(choices(one).map((choice) => [choice.chip, choice.devices.length])).toEqual([
    ['label:ci+prod', 2],
    ['label:ci', 2],
    ['label:prod', 3],
    [`device:${one.device_id}`, 1],
    ['100.64.0.7', 0],
  ]);
  expect(usualChoice(choices(one))?.chip).toBe('label:ci+prod');
  // An address that two devices have is that of the labels that both carry.
  expect(choices(one, two).map(({ chip }) => chip)).not.toContain('label:ci');
  const address = usualChoice(choices());
  expect(address && draftedRule(refused, address, names)).toEqual({
    ip_protocol: 'tcp',
    from_port: 22,
    to_port: 22,
    ip_ranges: ['100.64.0.7'],
  });
  expect(draftedTest({ ...refused, direction: 'out', far_devices: [two] }, names)).toEqual({
    name: `${id} reaches ${two.device_id} by tcp 22`,
    from: { device_id: id },
    to: { device_id: two.device_id },
    protocol: 'tcp',
    port: 22,
    expect: 'allow',
  });
  expect(draftedTest({ ...refused, far_devices: [one, two] }, names).from).toEqual({ address: '100.64.0.7' });
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
