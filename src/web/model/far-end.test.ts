/** Proves the far end of a rule as chips. */
import { expect, it } from 'vitest';
import type { Device } from '../../api/device.ts';
import type { StoredRule } from '../../policy/rule.ts';
import { chipsOf, deviceNames, misspelt, readChips } from './far-end.ts';

const device = (id: string, hostname: string): Device => ({ id, hostname }) as unknown as Device;
const names = deviceNames([device('1', 'web-1'), device('2', 'twin'), device('3', 'twin'), device('4', 'a b')]);

const rule: StoredRule = {
  ip_protocol: 'tcp',
  from_port: 1,
  to_port: 1,
  ip_ranges: ['10.0.0.0/8'],
  peers: [
    { labels: ['app', 'prod'] },
    { device_id: '1' },
    { device_id: '2' },
    { device_id: 'gone' },
    { all_devices: true },
  ],
};

it('names devices where the name is theirs alone, and goes there and back', () => {
  const chips = chipsOf(rule, names);
  expect(chips).toEqual(['label:app+prod', 'device:web-1', 'device:2', 'device:gone', 'all-devices', '10.0.0.0/8']);
  expect(readChips(chips, names)).toEqual({ ip_ranges: rule.ip_ranges, peers: rule.peers });
  expect(names.nameOf('4')).toBe('4');
  expect([names.isGone('gone'), names.isGone('1')]).toEqual([true, false]);
});

it('leaves what is wrong to the one validation', () => {
  expect(readChips(['label:', 'device:nobody', 'web-1'], names)).toEqual({
    ip_ranges: ['web-1'],
    peers: [{ labels: [''] }, { device_id: 'nobody' }],
  });
  expect(readChips([], names)).toEqual({});
});

it('takes no name for a device that looks like the id of another one', () => {
  const [db, laptop] = ['0198c0de-0000-7000-8000-0000564e23ea', '0198c0de-0000-7000-8000-000000000001'];
  for (const name of [db, '564e23ea', '564E23EA', db.slice(0, 8)]) {
    const trap = deviceNames([device(db, 'db-1'), device(laptop, name)]);
    expect(readChips([`device:${name}`], trap)).toEqual({ peers: [{ device_id: name }] });
    expect(trap.nameOf(laptop)).toBe(laptop);
    expect(readChips([`device:${trap.nameOf(laptop)}`], trap)).toEqual({ peers: [{ device_id: laptop }] });
  }
  expect(deviceNames([device(db, 'db-1'), device(laptop, 'deadbeef')]).nameOf(laptop)).toBe('deadbeef');
});

it.each([
  ['lable:app', 'label:app'],
  ['devise:web-1', 'device:web-1'],
  ['all-device', 'all-devices'],
])('suggests what %s may mean: %s', (chip, near) => {
  expect(misspelt(chip)).toContain(`“${near}”`);
});

it.each(['label:app', 'device:lable', 'all-devices', 'fd00::1', '10.0.0.1', 'elsewhere'])(
  'suggests nothing for %s',
  (chip) => {
    expect(misspelt(chip)).toBeUndefined();
  },
);
