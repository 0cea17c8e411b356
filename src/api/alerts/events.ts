/** Owns the names of alert events, free of schemas so that small programs can import them. */

export const alertEvents = [
  'device.failed',
  'device.reverted',
  'device.drift_repaired',
  'device.offline',
  'device.refused_surge',
  'enrollment_key.expiring',
  'policy_test.failing',
  'rule.expiring',
  'trial.started',
  'trial.confirmed',
  'trial.reverted',
  'trial.expired',
] as const;
export type AlertEvent = (typeof alertEvents)[number];

/** What may be delivered: `test` comes when an owner asks for it. */
export type DeliveredEvent = AlertEvent | 'test';
