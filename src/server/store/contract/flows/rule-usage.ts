/** Owns the interface of the usage of rules in the store: how often each rule decided observed traffic, by day, as agents report it. */
import type { DeviceId, GroupId, OrganizationId } from '../../../../policy/ids.ts';
import type { Timestamp } from '../records.ts';
import type { DecidingRule, FlowCoverage } from './flows.ts';

export interface RuleCount extends DecidingRule {
  readonly packets: number;
  readonly last_hit: Timestamp;
}

/** Since when the device has reported, without a break, what the rules of the group decided. */
export interface ReportedSince {
  readonly group: GroupId;
  readonly device: DeviceId;
  readonly since: Timestamp;
}

export interface RuleUsageCounts {
  /** How long counts, and what is known of when devices were observed, are kept, in milliseconds. */
  readonly keptMs: number;
  /** How long devices were observed, on the days from this time on, whether or not their sums are still kept. */
  coverage(org: OrganizationId, since: Timestamp, devices: readonly DeviceId[]): Promise<readonly FlowCoverage[]>;
  /** Of the group, or of all. A pair that is not here was not reported. */
  reportedSince(org: OrganizationId, devices: readonly DeviceId[], group?: GroupId): Promise<readonly ReportedSince[]>;
  /** Sums of the days from this time on (UTC, the whole day), of the group or of all. */
  counts(org: OrganizationId, since: Timestamp, group?: GroupId): Promise<readonly RuleCount[]>;
}
