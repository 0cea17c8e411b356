/** Owns the plan of an update: which commands, in which transactions, turn what is installed into what is desired. */
import {
  objectKinds,
  type BaseChain,
  type Command,
  type HelperChain,
  type ObjectKind,
  type Rule,
  type Ruleset,
} from './ast.ts';
import {
  isAttachedTo,
  isProperlyAttached,
  type Installed,
  type InstalledChain,
  type InstalledRule,
} from './listing.ts';
import { isObjectName, type ObjectName } from './names.ts';
import { printRules } from './print.ts';

/**
 * Three batches, each one transaction, to be loaded in this order; an empty one is left out.
 * One transaction would not do: the contents of new sets become visible a moment after the rules that use them, and
 * permitted packets would be lost in between.
 */
export interface Update {
  readonly kind: 'update';
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

const addRules = (chain: ObjectName, rules: readonly Rule[]): Command[] =>
  rules.map((rule) => ({ kind: 'addRule', chain, rule }));

const loadHelper = ({ name, rules }: HelperChain): Command[] => [{ kind: 'addChain', name }, ...addRules(name, rules)];

const loadBase = ({ name, hook, rules }: BaseChain): Command[] => [
  { kind: 'addBaseChain', name, hook },
  ...addRules(name, rules),
];

const addCounters = (counters: readonly ObjectName[]): Command[] =>
  counters.map((name) => ({ kind: 'addCounter', name }));

/** The whole table from nothing, as one transaction. */
export const install = ({ counters, inbound, outbound, helpers }: Ruleset): readonly Command[] => [
  { kind: 'addTable' },
  ...addCounters(counters),
  ...helpers.flatMap(loadHelper),
  ...loadBase(inbound),
  ...loadBase(outbound),
];

/** Takes our table away, whether or not it is there: `add` does not mind if it is, and then `delete` finds it. */
export const remove = (): readonly Command[] => [{ kind: 'addTable' }, { kind: 'deleteTable' }];

/**
 * Replaces the whole table, whatever it holds, as one transaction. The way out where single objects cannot be named or
 * mended; it may lose a few permitted packets, and lets no forbidden one pass.
 */
export const rebuild = (desired: Ruleset): readonly Command[] => [...remove(), ...install(desired)];

/** Whether there is nothing to do. */
export const isEmpty = ({ stage, flip, collect }: Update): boolean =>
  stage.length === 0 && flip.length === 0 && collect.length === 0;

function sameRules(installed: readonly InstalledRule[], desired: readonly Rule[]): boolean {
  if (installed.length !== desired.length) return false;
  const rules = installed.flatMap((each) => (each.kind === 'known' ? [each.rule] : []));
  return rules.length === desired.length && printRules(rules) === printRules(desired);
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
function needsRebuild({ chains, objects }: Installed, { inbound, outbound }: Ruleset): boolean {
  return (
    [...chains.keys()].some((name) => !isObjectName(name)) ||
    objects.some(({ object, name }) => !isObjectKind(object) || !isObjectName(name)) ||
    [inbound, outbound].some(({ name, hook }) => {
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
  counters: ReadonlySet<string>,
): Command[] {
  const dead = [...chains.keys()].filter((name): name is ObjectName => !kept.has(name) && isObjectName(name));
  const named = objects
    .filter(({ object, name }) => object !== 'counter' || !counters.has(name))
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

/** What to do so that the kernel holds `desired` and nothing else; `installed` is absent where there is no table yet. */
export function plan(installed: Installed | undefined, desired: Ruleset): Update | Tampered {
  const { counters, inbound, outbound, helpers } = desired;
  if (installed !== undefined && needsRebuild(installed, desired)) {
    return { kind: 'update', stage: [], flip: rebuild(desired), collect: [] };
  }
  const chains = installed?.chains ?? new Map<string, InstalledChain>();
  const tampered = helpers.filter(({ name, rules }) => {
    const chain = chains.get(name);
    return chain !== undefined && (chain.attachment !== undefined || !sameRules(chain.rules, rules));
  });
  if (tampered.length > 0) return { kind: 'tampered', chains: tampered.map(({ name }) => name) };

  // Adding the table where it is does no harm, and clears flags such as `dormant`.
  const inTable = (commands: Command[]): Command[] =>
    commands.length === 0 ? [] : [{ kind: 'addTable' }, ...commands];
  // A counter that is there goes on counting.
  const counting = new Set((installed?.objects ?? []).flatMap((each) => (each.object === 'counter' ? each.name : [])));
  const stage = inTable([
    ...addCounters(counters.filter((name) => !counting.has(name))),
    ...helpers.filter(({ name }) => !chains.has(name)).flatMap(loadHelper),
  ]);
  const flip = [inbound, outbound].flatMap((chain) => flipBase(chains.get(chain.name), chain));
  const kept = new Set<string>([inbound, outbound, ...helpers].map(({ name }) => name));
  return {
    kind: 'update',
    stage,
    flip: installed?.flagged === true ? [{ kind: 'addTable' }, ...flip] : inTable(flip),
    collect: installed === undefined ? [] : collectAll(installed, kept, new Set<string>(counters)),
  };
}
