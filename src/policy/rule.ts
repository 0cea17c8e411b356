/** Owns what a security rule and a security group are, as data (reference 1.2 and 2.2). */
import type { GroupId } from './ids.ts';

export type Family = 4 | 6;
export type Direction = 'inbound' | 'outbound';

/** Every protocol a person may write. */
export const protocols = ['tcp', 'udp', 'icmp', 'icmpv4', 'icmpv6', 'ipv4', 'ipv6', 'ip'] as const;
export type Protocol = (typeof protocols)[number];

/** Every protocol that is stored: `icmpv4` and `ip` are normalized away (reference 1.2 (15)). */
export const storedProtocols = ['tcp', 'udp', 'icmp', 'icmpv6', 'ipv4', 'ipv6'] as const;
export type StoredProtocol = (typeof storedProtocols)[number];

/** Devices by what they are: those that carry all of these labels, or all there are. */
export type Selector = { readonly labels: readonly string[] } | { readonly all_devices: true };

/** Devices that a rule names as its far end. */
export type Peer = Selector | { readonly device_id: string };

/**
 * A rule as written: valid, not yet normalized. Ports 0 and 0 mean any port. The far end is `ip_ranges` and the own
 * addresses of all devices that `peers` name; where there are no `peers`, no `ip_ranges` means any address.
 */
export interface SecurityRule {
  readonly ip_protocol: Protocol;
  readonly from_port: number;
  readonly to_port: number;
  readonly ip_ranges?: readonly string[];
  readonly peers?: readonly Peer[];
  /** RFC 3339, as written. From then on the rule matches nothing, and it is still a rule: outbound stays closed. */
  readonly expires_at?: string;
  /** What people say about the rule. It is no part of the rule's identity, and agents never get it. */
  readonly description?: string;
}

/** Addresses of both families, each list ascending, disjoint, no two adjacent. */
export interface Members {
  readonly v4: readonly { readonly first: bigint; readonly last: bigint }[];
  readonly v6: readonly { readonly first: bigint; readonly last: bigint }[];
}

/** A rule as stored, enforced and shown. Made by `normalize` only. `ip_ranges` may be absent or empty, as it was written. */
export interface StoredRule extends SecurityRule {
  readonly ip_protocol: StoredProtocol;
  /**
   * The addresses of its peers at one moment; an empty list means no address. Set by `resolvePolicy` only, and never
   * stored.
   */
  readonly members?: Members;
  /** It matches nothing any more. Made by `policyAt` only, and never stored. */
  readonly expired?: true;
}

/** What an organization always forbids, or always admits, on the devices that the group applies to. */
export const guardrailKinds = ['forbid', 'require'] as const;
export type GuardrailKind = (typeof guardrailKinds)[number];

/** Whether a group takes part in enforcement, or is only compared with it. A group that says nothing enforces. */
export const groupModes = ['enforce', 'observe'] as const;
export type GroupMode = (typeof groupModes)[number];

/** A change that ends by itself at `ends_at` unless somebody confirms it. */
export interface Trial<Before> {
  readonly id: string;
  /** RFC 3339. */
  readonly ends_at: string;
  /** The devices that try the change; absent: all of them. */
  readonly scope?: readonly Selector[];
  /** The fields as they were; null where the record did not exist. */
  readonly before: Before | null;
}

/** What the policy core needs of a group. Wire records are wider and fit here through `groupFromRecord`. */
export interface PolicyGroup {
  readonly id: GroupId;
  readonly name: string;
  readonly inbound: readonly StoredRule[];
  readonly outbound: readonly StoredRule[];
  /** Devices that have the group without naming it in their list. */
  readonly appliesTo?: readonly Selector[];
  readonly guardrail?: GuardrailKind;
  /** `observe`: watch only. The group decides nothing; absent: it enforces. */
  readonly mode?: GroupMode;
  /** The change of the group that is being tried, and what it was before. */
  readonly trial?: Trial<GroupBefore>;
}

/** The list of a device before a trial. */
export interface ListBefore {
  readonly security_groups: readonly GroupId[];
}

/** What a trial of a group may have changed. */
export type GroupBefore = Required<Pick<PolicyGroup, 'name' | 'inbound' | 'outbound' | 'appliesTo' | 'mode'>>;

const any = (ip_protocol: StoredProtocol): StoredRule => ({
  ip_protocol,
  from_port: 0,
  to_port: 0,
  ip_ranges: [],
});

/** The rules of an organization's default group (reference 1.2 (11)): everything in, everything out. */
export const defaultInboundRules: readonly StoredRule[] = [any('ipv4'), any('ipv6'), any('icmp'), any('icmpv6')];
export const defaultOutboundRules: readonly StoredRule[] = [];
