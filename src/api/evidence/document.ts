/**
 * Owns what an evidence file says. Files are kept for years: a field keeps its meaning, or `format` changes.
 */
import type { StoredRule } from '../../policy/rule.ts';
import type { PolicyTestResult } from '../policy-tests/policy-test.ts';
import type { Flow } from '../flows/flow.ts';

export const evidenceFormat = 'ringfence-evidence-1';

/** RFC 3339, UTC. */
type Time = string;

interface Person {
  readonly user_id: string;
  readonly username?: string;
}

export interface EvidenceDocument {
  readonly format: typeof evidenceFormat;
  readonly organization: { readonly id: string; readonly name: string };
  readonly device: { readonly id: string; readonly hostname: string };
  /** What was asked for: a moment, or a span. */
  readonly at: Time;
  readonly to?: Time;
  readonly created_at: Time;
  readonly created_by: Person;
  /** Version of the server that made it. */
  readonly server_version: string;
  /** In the order of time. The first is that of `at`; each of the others begins with its causes. */
  readonly states: readonly EvidenceState[];
  /** Every rule that a state names, by the key that states use. */
  readonly rules: Readonly<Record<string, EvidenceRule>>;
  readonly in_force: EvidenceInForce;
  readonly traffic: EvidenceTraffic;
  readonly policy_tests: EvidenceTests;
  /** What this file cannot say, in sentences. */
  readonly not_known: readonly string[];
}

export interface SignedEvidence extends EvidenceDocument {
  /** Over all other members (reference 4.19 (2)). */
  readonly signature: { readonly key: string; readonly value: string };
}

export interface EvidenceState {
  readonly from: Time;
  /** Absent of the last one, which lasts until `to`, or is that of the moment. */
  readonly until?: Time;
  /** The newest revision of the organization that counts here. */
  readonly revision: number;
  /** Why it differs from the one before; empty of the first. */
  readonly causes: readonly EvidenceCause[];
  /** Absent while the device did not exist. */
  readonly device?: EvidenceDevice;
  /** In effect on the device, and why; guardrails first. Absent where a group of its list is not known. */
  readonly groups?: readonly EvidenceGroup[];
  /** Keys of `rules`: the rules of these groups, by direction. */
  readonly inbound_rules: readonly string[];
  readonly outbound_rules: readonly string[];
  /** Everything that the device itself admits, as exact sets. The other end may refuse it. */
  readonly admits: readonly EvidenceTrafficSet[];
  /** How many further sets there are, where there are more than a file tells. */
  readonly admits_more?: number;
  /** Devices that may connect to it, and devices that it may connect to: both ends admit it. */
  readonly reached_by: readonly EvidenceReach[];
  readonly reaches: readonly EvidenceReach[];
  /** Devices whose own policy is not known: what they and this device may exchange is not in the lists. */
  readonly unknown_devices: readonly NamedDevice[];
  /** The first sample of the time of this state that shows the policy in force on every device of the organization; absent where there is none. */
  readonly in_force_on_all_at?: Time;
}

export interface NamedDevice {
  readonly id: string;
  readonly hostname: string;
}

export interface EvidenceDevice {
  readonly hostname: string;
  readonly user_id: string;
  readonly tunnel_ip: string;
  readonly addresses: readonly string[];
  readonly labels: readonly string[];
  readonly security_groups: readonly string[];
  readonly isolated?: unknown;
  /** Who wrote this state of the device. */
  readonly written: EvidenceWrite;
}

export interface EvidenceGroup {
  readonly id: string;
  readonly name: string;
  readonly by: 'list' | 'label' | 'default' | 'guardrail';
  readonly guardrail?: 'forbid' | 'require';
}

/** One write of a record, as history and audit know it. */
export interface EvidenceWrite {
  readonly revision: number;
  readonly at: Time;
  /** Absent where the history does not know who. */
  readonly by?: Person;
  /** The server wrote it, because a time was over. */
  readonly by_server?: true;
  /** What the audit says of it; absent where it keeps no entry. */
  readonly operation?: string;
  readonly credential?: string;
  readonly address?: string;
  readonly request_id?: string;
  readonly change_id?: string;
}

export type EvidenceCause =
  | (EvidenceWrite & {
      readonly kind: 'device' | 'group';
      readonly id: string;
      readonly name: string;
      readonly type: 'created' | 'changed' | 'deleted';
      /** The fields that differ. */
      readonly before?: object;
      readonly after?: object;
    })
  /** No one wrote anything: a rule expired, or an isolation ended. */
  | { readonly kind: 'time'; readonly at: Time };

export interface EvidenceRule {
  readonly group_id: string;
  readonly group_name: string;
  readonly direction: 'inbound' | 'outbound';
  readonly rule: Omit<StoredRule, 'members' | 'expired'>;
  /** The write since which the group has had this rule, without a break, up to the state that names it; absent where it is older than the history. */
  readonly written?: EvidenceWrite;
}

export interface EvidenceTrafficSet {
  readonly direction: 'inbound' | 'outbound';
  readonly protocol: string;
  readonly ports?: readonly { readonly from: number; readonly to: number }[];
  readonly ranges: readonly string[];
}

export interface EvidenceReach {
  readonly traffic: readonly {
    readonly protocol: string;
    readonly ports?: readonly { readonly from: number; readonly to: number }[];
  }[];
  readonly devices: readonly NamedDevice[];
  /** Why the end that opens the connection lets it out, and the other end lets it in: keys of `rules`, `open` or `isolation`. */
  readonly source: readonly string[];
  readonly target: readonly string[];
}

/** What a device reports when the file is made. */
export interface EvidenceReceipt {
  /** As in statuses of devices, or `deleted`. */
  readonly in_force: string;
  readonly revision?: number;
  readonly reported_at?: Time;
  readonly policy_digest?: string;
  /** Whether the policy of the last state was that of this device before and after the server read the report. With `in_force` `yes`, its kernel is proven to hold that state. */
  readonly same_policy: boolean;
}

export interface EvidenceOthers {
  /** `every_device`: the device is isolated in the last state, so every other device refuses it except those that its isolation allows. `reach`: the devices that the last state names in `reached_by` and `reaches`. */
  readonly whose: 'every_device' | 'reach';
  readonly devices: number;
  /** How many of them are proven to hold the last state. */
  readonly proven: number;
  /** At most 10,000, those first that prove nothing. */
  readonly receipts: readonly (NamedDevice & EvidenceReceipt)[];
}

export interface EvidenceInForce {
  /** What the device reports now, and whether that proves the last state; absent of a device that is deleted. */
  readonly now?: EvidenceReceipt;
  /** The same of the other end; absent where the last state has no device, and in files of servers that did not know it. */
  readonly others?: EvidenceOthers;
  /** Samples of the whole organization in the span: in each where both numbers are equal, the policy was in force on every device. */
  readonly samples: readonly { readonly at: Time; readonly devices: number; readonly in_force: number }[];
}

export interface EvidenceTraffic {
  /** Of a moment, the hour before it and the hour after it. */
  readonly since: Time;
  readonly until: Time;
  /** For how long the device recorded refusals on each day; a day that is not here was not recorded, or is no longer kept. */
  readonly recorded: readonly {
    readonly day: string;
    readonly refused_seconds: number;
    readonly all_seconds: number;
    readonly not_recorded: number;
  }[];
  /** The newest first. `decision` is what the policy of that time says. */
  readonly refused: readonly Flow[];
  /** There is more than is listed. */
  readonly more: boolean;
}

export interface EvidenceTests {
  /** Whether the tests of that time are known. */
  readonly known: boolean;
  /** Tests that name the device at the end of the span, with their results then. */
  readonly tests: readonly PolicyTestResult[];
}
