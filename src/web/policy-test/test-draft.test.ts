/** Proves the reading of a policy test from its form: every end, every problem at its field, and names that are free. */
import { expect, test } from 'vitest';
import type { DeviceNames } from '../model/far-end.ts';
import { emptyTest, freeName, readTest, testDraft, testOf } from './test-draft.ts';

const names: DeviceNames = {
  idOf: (text) => (text === 'web-1' ? 'id-1' : text),
  nameOf: (id) => (id === 'id-1' ? 'web-1' : id),
  isGone: (id) => id !== 'id-1',
};
const draft = { ...emptyTest, name: 'app reaches db', from: 'label:app+prod', to: 'device:web-1', port: '5432' };

test('ends are labels, devices, all devices or one address, and come back as they were written', () => {
  const read = readTest(draft, names, new Set()).test;
  expect(read).toEqual({
    name: 'app reaches db',
    from: { labels: ['app', 'prod'] },
    to: { device_id: 'id-1' },
    protocol: 'tcp',
    port: 5432,
    expect: 'allow',
  });
  expect(read && testDraft(read, names)).toEqual(draft);
  const ping = { ...draft, from: 'all-devices', to: '192.0.2.1', protocol: 'icmp', note: ' why ' } as const;
  expect(readTest(ping, names, new Set()).test).toMatchObject({
    from: { all_devices: true },
    to: { address: '192.0.2.1' },
    protocol: 'icmp',
    note: 'why',
  });
});

test.each([
  ['name', { name: ' ' }, 'Give the test a name.'],
  ['name', { name: 'taken' }, 'Another test has this name.'],
  ['from', { from: '' }, 'Choose who connects.'],
  ['from', { from: 'label:App' }, '“App” has upper-case letters; labels are lower case.'],
  ['to', { to: '10.0.0.0/8' }, 'Write label:app, device:web-1, all-devices or one address.'],
  ['to', { to: 'device:web-9' }, 'No device has this name.'],
  ['to', { from: '10.0.0.1', to: '10.0.0.2' }, 'One end must name devices: an address has no policy.'],
  ['port', { port: '70000' }, 'A port from 1 to 65535.'],
] as const)('a problem with %s is shown there (%j)', (field, change, problem) => {
  const { problems, test: read } = readTest({ ...draft, ...change }, names, new Set(['taken']));
  expect([problems[field], read]).toEqual([problem, undefined]);
});

test('a test of the same connection is found whatever it expects, and a taken name gets a number', () => {
  const read = readTest(draft, names, new Set()).test;
  if (read === undefined) throw new Error('no test');
  expect(testOf([{ ...read, expect: 'refuse' }], read)?.expect).toBe('refuse');
  expect(testOf([{ ...read, port: 5433 }], read)).toBeUndefined();
  expect(freeName('a', new Set(['a', 'a 2']))).toBe('a 3');
});
