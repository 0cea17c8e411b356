/** Proves which conditions cause an alert, the signature of a delivery, and the time between attempts. */
import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import {
  parseDeviceId,
  parseGroupId,
  parseEnrollmentKeyId,
  parseOrganizationId,
  parseTrialId,
  parseUserId,
} from '../../policy/ids.ts';
import { alertEvents, type AlertEvent } from '../../api/alerts/events.ts';
import type { InForce } from '../../api/enforcement/in-force.ts';
import type { TrialRecord, TrialState } from '../store/data/trials.ts';
import type { EnforcementStatus } from '../convergence/contract.ts';
import { conditionsOf, type ConditionInput } from './conditions.ts';
import { retryAfter, webhookSettings } from './service.ts';
import { mintWebhookSecret } from '../identity/secret.ts';
import { signedHeaders } from './sign.ts';

const now = Date.parse('2030-01-01Z');
const ago = (seconds: number): string => new Date(now - seconds * 1000).toISOString();
const device = parseDeviceId('00000000-0000-4000-8000-000000000001');
const organization_id = parseOrganizationId('00000000-0000-4000-8000-000000000002');
const user_id = parseUserId('00000000-0000-4000-8000-000000000003');
const scene = (given: Partial<ConditionInput>): ConditionInput => ({
  now,
  enforcementStatuses: [],
  keys: [],
  failingTests: [],
  expiringRules: [],
  trials: [],
  surges: [],
  offlineAfterMs: 900_000,
  ...given,
});
const enforcement = (given: Partial<EnforcementStatus>): EnforcementStatus => ({
  device_id: device,
  hostname: 'edge',
  in_force: 'yes',
  online: true,
  last_seen_at: ago(1),
  ...given,
});
const told = (events: readonly AlertEvent[], given: Partial<EnforcementStatus>) =>
  conditionsOf(events, scene({ enforcementStatuses: [enforcement(given)] }));
const key = (created: number, ends: number, uses_left = 1) => ({
  id: parseEnrollmentKeyId('00000000-0000-4000-8000-000000000004'),
  organization_id,
  user_id,
  name: 'k',
  created_at: ago(created),
  expires_at: ago(-ends),
  uses_left,
});

describe('a condition', () => {
  it.each<[InForce, string | undefined]>([
    ['yes', undefined],
    ['behind', undefined],
    ['failed', 'device.failed'],
    ['not_understood', 'device.failed'],
    ['reverted', 'device.reverted'],
    ['offline', undefined],
    ['never_seen', undefined],
  ])('is by what the server knows: a device that is %s makes %s', (in_force, event) => {
    for (const online of [true, false])
      expect(told(alertEvents, { in_force, online }).map((one) => one.event)).toEqual(
        event === undefined ? [] : [event],
      );
  });

  it('tells the name of the device, the word and the reason; the same word with another reason is no news, another word is', () => {
    const reason = { code: 'digest_differs', detail: 'other rules' };
    expect(told(['device.failed'], { in_force: 'failed', ...reason })).toEqual([
      {
        event: 'device.failed',
        subject_id: device,
        occurrence: 'failed',
        data: { device_id: device, hostname: 'edge', in_force: 'failed', ...reason },
      },
    ]);
    const occurrence = (given: Partial<EnforcementStatus>) => told(['device.failed'], given)[0]?.occurrence;
    expect(occurrence({ in_force: 'failed', code: 'nft' })).toBe('failed');
    expect(occurrence({ in_force: 'not_understood' })).toBe('not_understood');
  });

  it('is a repair of drift, anew with each', () => {
    const repaired = (drift_repairs: unknown) =>
      told(['device.drift_repaired'], { status: { drift_repairs } }).map((c) => c.occurrence);
    expect([repaired(0), repaired(undefined), repaired('2'), repaired(2), repaired(3)]).toEqual([
      [],
      [],
      [],
      ['2'],
      ['3'],
    ]);
    for (const status of [undefined, null, 'drift']) expect(told(['device.drift_repaired'], { status })).toEqual([]);
  });

  it('is a device that is away for longer than it may be, also one that has everything in force', () => {
    const away = (given: Partial<EnforcementStatus>) => told(['device.offline'], { online: false, ...given });
    expect(away({ last_seen_at: ago(899) })).toEqual([]);
    expect(away({ last_seen_at: ago(901) })).toEqual([
      {
        event: 'device.offline',
        subject_id: device,
        occurrence: 'offline',
        data: { device_id: device, hostname: 'edge', in_force: 'yes', last_seen_at: ago(901) },
      },
    ]);
    expect(away({ last_seen_at: ago(901), in_force: 'failed' })).toHaveLength(1);
  });

  it('is no device that holds a stream, however old its last report, and none that was never seen', () => {
    expect(told(['device.offline'], { online: true, last_seen_at: ago(90_000) })).toEqual([]);
    const { last_seen_at: _, ...unseen } = enforcement({ in_force: 'never_seen', online: false });
    expect(conditionsOf(['device.offline'], scene({ enforcementStatuses: [unseen] }))).toEqual([]);
  });

  it('is a rule that expires within a day and lives for longer than two days', () => {
    const day = 86_400;
    const group_id = parseGroupId('00000000-0000-4000-8000-000000000009');
    const ending = (lifetime: number, left: number) =>
      conditionsOf(
        ['rule.expiring'],
        scene({
          expiringRules: [
            {
              group_id,
              group_name: 'guests',
              expires_at: ago(-left),
              rules: 2,
              since: now - (lifetime - left) * 1_000,
            },
          ],
        }),
      );
    expect(ending(3 * day, day / 2)).toMatchObject([{ event: 'rule.expiring', data: { group_id, rules: 2 } }]);
    expect(ending(2 * day, day / 2)).toEqual([]);
    expect(ending(3 * day, 0)).toEqual([]);
  });

  it('is the start of a trial and its end, each once, with who ended it', () => {
    const id = parseTrialId('00000000-0000-4000-8000-000000000011');
    const by = parseUserId('00000000-0000-4000-8000-000000000012');
    const events = ['trial.started', 'trial.confirmed', 'trial.reverted', 'trial.expired'] as const;
    const reported = (state: TrialState, end?: Pick<TrialRecord, 'ended_by'>) =>
      conditionsOf(
        events,
        scene({
          trials: [
            {
              id,
              by,
              state,
              started_at: ago(60),
              ends_at: ago(-60),
              security_groups: [],
              devices: [],
              revision: 3,
              ...(end && { ended_at: ago(1), ...end }),
            },
          ],
        }),
      );
    expect(reported('pending').map(({ event, data }) => [event, data['ended_at']])).toEqual([
      ['trial.started', undefined],
    ]);
    const ended = reported('confirmed', { ended_by: by });
    expect(ended.map(({ event, subject_id }) => [event, subject_id])).toEqual([
      ['trial.started', id],
      ['trial.confirmed', id],
    ]);
    expect(ended.map(({ data }) => data['ended_by'])).toEqual([undefined, by]);
    expect(reported('reverted', {}).at(-1)).toMatchObject({
      event: 'trial.reverted',
      data: { trial_id: id, ended_at: ago(1) },
    });
    expect(reported('expired', {}).map(({ event }) => event)).toEqual(['trial.started', 'trial.expired']);
  });

  it('is a key that ends within a week, or in the last quarter of a short life; no spent one, and none that ended', () => {
    const day = 86_400;
    const ending = (...given: Parameters<typeof key>) =>
      conditionsOf(['enrollment_key.expiring'], scene({ keys: [key(...given)] })).length;
    expect(ending(300 * day, 8 * day)).toBe(0);
    expect(ending(300 * day, 6 * day)).toBe(1);
    expect(ending(300 * day, 6 * day, 0)).toBe(0);
    expect(ending(1, day)).toBe(0);
    expect(ending(0.8 * day, 0.2 * day)).toBe(1);
    expect(ending(day, -1)).toBe(0);
  });
});

it('a policy test that fails is a condition of its own, the same one whatever pair fails it', () => {
  const test = {
    name: 'web reaches db',
    from: { labels: ['web'] },
    to: { labels: ['db'] },
    protocol: 'tcp',
    port: 5432,
    expect: 'allow',
  } as const;
  const fails = (address: string) =>
    conditionsOf(
      ['policy_test.failing'],
      scene({
        failingTests: [
          {
            test,
            failure: {
              from: { address },
              to: { address: '100.64.0.2', device_id: device, hostname: 'db' },
              device_id: device,
              direction: 'inbound',
              reason: 'no-rule',
            },
          },
        ],
      }),
    );
  const [first] = fails('100.64.0.1');
  expect(first).toMatchObject({
    event: 'policy_test.failing',
    occurrence: 'failing',
    data: { policy_test: 'web reaches db' },
  });
  expect(first?.data.detail).toContain('100.64.0.1 → db (100.64.0.2) tcp/5432 must be allowed.');
  expect(fails('100.64.0.3')[0]).toMatchObject({ subject_id: first?.subject_id, occurrence: 'failing' });
  expect(first?.subject_id).toMatch(/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
});

it('a delivery is signed over its id, its time and its bytes, with the secret that only its receiver has', () => {
  const secret = mintWebhookSecret((bytes) => bytes.fill(7));
  expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
  const headers = signedHeaders(secret, { id: 'msg', body: '{}' }, 1_700_000_000);
  const hmac = createHmac('sha256', Buffer.alloc(32, 7)).update('msg.1700000000.{}').digest('base64');
  expect(headers).toEqual({
    'webhook-id': 'msg',
    'webhook-timestamp': '1700000000',
    'webhook-signature': `v1,${hmac}`,
  });
  // The example of the standard.
  expect(
    signedHeaders(
      'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
      { id: 'msg_p5jXN8AQM9LWM0D4loKWxJek', body: '{"test": 2432232314}' },
      1_614_265_330,
    )['webhook-signature'],
  ).toBe('v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=');
});

it('attempts come ever more seldom, spread, and never more than an hour apart', () => {
  const wait = (attempt: number, random: number) => retryAfter(attempt, random, webhookSettings);
  expect([wait(1, 0), wait(1, 0.999_999), wait(2, 0.999_999), wait(5, 0.999_999)]).toEqual([
    2_500, 5_000, 10_000, 80_000,
  ]);
  expect(wait(1_000, 0.999_999_999)).toBe(3_600_000);
});
