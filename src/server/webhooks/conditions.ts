/** Owns the conditions that cause alerts. A source finds each condition, and it causes one alert for as long as it lasts. */
import { createHash } from 'node:crypto';
import type { AlertEvent } from '../../api/alerts/events.ts';
import type { Condition } from '../store/webhooks/webhook-row.ts';
import type { EnforcementStatus } from '../convergence/contract.ts';
import type { ExpiringRules } from '../store/data/groups.ts';
import type { EnrollmentKeyRecord } from '../store/data/records.ts';
import type { FailingTest } from '../../policy/policy-test/policy-test.ts';
import type { TrialRecord, TrialState } from '../store/data/trials.ts';
import type { RefusalSurge } from '../store/data/flows.ts';
import { isObject } from '../../policy/json.ts';
import { failureInWords } from '../../policy/policy-test/words.ts';

/** What a source may look at: one organization at one moment. */
export interface ConditionInput {
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** Every device, with its enforcement of the newest policy. */
  readonly enforcementStatuses: readonly EnforcementStatus[];
  readonly keys: readonly EnrollmentKeyRecord[];
  /** The policy tests that fail now. */
  readonly failingTests: readonly FailingTest[];
  /** Rules that expire within `ruleWarningMs`. */
  readonly expiringRules: readonly ExpiringRules[];
  /** Trials that began or ended within `trialNewsMs`. */
  readonly trials: readonly TrialRecord[];
  /** Devices whose refusals are far above their usual level. */
  readonly surges: readonly RefusalSurge[];
  /** How long a device may be away. */
  readonly offlineAfterMs: number;
}

/** Finds every condition of one kind. A condition that ends and returns, or whose `occurrence` changes, causes another alert. */
type Source = (scene: ConditionInput) => readonly Omit<Condition, 'event'>[];

const numberOf = (status: unknown, name: string): number => {
  const value = isObject(status) ? status[name] : undefined;
  return typeof value === 'number' ? value : 0;
};

/** A key causes an alert a week before it expires; a key with a short life, in its last quarter. */
const keyWarningMs = 7 * 86_400_000;
const isEnding = ({ created_at, expires_at, uses_left }: EnrollmentKeyRecord, now: number): boolean => {
  const end = Date.parse(expires_at);
  const warning = Math.min(keyWarningMs, (end - Date.parse(created_at)) / 4);
  return uses_left > 0 && now < end && end - now < warning;
};

/** Rules cause an alert a day before they expire, if they live longer than two days. */
export const ruleWarningMs = 86_400_000;
const shortestLifeMs = 2 * 86_400_000;

/** The start and the end of a trial are reported for so long afterwards, once to each webhook: also after an outage of the servers. */
export const trialNewsMs = 86_400_000;

const trialData = (trial: TrialRecord): Condition['data'] => {
  const { id, state, started_at, ends_at, by, scope, security_groups, devices, ended_at, ended_by } = trial;
  return {
    trial_id: id,
    started_at,
    ends_at,
    by,
    ...(scope && { scope }),
    security_groups,
    devices,
    ...(state !== 'pending' && ended_at !== undefined && { ended_at }),
    ...(ended_by !== undefined && { ended_by }),
  };
};

const trialsThat =
  (state: TrialState): Source =>
  ({ trials }) =>
    trials
      .filter((trial) => trial.state === state)
      .map((trial) => ({ subject_id: trial.id, occurrence: state, at: trial.ended_at, data: trialData(trial) }));

/** A device does not enforce its policy: in the server's word for it, with the reason where one is known. */
const notInForce = ({ device_id, hostname, in_force, code, detail }: EnforcementStatus): Omit<Condition, 'event'> => ({
  subject_id: device_id,
  occurrence: in_force,
  data: {
    device_id,
    hostname,
    in_force,
    ...(code !== undefined && { code }),
    ...(detail !== undefined && { detail }),
  },
});

/** Tests have names, and expiries have groups and times. The subject of an alert needs an id, which is a hash of these. */
function idOf(name: string): string {
  const hash = createHash('sha256').update(name).digest('hex');
  return [hash.slice(0, 8), hash.slice(8, 12), hash.slice(12, 16), hash.slice(16, 20), hash.slice(20, 32)].join('-');
}

const sources: { readonly [Event in AlertEvent]: Source } = {
  'device.failed': ({ enforcementStatuses }) =>
    enforcementStatuses
      .filter(({ in_force }) => in_force === 'failed' || in_force === 'not_understood')
      .map(notInForce),

  'device.reverted': ({ enforcementStatuses }) =>
    enforcementStatuses.filter(({ in_force }) => in_force === 'reverted').map(notInForce),

  'device.drift_repaired': ({ enforcementStatuses }) =>
    enforcementStatuses.flatMap(({ device_id, hostname, status }) => {
      const repairs = numberOf(status, 'drift_repairs');
      if (repairs === 0) return [];
      return [
        {
          subject_id: device_id,
          occurrence: String(repairs),
          data: { device_id, hostname, drift_repairs: repairs },
        },
      ];
    }),

  // One that was never seen is not away: it has not come yet.
  'device.offline': ({ enforcementStatuses, now, offlineAfterMs }) =>
    enforcementStatuses.flatMap(({ device_id, hostname, in_force, online, last_seen_at }) => {
      if (online || last_seen_at === undefined || now - Date.parse(last_seen_at) <= offlineAfterMs) return [];
      return [
        {
          subject_id: device_id,
          occurrence: 'offline',
          data: { device_id, hostname, in_force, last_seen_at },
        },
      ];
    }),

  'device.refused_surge': ({ surges }) =>
    surges.map((surge) => ({ subject_id: surge.device_id, occurrence: surge.since, data: { ...surge } })),

  'enrollment_key.expiring': ({ keys, now }) =>
    keys
      .filter((key) => isEnding(key, now))
      .map(({ id, name, expires_at }) => ({
        subject_id: id,
        occurrence: expires_at,
        data: { enrollment_key_id: id, name, expires_at },
      })),

  'rule.expiring': ({ expiringRules, now }) =>
    expiringRules
      .filter(
        ({ expires_at, since }) => Date.parse(expires_at) > now && Date.parse(expires_at) - since > shortestLifeMs,
      )
      .map(({ group_id, group_name, expires_at, rules }) => ({
        subject_id: idOf(`${group_id} ${expires_at}`),
        occurrence: expires_at,
        data: { group_id, group_name, expires_at, rules },
      })),

  'trial.started': ({ trials, now }) =>
    trials
      .filter(({ started_at }) => now - Date.parse(started_at) < trialNewsMs)
      .map(({ ended_at: _at, ended_by: _by, ...trial }) => ({
        subject_id: trial.id,
        occurrence: 'started',
        at: trial.started_at,
        data: trialData(trial),
      })),
  'trial.confirmed': trialsThat('confirmed'),
  'trial.reverted': trialsThat('reverted'),
  'trial.expired': trialsThat('expired'),

  // The same test with another pair is no news.
  'policy_test.failing': ({ failingTests }) =>
    failingTests.map(({ test, failure, until }) => ({
      subject_id: idOf(test.name),
      occurrence: 'failing',
      data: {
        policy_test: test.name,
        expect: test.expect,
        detail: failureInWords({ ...test, until }, failure),
        failure,
        ...(until !== undefined && { until }),
      },
    })),
};

/** What holds, of the events that a webhook asked for. */
export function conditionsOf(events: readonly AlertEvent[], scene: ConditionInput): readonly Condition[] {
  return events.flatMap((event) => sources[event](scene).map((condition) => ({ event, ...condition })));
}
