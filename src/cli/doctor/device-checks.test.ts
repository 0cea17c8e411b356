/** Proves what the doctor says of a device whose agent runs: agent, interface, rules and stream, each with what to do. */
import { expect, test } from 'vitest';
import type { StatusDocument } from '../../agent/report/status-document.ts';
import { programVersion } from '../../node/version.ts';
import { runningChecks } from './device-checks.ts';

const start = '2026-11-15T05:00:00Z';
const sound: StatusDocument = {
  running: true,
  in_force: 'yes',
  pid: 812,
  version: programVersion,
  started_at: start,
  server: 'https://ringfence.example',
  organization: 'acme',
  interface: { wanted: 'wg0', name: 'wg0', present: true, neighbour_discovery: false },
  containers: { mode: 'guard' },
  policy: { origin: 'server', revision: 7, groups: [], pending: false },
  stream: { phase: 'live', since: start, failures: 0 },
  warnings: [],
  troubles: [],
  applies: 1,
  drift: { repaired: 0 },
  revoked_connections: 0,
  ended_connections: 0,
  packets: {},
};
const told = (change: Partial<StatusDocument> = {}): readonly string[] =>
  runningChecks({ ...sound, ...change }).map(({ name, state, detail }) => `${state} ${name}: ${detail}`);

test('a sound device has its agent, interface, rules and stream in order', () => {
  expect(told()).toEqual([
    `ok agent: runs, version ${programVersion}`,
    'ok interface: wg0',
    'ok rules: revision 7 is in force',
    'ok stream: live, from https://ringfence.example',
  ]);
});

test('each thing that is wrong is told by itself', () => {
  const last_error = { message: 'cannot reach it', at: start };
  const [agent, link, rules, stream, held, trouble, warned] = told({
    version: '0.0.1',
    interface: { wanted: 'wg0', present: false, neighbour_discovery: false },
    policy: { origin: 'none', groups: [], pending: false },
    stream: { phase: 'waiting', since: start, failures: 4, last_error },
    held: 'a field is not understood',
    troubles: [{ what: 'reading', message: 'nft is missing', at: start }],
    warnings: ['clock is off'],
  });
  expect(agent).toMatch(/^warning agent: runs version 0\.0\.1/);
  expect(link).toBe('failed interface: wg0 does not exist');
  expect(rules).toBe('failed rules: no rules are in force');
  expect(stream).toBe('failed stream: waiting: cannot reach it');
  expect(held).toBe('failed held: a field is not understood');
  expect(trouble).toBe('failed trouble: reading: nft is missing');
  expect(warned).toBe('warning warning: clock is off');
});
