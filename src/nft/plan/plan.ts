/** Owns the plan of an update: the commands and transactions that turn the installed state into the desired one. */
import {
  basesOf,
  makesSet,
  objectKinds,
  rulesOfTable,
  tableNames,
  type BaseChain,
  type Command,
  type HelperChain,
  type ObjectKind,
  type PeerMap,
  type RecordSet,
  type Rule,
  type Ruleset,
  type TableName,
  type TableRules,
} from '../ast.ts';
import {
  isAttachedTo,
  isProperlyAttached,
  type Installed,
  type InstalledChain,
  type InstalledObject,
  type InstalledRule,
} from '../read/listing.ts';
import { baseName } from '../compile/base.ts';
import { addElements, memberBatches, memberSteps } from './member-plan.ts';
import { inTransactions } from './transactions.ts';
import { isObjectName, type ObjectName } from '../names.ts';
import { printRule } from '../print.ts';

/**
 * Three batches, each one transaction (`stage` may be several: `stageBatches`), to be loaded in this order; an empty one is left out.
 * One transaction would not do, unless the update `isSmall`: the contents of new sets become visible a moment after the
 * rules that use them, and permitted packets would be lost in between.
 */
export interface Update {
  readonly kind: 'update';
  /**
   * Brings the members of maps in use up to date, each batch a transaction, to be loaded before the others in this
   * order; see `member-plan`. Absent where all are.
   */
  readonly members?: readonly (readonly Command[])[];
  /** Loads what is new where no packet comes yet. What is installed already is not touched. */
  readonly stage: readonly Command[];
  /**
   * Turns the base chains to the new parts. Makes no sets, so it holds for every packet from one instant on (the ICMP
   * types of the default chain and a rebuild aside).
   */
  readonly flip: readonly Command[];
  /** Takes away what nothing refers to any more, and what others put into our table. May wait. */
  readonly collect: readonly Command[];
}

/**
 * Helper chains that bear a name of ours and hold something else: someone changed them in place. They cannot be mended
 * unseen by packets, so compile again with another salt, plan again, and keep that salt for as long as these are in use.
 */
export interface Tampered {
  readonly kind: 'tampered';
  readonly chains: readonly ObjectName[];
}

const directions = ['inbound', 'outbound'] as const;

const addRules = (chain: ObjectName, rules: readonly Rule[]): Command[] =>
  rules.map((rule) => ({ kind: 'addRule', chain, rule }));

const loadHelper = ({ name, rules }: HelperChain): Command[] => [{ kind: 'addChain', name }, ...addRules(name, rules)];

const loadBase = ({ name, hook, rules }: BaseChain): Command[] => [
  { kind: 'addBaseChain', name, hook },
  ...addRules(name, rules),
];

const addCounters = (counters: readonly ObjectName[]): Command[] =>
  counters.map((name) => ({ kind: 'addCounter', name }));

/** A map with all its members: it is filled before any rule looks it up. */
const loadMap = ({ name, family, elements }: PeerMap): Command[] => [
  { kind: 'addMap', name, family },
  ...addElements(name, family, [...elements]),
];

const addSets = (sets: readonly RecordSet[]): Command[] =>
  sets.map(({ name, kind: of }) => ({ kind: 'addSet', name, of }));

/** The same commands about this table. */
const about = (table: TableName, commands: readonly Command[]): readonly Command[] =>
  table === 'service' ? commands : commands.map((command) => ({ ...command, table }));

const installTable = (rules: TableRules): readonly Command[] => [
  { kind: 'addTable' },
  ...addCounters(rules.counters),
  ...addSets(rules.sets ?? []),
  ...(rules.maps ?? []).flatMap(loadMap),
  ...rules.helpers.flatMap(loadHelper),
  ...basesOf(rules).flatMap(loadBase),
];

/** Takes a table away, whether or not it is there: `add` does not mind if it is, and then `delete` finds it. */
const removeTable: readonly Command[] = [{ kind: 'addTable' }, { kind: 'deleteTable' }];

/** Installs these tables from nothing as one transaction. Default: all our tables. */
export const install = (desired: Ruleset, tables: Iterable<TableName> = tableNames): readonly Command[] =>
  [...tables].flatMap((table) => {
    const rules = rulesOfTable(desired, table);
    return rules === undefined ? [] : about(table, installTable(rules));
  });

/** Removes these tables, whether or not they exist. Default: all our tables. */
export const remove = (tables: Iterable<TableName> = tableNames): readonly Command[] =>
  [...tables].flatMap((table) => about(table, removeTable));

/**
 * Replaces these tables and all their content as one transaction. Default: all our tables. This is the fallback where
 * single objects cannot be named or repaired. It may lose a few permitted packets, but lets no forbidden one pass.
 */
export const rebuild = (desired: Ruleset, tables: ReadonlySet<TableName> = new Set(tableNames)): readonly Command[] => [
  ...remove(tables),
  ...install(desired, tables),
];

const resetBase = ({ name, hook, rules }: BaseChain): Command[] => [
  // Adding a chain that is there sets its policy.
  { kind: 'addBaseChain', name, hook },
  { kind: 'flushChain', name },
  ...addRules(name, rules),
];

/**
 * Turns these base chains to their rules, whatever they hold, where all else is sound. Names that are no base chain's tell of something else: then
 * all of them are turned, as where there is no name.
 */
export function resetBases(desired: Ruleset, chains: ReadonlySet<string>): readonly Command[] {
  const tables = tableNames.flatMap((table) => {
    const rules = rulesOfTable(desired, table);
    return rules === undefined ? [] : [{ table, bases: basesOf(rules) }];
  });
  const names = new Set<string>(tables.flatMap(({ bases }) => bases.map(({ name }) => name)));
  const isMeant = chains.size > 0 && [...chains].every((name) => names.has(name)) ? chains : names;
  return tables.flatMap(({ table, bases }) => {
    const commands = bases.filter(({ name }) => isMeant.has(name)).flatMap(resetBase);
    // Adding the table where it is does no harm, and clears flags such as `dormant`.
    return commands.length === 0 ? [] : about(table, [{ kind: 'addTable' }, ...commands]);
  });
}

/** So many commands keep the kernel hardly longer than the turn alone does, and have room in one message to it. */
const fewCommands = 64;
const setCommands: ReadonlySet<Command['kind']> = new Set(['addMap', 'addSet', 'addElements', 'deleteElements']);
const makesNoSet = (command: Command): boolean =>
  command.kind === 'addRule' ? !makesSet(command.rule) : !setCommands.has(command.kind);

/**
 * Whether `stage` and `flip` may be one transaction: rules of all chains hold from one instant on, so where no set is made or
 * changed, nothing comes later than what looks at it.
 */
export const isSmall = ({ stage, flip }: Pick<Update, 'stage' | 'flip'>): boolean =>
  stage.length + flip.length <= fewCommands && stage.every(makesNoSet) && flip.every(makesNoSet);

/**
 * The new parts as several transactions, where they are many. No packet comes to any of them yet, and none is left half: each chain is loaded whole,
 * after those that it leads to.
 */
export function stageBatches(stage: readonly Command[]): readonly (readonly Command[])[] {
  const chains: Command[][] = [];
  for (const command of stage) {
    const chain = chains.at(-1);
    if (chain === undefined || command.kind !== 'addRule') chains.push([command]);
    else chain.push(command);
  }
  return inTransactions(chains);
}

function sameRules(installed: readonly InstalledRule[], desired: readonly Rule[]): boolean {
  if (installed.length !== desired.length) return false;
  return installed.every((each, i) => {
    const wanted = desired[i];
    return (
      each.kind === 'known' &&
      wanted !== undefined &&
      (each.rule === wanted || printRule(each.rule) === printRule(wanted))
    );
  });
}

function flipBase(installed: InstalledChain | undefined, desired: BaseChain): Command[] {
  if (installed === undefined) return loadBase(desired);
  const attached = isProperlyAttached(installed, desired.hook);
  if (attached && sameRules(installed.rules, desired.rules)) return [];
  return [
    // Adding a chain that is there sets its policy.
    ...(attached ? [] : [{ kind: 'addBaseChain' as const, name: desired.name, hook: desired.hook }]),
    { kind: 'flushChain', name: desired.name },
    ...addRules(desired.name, desired.rules),
  ];
}

const isObjectKind = (object: string): object is ObjectKind => (objectKinds as readonly string[]).includes(object);

/** What cannot be named in a command, or hangs where a chain of ours should, gives way only with the whole table. */
function needsRebuild({ chains, objects }: Installed, rules: TableRules): boolean {
  return (
    [...chains.keys()].some((name) => !isObjectName(name)) ||
    objects.some(({ object, name }) => !isObjectKind(object) || !isObjectName(name)) ||
    basesOf(rules).some(({ name, hook }) => {
      const chain = chains.get(name);
      return chain !== undefined && !isAttachedTo(chain, hook);
    })
  );
}

/**
 * Rules go first, then maps, whose elements refer to chains, then chains, then what rules and maps referred to.
 * Within one transaction a reference ends with the command that ends it.
 */
function collectAll(
  { chains, objects }: Installed,
  kept: ReadonlySet<string>,
  { counters, maps = [], sets = [] }: TableRules,
): Command[] {
  const namesOf = (all: readonly { readonly name: string }[]): ReadonlySet<string> =>
    new Set(all.map(({ name }) => name));
  const inUse = { counter: new Set<string>(counters), map: namesOf(maps), set: namesOf(sets) };
  const isUsed = ({ object, name }: InstalledObject): boolean =>
    (object === 'counter' || object === 'map' || object === 'set') && inUse[object].has(name);
  const dead = [...chains.keys()].filter((name): name is ObjectName => !kept.has(name) && isObjectName(name));
  const named = objects
    .filter((each) => !isUsed(each))
    .flatMap(({ object, name }): Command[] =>
      isObjectKind(object) && isObjectName(name) ? [{ kind: 'deleteObject', object, name }] : [],
    );
  const isSet = (command: Command): boolean =>
    command.kind === 'deleteObject' && (command.object === 'set' || command.object === 'map');
  return [
    ...dead.map((name): Command => ({ kind: 'flushChain', name })),
    ...named.filter(isSet),
    ...dead.map((name): Command => ({ kind: 'deleteChain', name })),
    ...named.filter((command) => !isSet(command)),
  ];
}

/** What to do so that one table holds `desired` and nothing else; `installed` is absent where it is not there yet. */
function planTable(installed: Installed | undefined, desired: TableRules): Update | Tampered {
  const { counters, helpers, maps = [], sets = [] } = desired;
  const bases = basesOf(desired);
  if (installed !== undefined && needsRebuild(installed, desired)) {
    return { kind: 'update', stage: [], flip: [...removeTable, ...installTable(desired)], collect: [] };
  }
  const chains = installed?.chains ?? new Map<string, InstalledChain>();
  const tampered = helpers.filter(({ name, rules }) => {
    const chain = chains.get(name);
    return chain !== undefined && (chain.attachment !== undefined || !sameRules(chain.rules, rules));
  });
  const objects = installed?.objects ?? [];
  const installedMap = (name: string): InstalledObject | undefined =>
    objects.find((each) => each.object === 'map' && each.name === name);
  // A map of another kind bears a name of ours.
  const wrong = maps.filter(({ name, family }) => {
    const map = installedMap(name);
    return map !== undefined && map.members?.family !== family;
  });
  if (tampered.length + wrong.length > 0)
    return { kind: 'tampered', chains: [...tampered, ...wrong].map(({ name }) => name) };

  // Adding the table where it is does no harm, and clears flags such as `dormant`.
  const inTable = (commands: Command[]): Command[] =>
    commands.length === 0 ? [] : [{ kind: 'addTable' }, ...commands];
  // A counter that is there goes on counting.
  const counting = new Set(objects.flatMap((each) => (each.object === 'counter' ? each.name : [])));
  const stage = inTable([
    ...addCounters(counters.filter((name) => !counting.has(name))),
    ...addSets(sets.filter(({ name }) => !objects.some((each) => each.object === 'set' && each.name === name))),
    ...maps.filter(({ name }) => installedMap(name) === undefined).flatMap(loadMap),
    ...helpers.filter(({ name }) => !chains.has(name)).flatMap(loadHelper),
  ]);
  const flip = bases.flatMap((chain) => flipBase(chains.get(chain.name), chain));
  const kept = new Set<string>([...bases, ...helpers].map(({ name }) => name));
  return {
    kind: 'update',
    stage,
    flip: installed?.flagged === true ? [{ kind: 'addTable' }, ...flip] : inTable(flip),
    collect: installed === undefined ? [] : collectAll(installed, kept, desired),
  };
}

/** The table for forwarded connections: absent where nothing is judged, so that their packets meet no chain at all. */
function planForward(installed: Installed | undefined, desired: TableRules | undefined): Update | Tampered {
  if (desired === undefined) {
    return { kind: 'update', stage: [], flip: installed === undefined ? [] : removeTable, collect: [] };
  }
  if (installed === undefined) return planTable(installed, desired);
  // A direction that is open now has no chain from the flip on, not even an empty one.
  const open = directions
    .filter((direction) => desired[direction] === undefined)
    .map((direction) => baseName({ table: 'service-forward', direction }))
    .filter((name) => installed.chains.has(name));
  const chains = new Map([...installed.chains].filter(([name]) => !open.some((each) => each === name)));
  const update = planTable({ ...installed, chains }, desired);
  if (update.kind === 'tampered') return update;
  const away = open.flatMap((name): Command[] => [
    { kind: 'flushChain', name },
    { kind: 'deleteChain', name },
  ]);
  return { ...update, flip: [...update.flip, ...away] };
}

/**
 * What to do so that the kernel holds `desired` and nothing else, from what the table `service` and the one for forwarded
 * connections hold; absent where there is no such table yet. Both turn to the new rules at one instant.
 */
export function plan(installed: Installed | undefined, desired: Ruleset, forward?: Installed): Update | Tampered {
  const [own, other] = [planTable(installed, desired), planForward(forward, desired.forward)];
  if (own.kind === 'tampered' || other.kind === 'tampered') {
    return { kind: 'tampered', chains: [own, other].flatMap((each) => (each.kind === 'tampered' ? each.chains : [])) };
  }
  const together = (step: 'stage' | 'flip' | 'collect'): readonly Command[] => [
    ...own[step],
    ...about('service-forward', other[step]),
  ];
  const members = memberBatches([
    ...memberSteps(installed, desired.maps),
    ...memberSteps(forward, desired.forward?.maps).map((step) => ({ ...step, table: 'service-forward' as const })),
  ]);
  const update: Update = {
    kind: 'update',
    stage: together('stage'),
    flip: together('flip'),
    collect: together('collect'),
  };
  return members.length === 0 ? update : { ...update, members };
}
