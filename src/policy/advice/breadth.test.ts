/** Proves that only rules which truly say nothing new are called redundant, and only those open to all, open. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { packet, writtenRule } from '../arbitrary.fixture.ts';
import { ruleAdmits } from '../match.ts';
import { normalizeRules } from '../normalize.ts';
import type { StoredRule } from '../rule.ts';
import { isOpenToAll, isWithin, redundantRules } from './breadth.ts';

const tcp = (from_port: number, to_port: number, more: Partial<StoredRule> = {}): StoredRule => ({
  ip_protocol: 'tcp',
  from_port,
  to_port,
  ...more,
});
const peers = (...labels: readonly string[]): Pick<StoredRule, 'peers'> => ({
  peers: [{ labels }],
});

test('whatever a rule admits that is called redundant, the broader one admits', () => {
  fc.assert(
    fc.property(fc.array(writtenRule, { minLength: 2, maxLength: 6 }), packet, (written, one) => {
      for (const { rule, within } of redundantRules(normalizeRules(written))) {
        if (ruleAdmits(rule, one)) expect(ruleAdmits(within, one)).toBe(true);
      }
    }),
    { numRuns: 400 },
  );
});

test.each([
  ['a narrower prefix', tcp(22, 22, { ip_ranges: ['10.1.0.0/16'] }), tcp(22, 22, { ip_ranges: ['10.0.0.0/8'] })],
  ['a port of a range', tcp(22, 22), tcp(20, 30)],
  [
    'a protocol under all of IPv4',
    tcp(22, 22, { ip_ranges: ['10.1.0.0/16'] }),
    { ip_protocol: 'ipv4', from_port: 0, to_port: 0 },
  ],
  ['devices with more labels', tcp(22, 22, peers('db', 'prod')), tcp(22, 22, peers('db'))],
  ['devices beside everybody', tcp(22, 22, peers('db')), tcp(22, 22)],
  ['a label beside all devices', tcp(22, 22, peers('db')), tcp(22, 22, { peers: [{ all_devices: true }] })],
] as const)('%s is within the broader rule, and not the other way round', (_, narrow, broad) => {
  expect(isWithin(narrow, broad)).toBe(true);
  expect(isWithin(broad, narrow)).toBe(false);
  expect(redundantRules([narrow, broad])).toEqual([{ rule: narrow, within: broad }]);
});

test.each([
  ['other ports', tcp(22, 22), tcp(23, 23)],
  [
    'IPv6 beside all of IPv4',
    tcp(22, 22, { ip_ranges: ['fd00::/8'] }),
    { ip_protocol: 'ipv4', from_port: 0, to_port: 0 },
  ],
  ['devices beside addresses', tcp(22, 22, peers('db')), tcp(22, 22, { ip_ranges: ['10.0.0.0/8'] })],
  ['a label beside another', tcp(22, 22, peers('db')), tcp(22, 22, peers('app'))],
] as const)('%s say something new', (_, one, other) => {
  expect(redundantRules([one, other] as readonly StoredRule[])).toEqual([]);
});

test('of two rules that say the same, one is redundant', () => {
  expect(redundantRules([tcp(22, 22), tcp(22, 22)])).toHaveLength(1);
});

test('a rule is open to all that names no far end, or all of a family', () => {
  expect([tcp(22, 22), tcp(22, 22, { ip_ranges: ['0.0.0.0/0'] })].map(isOpenToAll)).toEqual([true, true]);
  expect([tcp(22, 22, { ip_ranges: ['10.0.0.0/8'] }), tcp(22, 22, peers('db'))].map(isOpenToAll)).toEqual([
    false,
    false,
  ]);
});
