/** Owns the interface of observed traffic in the store: sums that agents report, kept for some days and within a bound (docs/decisions/observed-traffic.md). */
import type { Timestamp } from '../../../organization/decide/records.ts';
import type { FamilyRange } from '../../../policy/address.ts';
import type { DeviceId, GroupId } from '../../../policy/ids.ts';
import type { Family } from '../../../policy/rule.ts';

export interface FlowSum {
  readonly direction: 'in' | 'out';
  readonly verdict: 'refused' | 'admitted';
  readonly family: Family;
  readonly far: bigint;
  /** Number of the IP protocol. */
  readonly protocol: number;
  /** Destination port; 0 where the protocol has none. */
  readonly port: number;
  readonly packets: number;
}

/** A rule in its group, by the hash of its content. */
export interface DecidingRule {
  readonly group: GroupId;
  /** 32 hexadecimal digits. */
  readonly rule: string;
}

/** What a report says of rules. */
export interface ReportedRules {
  /** The groups that were in force on the device for all of its time. */
  readonly groups: readonly GroupId[];
  /** The packets that each rule decided, each rule once. */
  readonly rules: readonly (DecidingRule & { readonly packets: number })[];
  /** Packets that were recorded and of which the device does not know the rules. */
  readonly unknown: number;
}

export interface FlowBatch {
  readonly since: Timestamp;
  readonly until: Timestamp;
  readonly observed: 'refused' | 'all';
  readonly sums: readonly FlowSum[];
  readonly not_recorded: number;
  /** `until` by the device's own clock, which names the report; absent: the same. */
  readonly reported?: Timestamp;
  /** Absent: the device does not say which rules decided. */
  readonly rules?: ReportedRules | undefined;
}

/** What became of a report. */
export interface KeptFlows {
  /** Sums that were kept, now or when the report came before. */
  readonly received: number;
  /** Refused packets of the sums that were stored now: none of a report that came before. */
  readonly refused: number;
}

/** A sum with the device that reported it and the time that it is of. */
export interface StoredFlow extends FlowSum {
  readonly device_id: DeviceId;
  readonly since: Timestamp;
  readonly until: Timestamp;
}

/** What a reader asks for. Everything that is absent matches anything. */
export interface FlowFilter {
  readonly direction?: FlowSum['direction'] | undefined;
  readonly verdict?: FlowSum['verdict'] | undefined;
  readonly protocol?: number | undefined;
  readonly port?: number | undefined;
  /** The far end is in one of these. */
  readonly far?: readonly FamilyRange[] | undefined;
}

export interface FlowQuery extends FlowFilter {
  /** Of these devices only; absent: of all devices of the organization, deleted ones too. */
  readonly devices?: readonly DeviceId[] | undefined;
  /** Sums of times that end after this. */
  readonly since?: Timestamp | undefined;
  /** Sums of times that begin before this. */
  readonly until?: Timestamp | undefined;
  /** Where the page before ended, as its `next` said. */
  readonly after?: string | undefined;
  readonly limit: number;
}

/** The place of a page's end: a block of sums, by its time and id, and the next sum of it. */
export interface FlowCursor {
  readonly until: Timestamp;
  readonly id: string;
  readonly place: number;
}

const cursorForm = /^(\d{13,15})\.(\d{1,19})\.(\d{1,5})$/;

/** Of an id in the database. */
const largestId = 9_223_372_036_854_775_807n;

/** The last millisecond of the year 9999. */
const latest = 253_402_300_799_999;

/** Undefined where no page has ended there. */
export function readFlowCursor(text: string): FlowCursor | undefined {
  const [, until = '', id = '', place = ''] = cursorForm.exec(text) ?? [];
  if (until === '' || Number(until) > latest || BigInt(id) > largestId) return undefined;
  return { until: new Date(Number(until)).toISOString(), id, place: Number(place) };
}

export interface FlowPage {
  /** The newest first. */
  readonly flows: readonly StoredFlow[];
  /** There may be more, from here on. A page may be short, even empty, and still have a next one: a request looks at a bounded number of sums. */
  readonly next?: string;
}

/** For how long, and with what loss, the traffic of a device was observed. */
export interface FlowCoverage {
  readonly device_id: DeviceId;
  /** `YYYY-MM-DD`, in UTC. */
  readonly day: string;
  /** Until when the reports of this day are. */
  readonly through: Timestamp;
  readonly refused_seconds: number;
  readonly all_seconds: number;
  readonly not_recorded: number;
}

/** A device refuses far more than it usually does (reference 4.9 (1)). */
export interface RefusalSurge {
  readonly device_id: DeviceId;
  readonly hostname: string;
  readonly since: Timestamp;
  /** Packets of the newest report. */
  readonly refused_per_minute: number;
  readonly usual_per_minute: number;
}
