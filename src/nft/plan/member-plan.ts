/**
 * Owns the order in which map members are added and removed: no packet that both states admit is lost, and none that
 * both forbid leaks.
 */
import { changeOfMembers, isMember } from '../../policy/fleet/members.ts';
import type { Command, PeerMap, Ruleset, TableName, TableRules } from '../ast.ts';
import type { Family } from '../../policy/rule.ts';
import type { Installed } from '../read/listing.ts';
import type { ObjectName } from '../names.ts';
import { withMembers, type MembersByKey } from '../compile/peer-maps.ts';
import { inTransactions, pieces } from './transactions.ts';

/** One look-up of a packet sees one state of its map, two look-ups may see two; so what must not be seen apart is in this order. */
const order = ['forbid-in', 'admit-in', 'admit-out', 'forbid-out'] as const;

/** A change of one map, and when it is made. */
export interface MemberStep {
  readonly when: (typeof order)[number];
  readonly table?: TableName;
  readonly commands: readonly Command[];
}

/** What is to be done to one map. */
interface MapChange {
  readonly added: readonly (readonly [bigint, ObjectName])[];
  /** Those that are there, and to be counted otherwise. */
  readonly replaced: readonly (readonly [bigint, ObjectName])[];
  readonly gone: readonly bigint[];
}

/** Puts elements into a map. */
export const addElements = (
  map: ObjectName,
  family: Family,
  elements: readonly (readonly [bigint, ObjectName])[],
): Command[] => [...pieces(elements)].map((some) => ({ kind: 'addElements', map, family, elements: some }));

function stepsOf({ name, family, verdict }: PeerMap, { added, replaced, gone }: MapChange): MemberStep[] {
  const kind = verdict === 'accept' ? 'admit' : 'forbid';
  const remove = (addresses: readonly bigint[]): Command => ({
    kind: 'deleteElements',
    map: name,
    family,
    addresses,
  });
  return [
    // Another counter for the same address: in one transaction, so that a look-up finds the one or the other.
    ...[...pieces(replaced)].map((some): MemberStep => ({
      when: `${kind}-in`,
      commands: [remove(some.map(([address]) => address)), ...addElements(name, family, some)],
    })),
    ...addElements(name, family, added).map((each): MemberStep => ({ when: `${kind}-in`, commands: [each] })),
    ...[...pieces(gone)].map((some): MemberStep => ({ when: `${kind}-out`, commands: [remove(some)] })),
  ];
}

/** What turns the members that are installed into those of the map. */
function compareWhole({ elements }: PeerMap, installed: ReadonlyMap<bigint, string>): MapChange {
  const added: [bigint, ObjectName][] = [];
  const replaced: [bigint, ObjectName][] = [];
  for (const element of elements) {
    const before = installed.get(element[0]);
    if (before === undefined) added.push(element);
    else if (before !== element[1]) replaced.push(element);
  }
  return { added, replaced, gone: [...installed.keys()].filter((address) => !elements.has(address)) };
}

/** What turns the members of one moment into those of another, at the cost of what changed; nothing where that is not remembered. */
function compareMembers({ family, names }: PeerMap, before: MembersByKey, after: MembersByKey): MapChange | undefined {
  const touched = new Set<bigint>();
  for (const { key } of names) {
    const [old, now] = [before.get(key), after.get(key)];
    const change = old && now && changeOfMembers(old, now);
    if (change === undefined) return undefined;
    for (const address of change.gained) if (address.family === family) touched.add(address.value);
    for (const address of change.lost) if (address.family === family) touched.add(address.value);
  }
  const counterAt = (value: bigint, members: MembersByKey): ObjectName | undefined =>
    names.find(({ key }) => {
      const named = members.get(key);
      return named !== undefined && isMember(named, { family, value });
    })?.counter;
  const added: [bigint, ObjectName][] = [];
  const replaced: [bigint, ObjectName][] = [];
  const gone: bigint[] = [];
  for (const value of touched) {
    const [old, now] = [counterAt(value, before), counterAt(value, after)];
    if (now === undefined) {
      if (old !== undefined) gone.push(value);
    } else if (old === undefined) added.push([value, now]);
    else if (old !== now) replaced.push([value, now]);
  }
  return { added, replaced, gone };
}

/** The steps for all maps of a table that are installed already; others are loaded whole. */
export function memberSteps(installed: Installed | undefined, maps: readonly PeerMap[] = []): readonly MemberStep[] {
  return maps.flatMap((map) => {
    const members = installed?.objects.find((each) => each.object === 'map' && each.name === map.name)?.members;
    return members === undefined ? [] : stepsOf(map, compareWhole(map, members.elements));
  });
}

/** The steps for all maps of a ruleset from one moment to another; nothing where what changed between them is not remembered. */
function stepsBetween(ruleset: Ruleset, before: MembersByKey, after: MembersByKey): readonly MemberStep[] | undefined {
  const steps: MemberStep[] = [];
  for (const [table, maps] of [
    [undefined, ruleset.maps],
    ['service-forward', ruleset.forward?.maps],
  ] as const) {
    for (const map of maps ?? []) {
      const change = compareMembers(map, before, after);
      if (change === undefined) return undefined;
      for (const step of stepsOf(map, change)) steps.push(table === undefined ? step : { ...step, table });
    }
  }
  return steps;
}

const withMapsOf = <T extends TableRules>(rules: T, now: MembersByKey): T =>
  rules.maps === undefined ? rules : { ...rules, maps: rules.maps.map((map) => withMembers(map, now)) };

/**
 * What turns the kernel from a ruleset whose maps hold the members of one moment to the same with those of another, and that ruleset. It
 * costs what changed, and the number of maps. Nothing where what changed is not remembered.
 */
export function planMembers(
  ruleset: Ruleset,
  before: MembersByKey,
  after: MembersByKey,
): { readonly ruleset: Ruleset; readonly batches: readonly (readonly Command[])[] } | undefined {
  const steps = stepsBetween(ruleset, before, after);
  if (steps === undefined) return undefined;
  const { forward } = ruleset;
  const next = withMapsOf(ruleset, after);
  return {
    ruleset: forward === undefined ? next : { ...next, forward: withMapsOf(forward, after) },
    batches: memberBatches(steps),
  };
}

/**
 * Transactions for each time at which something is done: widen before narrowing, forbid before admitting, and the other
 * way round when members leave.
 */
export const memberBatches = (steps: readonly MemberStep[]): readonly (readonly Command[])[] =>
  order.flatMap((when) =>
    inTransactions(
      steps
        .filter((step) => step.when === when)
        .map(({ table, commands }) => (table === undefined ? commands : commands.map((each) => ({ ...each, table })))),
    ),
  );
