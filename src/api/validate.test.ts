/** Proves that the validator finds every problem at once and never throws. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { FlowReport } from './flows/flow-report.ts';
import { flowLimits } from './limits.ts';
import { AddDevice, DeviceReport, UpdateDevice } from './device.ts';
import { AddOrganization } from './organization.ts';
import { AddEnrollmentKey, AddToken } from './user.ts';
import { isTimestamp } from '../policy/time/timestamp.ts';
import { check, checkSteps } from './validate.ts';
import { WatchRequest } from './watch.ts';

const codes = (schema: object, value: unknown): string[] =>
  check(schema, value).problems.map((p) => `${p.pointer} ${p.code}`);

describe('check', () => {
  test('every problem of a body comes back at once, each with its place', () => {
    const body = { local_ip: 5, child_prefix: ['a', 7], relay: 'yes', hostname: 'a\u0000', colour: 1, user_id: 'x' };
    expect(codes(AddDevice, body)).toEqual([
      '/colour unknown_field',
      '/public_key missing_field',
      '/user_id not_an_id',
      '/local_ip not_a_string',
      '/child_prefix/1 not_a_string',
      '/relay not_a_boolean',
      '/hostname text_invalid',
    ]);
  });

  test('null is refused everywhere but for child_prefix', () => {
    const nulls = Object.fromEntries(Object.keys(UpdateDevice.properties).map((name) => [name, null]));
    const refused = codes(UpdateDevice, nulls);
    expect(refused).toHaveLength(Object.keys(nulls).length - 1);
    expect(refused).not.toContainEqual(expect.stringContaining('child_prefix'));
    expect(refused.every((line) => line.endsWith('null_not_allowed'))).toBe(true);
  });

  test('nothing is coerced', () => {
    expect(codes(AddEnrollmentKey, { uses: '1' })).toEqual(['/uses not_an_integer']);
    expect(codes(AddEnrollmentKey, { uses: 1.5 })).toEqual(['/uses not_an_integer']);
    expect(codes(AddEnrollmentKey, { uses: 0 })).toEqual(['/uses out_of_range']);
    expect(codes(AddOrganization, { name: '' })).toEqual(['/name text_too_short']);
    expect(codes(AddOrganization, { name: 'x'.repeat(256) })).toEqual(['/name text_too_long']);
    expect(codes(AddOrganization, { name: '🐘'.repeat(255) })).toEqual([]);
    expect(codes(AddToken, { expires_at: '2030-02-30T00:00:00Z' })).toEqual(['/expires_at not_a_timestamp']);
    for (const policy_digest of ['', 'a'.repeat(63), 'a'.repeat(65), 'g'.repeat(64), `${'a'.repeat(64)}\n`])
      expect(codes(DeviceReport, { state: 'applied', policy_digest })).toEqual(['/policy_digest not_a_digest']);
    for (const policy_digest of ['0123456789abcdef'.repeat(4), 'AF'.repeat(32), undefined])
      expect(codes(DeviceReport, { state: 'applied', policy_digest })).toEqual([]);
  });

  test('a duplicate in a list of ids is found, whatever its letter case', () => {
    const id = '0b8a6d0e-4f0e-4c66-9d39-1b1f0c7a1a11';
    expect(codes(AddDevice, { public_key: 'k', security_groups: [id, id.toUpperCase()] })).toEqual([
      '/security_groups/1 duplicate',
    ]);
  });

  test('a watch request that is empty, of unknown kind or wrong type is refused', () => {
    expect(codes(WatchRequest, [])).toEqual([' too_few_items']);
    expect(codes(WatchRequest, {})).toEqual([' not_an_array']);
    expect(codes(WatchRequest, [{ kind: 'user', gt_revision: -1, at_tail: 0, more: 1 }])).toEqual([
      '/0/more unknown_field',
      '/0/kind not_one_of',
      '/0/gt_revision out_of_range',
      '/0/at_tail not_a_boolean',
    ]);
  });

  test('a field named __proto__ is a field like others', () => {
    expect(codes(AddOrganization, JSON.parse('{"name":"a","__proto__":{"description":5}}'))).toEqual([
      '/__proto__ unknown_field',
    ]);
  });

  test('an array is checked entry by entry, so that others get a turn in between, and with the same result', () => {
    const tuple = { direction: 'in', verdict: 'refused', far: '10.0.0.1', protocol: 'tcp', port: 1, packets: 0 };
    const tuples = Array.from({ length: flowLimits.tuplesPerReport }, () => tuple);
    const report = { since: '2030-01-01T00:00:00Z', until: '2030-01-01T00:01:00Z', observed: 'all', not_recorded: 0 };
    const steps = checkSteps(FlowReport, { ...report, tuples });
    let pauses = 0;
    let step = steps.next();
    for (; step.done !== true; step = steps.next()) pauses += 1;
    expect(pauses).toBe(tuples.length);
    expect(step.value).toEqual(check(FlowReport, { ...report, tuples }));
    expect(step.value.problems[0]).toMatchObject({ pointer: '/tuples/0/packets', code: 'out_of_range' });
    expect(step.value.more).toBe(tuples.length - step.value.problems.length);
  });

  test('no JSON value makes it throw', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (given) => {
        for (const schema of [AddDevice, WatchRequest, AddToken])
          expect(check(schema, given).problems).toBeInstanceOf(Array);
      }),
      { seed: 2, numRuns: 2000 },
    );
  });
});

test('a timestamp must exist in the calendar', () => {
  expect(isTimestamp('2028-02-29T23:59:59.123+02:00')).toBe(true);
  for (const wrong of ['2027-02-29T00:00:00Z', '2030-01-01', '2030-01-01T24:00:00Z', '2030-01-01T00:00:00', 'now']) {
    expect(isTimestamp(wrong), wrong).toBe(false);
  }
});
