/** Owns the interface of the usage of rules in the store: how often each rule decided observed traffic, by day, counted once for each report (decision 0117). */
import type { EffectivePolicy } from '../../../../policy/effective.ts';
import type { DeviceId, GroupId, OrganizationId } from '../../../../policy/ids.ts';
import type { Timestamp } from '../records.ts';
import type { FlowCoverage, FlowSum } from './flows.ts';

/** A rule in its group, by the hash of its content. */
export interface DecidingRule {
  readonly group: GroupId;
  /** 32 hexadecimal digits. */
  readonly rule: string;
}

/** A state of an organization, by which traffic is judged. Devices that share a policy share the object. */
export interface UsageJudge {
  readonly revision: number;
  readonly policies: ReadonlyMap<DeviceId, EffectivePolicy>;
  /** Every group that a device has. */
  readonly pairs: readonly { readonly group: GroupId; readonly device: DeviceId }[];
  /** Every rule on which the kernel's verdict stands, each once and always as the same object; none where this policy decides otherwise. In short steps: there may be very many. */
  rulesOf(policy: EffectivePolicy, sum: FlowSum): Generator<void, readonly DecidingRule[]>;
}

/** How far one counting goes. */
export interface CountingSpan {
  readonly horizon: FlowHorizon;
  readonly blocks: number;
  /** Milliseconds of the event loop. */
  readonly workMs: number;
  /** Blocks of traffic that are judged however long they take, so that every counting gets on: default 0. */
  readonly leastBlocks?: number;
}

/** Does the steps of a generator, and other work in between. */
export interface PausingWork {
  run<T>(steps: Generator<void, T>): Promise<T>;
}

/** `elsewhere`: another process counts by a later state of the organization. */
export type CountingEnd = 'all' | 'more' | 'elsewhere';

/** A place in the stored traffic: everything up to here is committed or will never be. */
export interface FlowHorizon {
  readonly id: string;
  /** Of the primary that gave the ids. */
  readonly timeline: string;
  /** Not earlier than the moment of this place. */
  readonly at: Timestamp;
}

export interface RuleCount extends DecidingRule {
  readonly packets: number;
  readonly last_hit: Timestamp;
}

/** Since when traffic has been judged with the group on the device. */
export interface JudgedSince {
  readonly group: GroupId;
  readonly device: DeviceId;
  readonly since: Timestamp;
}

/** Seconds of a day that reports tell of which are not counted yet. */
export type UncountedTime = Pick<FlowCoverage, 'device_id' | 'day' | 'refused_seconds' | 'all_seconds'>;

export interface RuleUsageCounts {
  /** How long counts, and what is known of when devices were observed, are kept, in milliseconds. */
  readonly keptMs: number;
  /** The organizations that have traffic which is not counted; of these, where some are given. */
  uncounted(among?: readonly OrganizationId[]): Promise<readonly OrganizationId[]>;
  /** Takes an organization for a counting that only one process shall make: false where one took it less than a lease before this time. */
  claim(org: OrganizationId, at: Timestamp, leaseMs: number): Promise<boolean>;
  /** Waits for the reports that are being written. Undefined where they take too long. */
  horizon(): Promise<FlowHorizon | undefined>;
  /**
   * Counts the traffic up to a horizon, as much of it as the span allows. Each block counts once, whoever counts, and however often it is broken off.
   */
  count(org: OrganizationId, judge: UsageJudge, span: CountingSpan, work: PausingWork): Promise<CountingEnd>;
  /** How long devices were observed, on the days from this time on, whether or not their sums are still kept. */
  coverage(org: OrganizationId, since: Timestamp, devices: readonly DeviceId[]): Promise<readonly FlowCoverage[]>;
  /** What of the coverage is not counted. Read after the coverage, and before the counts: then nothing that the coverage has is missing from both. */
  uncountedTime(org: OrganizationId): Promise<readonly UncountedTime[]>;
  /** Of the group, or of all, each pair that is not judged since ever; a pair that is not here is judged since `otherwise`. */
  judgedSince(
    org: OrganizationId,
    group?: GroupId,
  ): Promise<{ readonly pairs: readonly JudgedSince[]; readonly otherwise: Timestamp }>;
  /** Sums of the days from this time on (UTC, the whole day), of the group or of all. */
  counts(org: OrganizationId, since: Timestamp, group?: GroupId): Promise<readonly RuleCount[]>;
  /** Removes what is too old. */
  forget(): Promise<void>;
}
