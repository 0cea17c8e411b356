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
import type { EffectivePolicy } from '../../policy/effective.ts';
import type { DeviceId, GroupId } from '../../policy/ids.ts';
import { policyIn, type Admission, type PairReach } from '../../organization/reach/device-reach.ts';
import type { Direction, PolicyGroup } from '../../policy/rule.ts';
import type { Organization, OrganizationDevice } from '../../organization/organization.ts';
import type { DeviceState, Pair } from './device-states.ts';
import type { NamedRules } from './rule-writers.ts';

const named = ({ id, hostname }: OrganizationDevice): NamedDevice => ({ id, hostname });

const byName = (a: NamedDevice, b: NamedDevice): number =>
  a.hostname < b.hostname ? -1 : a.hostname > b.hostname ? 1 : a.id < b.id ? -1 : 1;

function groupsOf(
  policy: EffectivePolicy,
  device: OrganizationDevice,
  snapshot: Organization,
): readonly EvidenceGroup[] {
  const listed = new Set<GroupId>([...device.list, ...(device.trial?.before?.security_groups ?? [])]);
  const { forbid = [], require = [] } = policy.guardrails ?? {};
  const of = ({ id, name, guardrail }: PolicyGroup): EvidenceGroup => ({
    id,
    name,
    by:
      guardrail !== undefined
        ? 'guardrail'
        : id === snapshot.defaultGroup
          ? 'default'
          : listed.has(id)
            ? 'list'
            : 'label',
    ...(guardrail && { guardrail }),
  });
  return [...forbid, ...require, ...policy.groups].map(of);
}

function* setsOf(direction: Direction, set: TrafficSet): Generator<void, readonly EvidenceTrafficSet[], undefined> {
  const sets: EvidenceTrafficSet[] = [];
  for (const { protocol, ports, v4, v6 } of set) {
    const ranges = [...v4.map((range) => printRange(4, range)), ...v6.map((range) => printRange(6, range))];
    sets.push({ direction, protocol, ...(ports && { ports }), ranges });
    yield;
  }
  return sets;
}

/** Devices with the same traffic by the same rules share an entry. */
function* reachOf(
  pairs: ReadonlyMap<DeviceId, Pair>,
  direction: Direction,
  { snapshot, keysOf }: { readonly snapshot: Organization; readonly keysOf: KeysOf },
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
    const reach = { traffic, source: keysOf(from, 'outbound', source), target: keysOf(to, 'inbound', target) };
    const key = JSON.stringify(reach);
    const entry = entries.get(key) ?? { reach, devices: [] };
    entry.devices.push(named(device));
    entries.set(key, entry);
    yield;
  }
  return [...entries.values()]
    .map(({ reach, devices }) => ({ ...reach, devices: devices.toSorted(byName) }))
    .toSorted((a, b) => byName(a.devices[0] as NamedDevice, b.devices[0] as NamedDevice));
}

type KeysOf = (device: DeviceId, direction: Direction, admissions: readonly Admission[]) => readonly string[];

/** Names the rules of each admission; those that are not rules by a word. */
const keysIn =
  (snapshot: Organization, rules: NamedRules): KeysOf =>
  (device, direction, admissions) =>
    admissions.flatMap((admission) => {
      if (admission.by !== 'rule') return [admission.by];
      // The groups as they were in effect there: a trial may give two devices two states of one group.
      const policy = policyIn(snapshot, device);
      const group = [...(policy?.guardrails?.require ?? []), ...(policy?.groups ?? [])].find(
        ({ id }) => id === admission.group_id,
      );
      const rule = group && rulesOf(group, direction)[admission.index];
      return group === undefined || rule === undefined
        ? []
        : [rules.keyOf(group, snapshot.groups.get(group.id)?.user_id, direction, rule)];
    });

export type StateParts = Omit<EvidenceState, 'causes' | 'device' | 'until'> & {
  /** Of the device, as the snapshot has it; who wrote it is looked up later. */
  readonly own: OrganizationDevice | undefined;
};

/**
 * The state without what only the history knows. The caller can do other work between two steps. `room` holds how many ranges and spans of ports all states of
 * the file may still tell.
 */
export function* stateParts(
  id: DeviceId,
  state: DeviceState,
  rules: NamedRules,
  room: { sets: number },
): Generator<void, StateParts, undefined> {
  const { from, snapshot, pairs, unknown } = state;
  const own = snapshot.devices.get(id);
  const policy = own && policyIn(snapshot, id);
  rules.begin(snapshot.revision);
  const groups = own && policy && groupsOf(policy, own, snapshot);
  const { forbid = [], require = [] } = policy?.guardrails ?? {};
  const rulesTo = (direction: Direction): readonly string[] =>
    [...forbid, ...require, ...(policy?.groups ?? [])].flatMap((group) =>
      rulesOf(group, direction).map((rule) =>
        rules.keyOf(group, snapshot.groups.get(group.id)?.user_id, direction, rule),
      ),
    );
  const keysOf = keysIn(snapshot, rules);
  const admits = policy && (yield* policyDifference(undefined, policy, room.sets));
  for (const { v4, v6, ports } of [...(admits?.inbound.gained ?? []), ...(admits?.outbound.gained ?? [])])
    room.sets -= v4.length + v6.length + (ports?.length ?? 0);
  return {
    from: new Date(from).toISOString(),
    revision: snapshot.revision,
    own,
    ...(groups && { groups }),
    inbound_rules: rulesTo('inbound'),
    outbound_rules: rulesTo('outbound'),
    admits: admits
      ? [...(yield* setsOf('inbound', admits.inbound.gained)), ...(yield* setsOf('outbound', admits.outbound.gained))]
      : [],
    ...(admits && admits.more.gained > 0 && { admits_more: admits.more.gained }),
    reached_by: yield* reachOf(pairs, 'inbound', { snapshot, keysOf }, id),
    reaches: yield* reachOf(pairs, 'outbound', { snapshot, keysOf }, id),
    unknown_devices: [...unknown].flatMap((other) => {
      const device = other === id ? undefined : snapshot.devices.get(other);
      return device === undefined ? [] : [named(device)];
    }),
  };
}
