/** Owns the order in which members of maps come and go: no packet that both states admit is lost, none that both forbid leaks. */
import type { Command, PeerMap, TableName } from './ast.ts';
import type { Installed } from './listing.ts';
import type { ObjectName } from './names.ts';

/** One look-up of a packet sees one state of its map, two look-ups may see two; so what must not be seen apart is in this order. */
const order = ['forbid-in', 'admit-in', 'admit-out', 'forbid-out'] as const;

/** A change of one map, and when it is made. */
export interface MemberStep {
  readonly when: (typeof order)[number];
  readonly table?: TableName;
  readonly commands: readonly Command[];
}

/** What turns the members that are installed into those of the map. */
function stepsOf({ name, family, verdict, elements }: PeerMap, installed: ReadonlyMap<bigint, string>): MemberStep[] {
  const added: [bigint, ObjectName][] = [];
  const replaced: [bigint, ObjectName][] = [];
  for (const element of elements) {
    const before = installed.get(element[0]);
    if (before === undefined) added.push(element);
    else if (before !== element[1]) replaced.push(element);
  }
  const gone = [...installed.keys()].filter((address) => !elements.has(address));
  const add = (list: readonly (readonly [bigint, ObjectName])[]): Command[] =>
    list.length === 0 ? [] : [{ kind: 'addElements', map: name, family, elements: list }];
  const remove = (addresses: readonly bigint[]): Command[] =>
    addresses.length === 0 ? [] : [{ kind: 'deleteElements', map: name, family, addresses }];
  const kind = verdict === 'accept' ? 'admit' : 'forbid';
  // Another counter for the same address: in one transaction, so that a look-up finds the one or the other.
  const comes = [...remove(replaced.map(([address]) => address)), ...add([...replaced, ...added])];
  return [
    { when: `${kind}-in` as const, commands: comes },
    { when: `${kind}-out` as const, commands: remove(gone) },
  ].filter(({ commands }) => commands.length > 0);
}

/** The steps for all maps of a table that are installed already; others are loaded whole. */
export function memberSteps(installed: Installed | undefined, maps: readonly PeerMap[] = []): readonly MemberStep[] {
  return maps.flatMap((map) => {
    const members = installed?.objects.find((each) => each.object === 'map' && each.name === map.name)?.members;
    return members === undefined ? [] : stepsOf(map, members.elements);
  });
}

/**
 * One transaction for each time at which something is done: widen before narrowing, forbid before admitting, and the other
 * way round when members leave.
 */
export const memberBatches = (steps: readonly MemberStep[]): readonly (readonly Command[])[] =>
  order
    .map((when) =>
      steps
        .filter((step) => step.when === when)
        .flatMap(({ table, commands }) =>
          table === undefined ? commands : commands.map((each) => ({ ...each, table })),
        ),
    )
    .filter((commands) => commands.length > 0);
