/** Owns one state of a device as evidence tells it: its record, groups, rules, exact sets, and who could connect. */
import type {
  EvidenceGroup,
  EvidenceReach,
  EvidenceState,
  EvidenceTrafficSet,
  NamedDevice,
} from '../../api/evidence/document.ts';
import { printRange } from '../../policy/address.ts';
import { rulesOf } from '../../policy/decide.ts';
import { policyDifference } from '../../policy/difference/policy-difference.ts';
import type { TrafficSet } from '../../policy/difference/traffic.ts';
import { groupsIn, type EffectivePolicy } from '../../policy/effective.ts';
import type { DeviceId } from '../../policy/ids.ts';
import { policiesOf } from '../../organization/device-policies.ts';
import { policyIn, type Admission, type PairReach } from '../../organization/reach/device-reach.ts';
import type { Direction, PolicyGroup } from '../../policy/rule.ts';
import type { Organization, OrganizationDevice } from '../../organization/organization.ts';
import type { DeviceState, Pair } from './device-states.ts';
import { leastSize, type FileRoom } from './file-room.ts';
import type { NamedRules } from './rule-writers.ts';

const named = ({ id, hostname }: OrganizationDevice): NamedDevice => ({ id, hostname });

const byName = (a: NamedDevice, b: NamedDevice): number =>
  a.hostname < b.hostname ? -1 : a.hostname > b.hostname ? 1 : a.id < b.id ? -1 : 1;

function groupsOf(
  policy: EffectivePolicy,
  device: OrganizationDevice,
  snapshot: Organization,
): readonly EvidenceGroup[] {
  const reasons = new Map(
    policiesOf(snapshot)
      .selectionOn(device)
      .groups.map((group) => [group.id, group.by]),
  );
  const { forbid = [], require = [] } = policy.guardrails ?? {};
  const of = ({ id, name, guardrail }: PolicyGroup): EvidenceGroup => ({
    id,
    name,
    by: guardrail === undefined ? (reasons.get(id) ?? 'label') : 'guardrail',
    ...(guardrail && { guardrail }),
  });
  return [...forbid, ...require, ...policy.groups].map(of);
}

function* setsOf(
  direction: Direction,
  set: TrafficSet,
  room: FileRoom,
): Generator<void, readonly EvidenceTrafficSet[], undefined> {
  const sets: EvidenceTrafficSet[] = [];
  for (const { protocol, ports, v4, v6 } of set) {
    const ranges = [...v4.map((range) => printRange(4, range)), ...v6.map((range) => printRange(6, range))];
    room.take(ranges.reduce((sum, range) => sum + range.length, 0));
    sets.push({ direction, protocol, ...(ports && { ports }), ranges });
    yield;
  }
  return sets;
}

/** Devices with the same traffic by the same rules share an entry. */
function* reachOf(
  pairs: ReadonlyMap<DeviceId, Pair>,
  direction: Direction,
  { snapshot, keysOf, room }: { readonly snapshot: Organization; readonly keysOf: KeysOf; readonly room: FileRoom },
  own: DeviceId,
): Generator<void, readonly EvidenceReach[], undefined> {
  const entries = new Map<
    string,
    { readonly reach: Omit<EvidenceReach, 'devices'>; readonly devices: NamedDevice[] }
  >();
  for (const [id, pair] of pairs) {
    const { traffic, source, target }: PairReach = pair[direction];
    const device = snapshot.devices.get(id);
    if (traffic.length === 0 || device === undefined) continue;
    const [from, to] = direction === 'inbound' ? [id, own] : [own, id];
    const [sources, targets] = [yield* keysOf(from, 'outbound', source), yield* keysOf(to, 'inbound', target)];
    const reach = { traffic, source: sources, target: targets };
    const key = JSON.stringify(reach);
    let entry = entries.get(key);
    if (entry === undefined) {
      room.take(key.length);
      entries.set(key, (entry = { reach, devices: [] }));
    }
    room.take(leastSize.device + device.hostname.length);
    entry.devices.push(named(device));
    yield;
  }
  return [...entries.values()]
    .map(({ reach, devices }) => ({ ...reach, devices: devices.toSorted(byName) }))
    .toSorted((a, b) => byName(a.devices[0] as NamedDevice, b.devices[0] as NamedDevice));
}

type Keys = Generator<void, readonly string[], undefined>;
type KeysOf = (device: DeviceId, direction: Direction, admissions: readonly Admission[]) => Keys;

/** Rules that are named between two pauses. */
const namedAtOnce = 64;

/** Names the rules of each admission; those that are not rules by a word. */
const keysIn = (snapshot: Organization, rules: NamedRules): KeysOf =>
  function* (device, direction, admissions) {
    // The groups as they were in effect there: a trial may give two devices two states of one group.
    const policy = policyIn(snapshot, device);
    const groups = new Map(policy && groupsIn(policy).map((group) => [group.id, group]));
    const keys: string[] = [];
    for (const [index, admission] of admissions.entries()) {
      if (index % namedAtOnce === namedAtOnce - 1) yield;
      if (admission.by !== 'rule') {
        keys.push(admission.by);
        continue;
      }
      const group = groups.get(admission.group_id);
      const rule = group && rulesOf(group, direction)[admission.index];
      if (group !== undefined && rule !== undefined)
        keys.push(rules.keyOf(group, snapshot.groups.get(group.id)?.user_id, direction, rule));
    }
    return keys;
  };

/** Names the rules of a device in one direction: those that forbid first. */
export function* ownRuleKeys(
  policy: EffectivePolicy | undefined,
  direction: Direction,
  { snapshot, rules }: { readonly snapshot: Organization; readonly rules: NamedRules },
): Keys {
  const { forbid = [], require = [] } = policy?.guardrails ?? {};
  const keys: string[] = [];
  for (const group of [...forbid, ...require, ...(policy?.groups ?? [])]) {
    const { user_id } = snapshot.groups.get(group.id) ?? {};
    for (const [index, rule] of rulesOf(group, direction).entries()) {
      if (index % namedAtOnce === namedAtOnce - 1) yield;
      keys.push(rules.keyOf(group, user_id, direction, rule));
    }
  }
  return keys;
}

export type StateParts = Omit<EvidenceState, 'causes' | 'device' | 'until'> & {
  /** Of the device, as the snapshot has it; who wrote it is looked up later. */
  readonly own: OrganizationDevice | undefined;
};

/**
 * The state without what only the history knows. The caller can do other work between two steps. `sets` holds how many ranges and spans of ports all states of
 * the file may still tell.
 */
export function* stateParts(
  id: DeviceId,
  state: DeviceState,
  { rules, room, sets }: { readonly rules: NamedRules; readonly room: FileRoom; readonly sets: { left: number } },
): Generator<void, StateParts, undefined> {
  const { from, snapshot, pairs, unknown } = state;
  const own = snapshot.devices.get(id);
  const policy = own && policyIn(snapshot, id);
  rules.begin(snapshot.revision);
  const groups = own && policy && groupsOf(policy, own, snapshot);
  const inbound_rules = yield* ownRuleKeys(policy, 'inbound', { snapshot, rules });
  const outbound_rules = yield* ownRuleKeys(policy, 'outbound', { snapshot, rules });
  room.take((inbound_rules.length + outbound_rules.length) * leastSize.ruleKey);
  const keysOf = keysIn(snapshot, rules);
  const admits = policy && (yield* policyDifference(undefined, policy, sets.left));
  for (const { v4, v6, ports } of [...(admits?.inbound.gained ?? []), ...(admits?.outbound.gained ?? [])])
    sets.left -= v4.length + v6.length + (ports?.length ?? 0);
  return {
    from: new Date(from).toISOString(),
    revision: snapshot.revision,
    own,
    ...(groups && { groups }),
    inbound_rules,
    outbound_rules,
    admits: admits
      ? [
          ...(yield* setsOf('inbound', admits.inbound.gained, room)),
          ...(yield* setsOf('outbound', admits.outbound.gained, room)),
        ]
      : [],
    ...(admits && admits.more.gained > 0 && { admits_more: admits.more.gained }),
    reached_by: yield* reachOf(pairs, 'inbound', { snapshot, keysOf, room }, id),
    reaches: yield* reachOf(pairs, 'outbound', { snapshot, keysOf, room }, id),
    unknown_devices: [...unknown].flatMap((other) => {
      const device = other === id ? undefined : snapshot.devices.get(other);
      return device === undefined ? [] : [named(device)];
    }),
  };
}
