/** Owns what is worth an alert: conditions that hold right now, each found by a source, told once for as long as it lasts. */
import type { AlertEvent } from '../../api/alerts/events.ts';
import type { Condition } from '../store/contract/webhooks.ts';
import type { DeviceStatus, EnrollmentKeyRecord } from '../store/contract/records.ts';
import { isObject } from '../../policy/json.ts';

/** What a source may look at: one organization at one moment. */
export interface Scene {
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly statuses: readonly DeviceStatus[];
  readonly keys: readonly EnrollmentKeyRecord[];
  /** How long a device may be silent. */
  readonly offlineAfterMs: number;
}

/** Every condition of one kind. A condition that goes and comes again, or whose `occurrence` changes, is told again. */
type Source = (scene: Scene) => readonly Omit<Condition, 'event'>[];

const textOf = (status: unknown, name: string): string | undefined => {
  const value = isObject(status) ? status[name] : undefined;
  return typeof value === 'string' ? value : undefined;
};
const numberOf = (status: unknown, name: string): number => {
  const value = isObject(status) ? status[name] : undefined;
  return typeof value === 'number' ? value : 0;
};

/** A key is told of a week before its end, one with a short life in its last quarter. */
const keyWarningMs = 7 * 86_400_000;
const isEnding = ({ created_at, expires_at, uses_left }: EnrollmentKeyRecord, now: number): boolean => {
  const end = Date.parse(expires_at);
  const warning = Math.min(keyWarningMs, (end - Date.parse(created_at)) / 4);
  return uses_left > 0 && now < end && end - now < warning;
};

export const sources: { readonly [Event in AlertEvent]: Source } = {
  'device.failed': ({ statuses }) =>
    statuses
      .filter(({ status }) => textOf(status, 'state') === 'failed')
      .map(({ device_id, status }) => ({
        subject_id: device_id,
        occurrence: 'failed',
        data: { device_id, ...withDetail(textOf(status, 'detail')) },
      })),

  'device.drift_repaired': ({ statuses }) =>
    statuses
      .map(({ device_id, status }) => ({ device_id, repairs: numberOf(status, 'drift_repairs') }))
      .filter(({ repairs }) => repairs > 0)
      .map(({ device_id, repairs }) => ({
        subject_id: device_id,
        occurrence: String(repairs),
        data: { device_id, drift_repairs: repairs },
      })),

  'device.offline': ({ statuses, now, offlineAfterMs }) =>
    statuses
      .filter(({ reported_at }) => now - Date.parse(reported_at) > offlineAfterMs)
      .map(({ device_id, reported_at }) => ({
        subject_id: device_id,
        occurrence: 'offline',
        data: { device_id, last_seen_at: reported_at },
      })),

  'enrollment_key.expiring': ({ keys, now }) =>
    keys
      .filter((key) => isEnding(key, now))
      .map(({ id, name, expires_at }) => ({
        subject_id: id,
        occurrence: expires_at,
        data: { enrollment_key_id: id, name, expires_at },
      })),
};

const withDetail = (detail: string | undefined): { readonly detail?: string } =>
  detail === undefined ? {} : { detail };

/** What holds, of the events that a webhook asked for. */
export function conditionsOf(events: readonly AlertEvent[], scene: Scene): readonly Condition[] {
  return events.flatMap((event) => sources[event](scene).map((condition) => ({ event, ...condition })));
}
