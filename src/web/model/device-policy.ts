/** Owns the policy of a device as pages show it: which groups apply, whether they admit everything, and what packets meet in the order in which it is decided. */
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { groupsOf, type HasGroups } from '../../organization/of-records.ts';
import { idsIn, type EffectivePolicy } from '../../policy/effective.ts';
import { resolvePolicy, type Membership } from '../../policy/fleet/resolve.ts';
import { parseGroupId } from '../../policy/ids.ts';
import type { PolicyGroup, StoredRule, Direction, Peer, SecurityRule } from '../../policy/rule.ts';
import { policyAt } from '../../policy/time/policy-at.ts';
import type { Snapshot } from '../state/organization.ts';
import type { Content } from './draft.ts';
import type { GroupState } from '../../organization/organization.ts';
import { isClosed, rulesOf } from '../../policy/decide.ts';

/** A placeholder for the driver interface, whose name each device chooses itself. */
export const exampleInterface = 'wg0';

/** A group on a device that has no other. */
export function policyOfContent(content: Content, fleet: Membership): EffectivePolicy {
  const group: PolicyGroup = {
    id: parseGroupId('00000000-0000-4000-8000-000000000000'),
    name: content.group_name,
    inbound: content.inbound_rules,
    outbound: content.outbound_rules,
  };
  const { guardrail } = content;
  const resolved = (policy: EffectivePolicy): EffectivePolicy =>
    resolvePolicy(policyAt(policy, Date.now()).policy, fleet);
  if (guardrail === undefined) return resolved({ source: 'list', groups: [group] });
  const guardrails = { forbid: [], require: [], [guardrail]: [{ ...group, guardrail }] };
  return resolved({ source: 'list', groups: [], guardrails });
}

/** How many devices a group applies to, and on how many of them the policy is in force. */
export interface GroupUse {
  readonly devices: number;
  readonly inForce: number;
}

/** The use of each group, counted in one walk. */
export function countUses(
  { devices, groups }: Pick<Snapshot, 'devices' | 'groups'>,
  isInForce: (device: Device) => boolean,
): ReadonlyMap<string, GroupUse> {
  const uses = new Map<string, { devices: number; inForce: number }>();
  for (const device of devices) {
    const inForce = isInForce(device);
    for (const id of idsIn(groupsOf(device, groups))) {
      const use = uses.get(id) ?? { devices: 0, inForce: 0 };
      uses.set(id, use);
      use.devices += 1;
      if (inForce) use.inForce += 1;
    }
  }
  return uses;
}

/** A group that decides for a device, as pages show it. */
export interface GroupOn {
  readonly id: string;
  /** Undefined where the reader may not see it. */
  readonly group: SecurityGroup | undefined;
  readonly by: 'list' | 'label' | 'default';
}

/** The groups that decide for a device, in their order; guardrails stand above them and are not among these. */
export const groupsOn = (
  device: HasGroups,
  { groups, groupById }: Pick<Snapshot, 'groups' | 'groupById'>,
): readonly GroupOn[] => groupsOf(device, groups).groups.map(({ id, by }) => ({ id, by, group: groupById.get(id) }));

/** The groups and guardrails that a device would join and leave by a change of its list or labels, by name; the default group is none of them. */
export function groupMoves(
  groups: readonly SecurityGroup[],
  before: Device,
  after: Device,
): { readonly joins: readonly string[]; readonly leaves: readonly string[] } {
  const namesOn = (device: Device): readonly string[] => {
    const { groups: deciding, forbid, require } = groupsOf(device, groups);
    const own = deciding.flatMap(({ by, group }) => (by === 'default' || group === undefined ? [] : [group]));
    return [...own, ...forbid, ...require].map(({ name }) => name);
  };
  const [old, now] = [namesOn(before), namesOn(after)];
  return { joins: now.filter((name) => !old.includes(name)), leaves: old.filter((name) => !now.includes(name)) };
}

const everywhere = new Set(['0.0.0.0/0', '::/0']);

const admitsAll = ({ ip_protocol, from_port, to_port, ip_ranges = [], peers }: StoredRule): boolean => {
  if (ip_protocol !== 'ipv4' && ip_protocol !== 'ipv6') return false;
  if (from_port !== 0 || to_port !== 0) return false;
  return ip_ranges.length === 0 ? peers === undefined : ip_ranges.some((range) => everywhere.has(range));
};

/** Whether a device with such a group admits everything of at least one family. */
export const isOpen = (inbound: readonly StoredRule[]): boolean => inbound.some(admitsAll);

export const isOpenGroup = ({ rules, guardrail }: GroupState): boolean =>
  guardrail === undefined && isOpen(rules.inbound);

/** The devices with such a group, in the order given. Guardrails may still forbid some of it. */
export function openDevices({ devices, groups }: Pick<Snapshot, 'devices' | 'groups'>): readonly Device[] {
  // Each group is looked at once: many devices have the same.
  const known = new Map<GroupState, boolean>();
  const opens = (group: GroupState): boolean => {
    const open = known.get(group) ?? isOpenGroup(group);
    known.set(group, open);
    return open;
  };
  return devices.filter((device) =>
    groupsOf(device, groups).groups.some(({ group }) => group !== undefined && opens(group)),
  );
}

export type RuleVerdict = 'refuse' | 'require' | 'allow';

export interface AccessRow {
  readonly verdict: RuleVerdict;
  readonly rule: SecurityRule;
  /** Where it comes from; absent for isolation. */
  readonly group?: { readonly id: string; readonly name: string };
  readonly byIsolation?: true;
}

export interface DeviceAccess {
  readonly rows: readonly AccessRow[];
  /** What happens to traffic that no row matches. */
  readonly rest: 'refuse' | 'allow';
}

/** Every protocol and port, to or from these peers. */
const everythingOf = (peers: readonly Peer[]): SecurityRule => ({ ip_protocol: 'ip', from_port: 0, to_port: 0, peers });

const rowsOf = (groups: readonly PolicyGroup[], direction: Direction, verdict: RuleVerdict): readonly AccessRow[] =>
  groups.flatMap(({ id, name, ...rules }) =>
    rulesOf({ id, name, ...rules }, direction)
      // An expired rule matches nothing.
      .filter(({ expired }) => expired !== true)
      .map((rule) => ({ verdict, rule, group: { id, name } })),
  );

const byIsolation = true as const;

/** For a policy of this moment (`policyAt`). */
export function deviceAccess(policy: EffectivePolicy, direction: Direction): DeviceAccess {
  const { groups, guardrails, isolation } = policy;
  const isolated = (isolation?.refused ?? []).map(({ id }): Peer => ({ device_id: id }));
  const refused: readonly AccessRow[] = [
    ...(isolated.length === 0 ? [] : [{ verdict: 'refuse' as const, rule: everythingOf(isolated), byIsolation }]),
    ...rowsOf(guardrails?.forbid ?? [], direction, 'refuse'),
  ];
  const own = isolation?.own;
  if (own !== undefined) {
    const allowed =
      own.allow.length === 0 ? [] : [{ verdict: 'allow' as const, rule: everythingOf(own.allow), byIsolation }];
    return { rows: [...refused, ...allowed], rest: 'refuse' };
  }
  return {
    rows: [
      ...refused,
      ...rowsOf(guardrails?.require ?? [], direction, 'require'),
      ...rowsOf(groups, direction, 'allow'),
    ],
    rest: isClosed(policy, direction) ? 'refuse' : 'allow',
  };
}

/** The same of one group or guardrail. A guardrail says nothing about the rest. */
export function groupAccess(
  rules: readonly StoredRule[],
  direction: Direction,
  guardrail: PolicyGroup['guardrail'],
): Omit<DeviceAccess, 'rest'> & Partial<DeviceAccess> {
  const verdict = guardrail === undefined ? 'allow' : guardrail === 'forbid' ? 'refuse' : 'require';
  const rows = rules.map((rule): AccessRow => ({ verdict, rule }));
  if (guardrail !== undefined) return { rows };
  return { rows, rest: direction === 'inbound' || rules.length > 0 ? 'refuse' : 'allow' };
}
