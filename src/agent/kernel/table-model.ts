/** Owns an in-memory model of our tables: what the kernel holds after a batch, or why it would refuse the batch. */
import { hookPriority, targets, type Command, type Hook, type ObjectKind, type TableName } from '../../nft/ast.ts';
import { countersOf } from '../../nft/counters.ts';
import { recordSetsOf } from '../../nft/recording.ts';
import {
  isAttachedTo,
  type Installed,
  type InstalledChain,
  type InstalledRule,
  type InstalledTables,
} from '../../nft/read/listing.ts';
import type { Family } from '../../policy/rule.ts';

/** Why the kernel would refuse a batch, in its words. */
export class Refused extends Error {
  readonly code = 'refused';
}

const refuse = (why: string): never => {
  throw new Refused(why);
};
const noSuchFile = 'No such file or directory';

/** The kernel follows the jumps of a base chain this deep. */
const deepest = 16;

const targetsOf = (rules: readonly InstalledRule[]): readonly string[] =>
  rules.flatMap((each) => (each.kind === 'known' ? targets(each.rule) : []));

const countersIn = (rules: readonly InstalledRule[]): readonly string[] =>
  countersOf([{ rules: rules.flatMap((each) => (each.kind === 'known' ? each.rule : [])) }]);

const setsIn = (rules: readonly InstalledRule[]): readonly string[] =>
  recordSetsOf([{ rules: rules.flatMap((each) => (each.kind === 'known' ? each.rule : [])) }]).map(({ name }) => name);

const mapsIn = (rules: readonly InstalledRule[]): readonly string[] =>
  rules.flatMap((each) => (each.kind === 'known' ? (each.rule.counterMap?.map ?? []) : []));

/** A chain of a copy that is being changed. */
type Draft = InstalledChain & { rules: InstalledRule[] };

/** A copy of the table on which a batch is tried out. */
class Table {
  readonly flagged: boolean;
  readonly chains: Map<string, InstalledChain>;
  objects: Installed['objects'];
  /** How many rules lead to a chain. */
  readonly #uses = new Map<string, number>();
  readonly #drafts = new Map<string, Draft>();

  constructor({ chains, objects }: Pick<Installed, 'chains' | 'objects'>, flagged: boolean) {
    this.flagged = flagged;
    this.chains = new Map(chains);
    this.objects = objects;
    for (const { rules } of chains.values()) this.#count(rules, 1);
  }

  find(name: string): InstalledChain {
    return this.chains.get(name) ?? refuse(noSuchFile);
  }

  attach(name: string, hook: Hook): void {
    const old = this.chains.get(name);
    if (old !== undefined && !isAttachedTo(old, hook)) refuse('Operation not supported');
    const attachment = { type: 'filter', hook, priority: hookPriority[hook], policy: 'accept' };
    this.#put({ name, attachment, rules: [...(old?.rules ?? [])] });
  }

  add(name: string): void {
    if (!this.chains.has(name)) this.#put({ name, rules: [] });
  }

  flush(name: string): void {
    const draft = this.#draft(name);
    this.#count(draft.rules, -1);
    draft.rules = [];
  }

  delete(name: string): void {
    this.flush(name);
    if ((this.#uses.get(name) ?? 0) > 0) refuse('Device or resource busy');
    this.chains.delete(name);
    this.#drafts.delete(name);
  }

  append(name: string, rule: InstalledRule): void {
    const draft = this.#draft(name);
    if (rule.kind === 'known') {
      for (const target of targets(rule.rule)) {
        if (this.find(target).attachment !== undefined) refuse('Operation not supported');
        this.#uses.set(target, (this.#uses.get(target) ?? 0) + 1);
      }
      const { counter, counterMap } = rule.rule;
      if (counter !== undefined && !this.#has('counter', counter)) refuse(noSuchFile);
      if (counterMap !== undefined && !this.#has('map', counterMap.map)) refuse(noSuchFile);
      for (const set of setsIn([rule])) this.needSet(set);
    }
    draft.rules.push(rule);
  }

  addCounter(name: string): void {
    if (!this.#has('counter', name)) this.objects = [...this.objects, { object: 'counter', name }];
  }

  addSet(name: string): void {
    if (!this.#has('set', name)) this.objects = [...this.objects, { object: 'set', name }];
  }

  needSet(name: string): void {
    if (!this.#has('set', name)) refuse(noSuchFile);
  }

  addMap(name: string, family: Family): void {
    if (!this.#has('map', name))
      this.objects = [...this.objects, { object: 'map', name, members: { family, elements: new Map() } }];
  }

  /** The kernel takes an element that is there with the same value, and no other. */
  addElements(name: string, elements: readonly (readonly [bigint, string])[]): void {
    this.#changeMap(name, (members) => {
      for (const [address, counter] of elements) {
        if (!this.#has('counter', counter)) refuse(noSuchFile);
        const known = members.get(address);
        if (known !== undefined && known !== counter) refuse('File exists');
        members.set(address, counter);
      }
    });
  }

  deleteElements(name: string, addresses: readonly bigint[]): void {
    this.#changeMap(name, (members) => {
      for (const address of addresses) if (!members.delete(address)) refuse(noSuchFile);
    });
  }

  #changeMap(name: string, change: (members: Map<bigint, string>) => void): void {
    const map = this.objects.find((each) => each.object === 'map' && each.name === name);
    if (map?.members === undefined) return refuse(noSuchFile);
    const elements = new Map(map.members.elements);
    change(elements);
    const changed = { ...map, members: { ...map.members, elements } };
    this.objects = this.objects.map((each) => (each === map ? changed : each));
  }

  deleteObject(object: ObjectKind, name: string): void {
    if (!this.#has(object, name)) refuse(noSuchFile);
    const rules = [...this.chains.values()].flatMap((chain) => chain.rules);
    const counted = this.objects.some(({ members }) => [...(members?.elements.values() ?? [])].includes(name));
    const used = object === 'counter' ? countersIn(rules) : object === 'set' ? setsIn(rules) : mapsIn(rules);
    const isUsed = (object === 'counter' && counted) || used.includes(name);
    if (isUsed) refuse('Device or resource busy');
    this.objects = this.objects.filter((each) => each.object !== object || each.name !== name);
  }

  #has(object: ObjectKind, name: string): boolean {
    return this.objects.some((each) => each.object === object && each.name === name);
  }

  /** The kernel looks for loops from where packets come in. */
  refuseLoops(): void {
    const depths = new Map<string, number>();
    const visit = (name: string, above: ReadonlySet<string>): number => {
      if (above.has(name)) refuse('Too many links');
      const known = depths.get(name);
      if (known !== undefined) return known;
      const below = new Set(targetsOf(this.chains.get(name)?.rules ?? []));
      const path = new Set([...above, name]);
      let depth = 1;
      for (const target of below) depth = Math.max(depth, 1 + visit(target, path));
      if (depth > deepest) refuse('Too many links');
      depths.set(name, depth);
      return depth;
    };
    for (const { name, attachment } of this.chains.values()) if (attachment !== undefined) visit(name, new Set());
  }

  #put(draft: Draft): void {
    this.chains.set(draft.name, draft);
    this.#drafts.set(draft.name, draft);
  }

  /** A chain is copied when it is first changed, because others may hold the old one. */
  #draft(name: string): Draft {
    const known = this.#drafts.get(name);
    if (known !== undefined) return known;
    const chain = this.find(name);
    const draft = { ...chain, rules: [...chain.rules] };
    this.#put(draft);
    return draft;
  }

  #count(rules: readonly InstalledRule[], step: 1 | -1): void {
    for (const target of targetsOf(rules)) this.#uses.set(target, (this.#uses.get(target) ?? 0) + step);
  }
}

type State = Table | undefined;
type Handlers = { readonly [K in Command['kind']]: (table: Table, command: Extract<Command, { kind: K }>) => State };

const handlers: Handlers = {
  // Adding a table that is there clears its flags.
  addTable: (table) => (table.flagged ? new Table(table, false) : table),
  deleteTable: () => undefined,
  addBaseChain: (table, { name, hook }) => {
    table.attach(name, hook);
    return table;
  },
  addChain: (table, { name }) => {
    table.add(name);
    return table;
  },
  flushChain: (table, { name }) => {
    table.flush(name);
    return table;
  },
  deleteChain: (table, { name }) => {
    table.delete(name);
    return table;
  },
  addRule: (table, { chain, rule }) => {
    table.append(chain, { kind: 'known', rule });
    return table;
  },
  addCounter: (table, { name }) => {
    table.addCounter(name);
    return table;
  },
  addMap: (table, { name, family }) => {
    table.addMap(name, family);
    return table;
  },
  addSet: (table, { name }) => {
    table.addSet(name);
    return table;
  },
  flushSet: (table, { name }) => {
    table.needSet(name);
    return table;
  },
  startSecondGeneration: (table, { set }) => {
    table.needSet(set);
    return table;
  },
  addElements: (table, { map, elements }) => {
    table.addElements(map, elements);
    return table;
  },
  deleteElements: (table, { map, addresses }) => {
    table.deleteElements(map, addresses);
    return table;
  },
  deleteObject: (table, { object, name }) => {
    table.deleteObject(object, name);
    return table;
  },
};

/** Nothing of ours is there. */
export const noTables: InstalledTables = { service: undefined, 'service-forward': undefined };

/** Our tables after the batch. Throws `Refused` where the kernel would not take it; the tables given are never changed. */
export function applyCommands(tables: InstalledTables, commands: readonly Command[]): InstalledTables {
  const after = (table: TableName): Installed | undefined => {
    const own = commands.filter((command) => (command.table ?? 'service') === table);
    return own.length === 0 ? tables[table] : applyToTable(tables[table], own);
  };
  return { service: after('service'), 'service-forward': after('service-forward') };
}

function applyToTable(installed: Installed | undefined, commands: readonly Command[]): Installed | undefined {
  let table: State = installed && new Table(installed, installed.flagged);
  for (const command of commands) {
    if (table === undefined && command.kind === 'addTable')
      table = new Table({ chains: new Map(), objects: [] }, false);
    const handler = handlers[command.kind] as (table: Table, command: Command) => State;
    table = handler(table ?? refuse(noSuchFile), command);
  }
  table?.refuseLoops();
  return table && { flagged: table.flagged, chains: table.chains, objects: table.objects };
}

/** The same of a batch that the kernel took; nothing where our picture of it does not allow that: the picture is wrong. */
export function outcomeOf(known: InstalledTables, commands: readonly Command[]): InstalledTables | undefined {
  try {
    return applyCommands(known, commands);
  } catch {
    return undefined;
  }
}
