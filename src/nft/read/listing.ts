/** Owns the reading of `nft -j list table inet …`: the installed state of one of our tables, or its absence. */
import { basesOf, hookPriority, tableFamily, type Hook, type Rule, type TableName, type TableRules } from '../ast.ts';
import { parseAddress } from '../../policy/address.ts';
import { field, isObject, type JsonObject } from '../../policy/json.ts';
import type { Family } from '../../policy/rule.ts';
import { parseRule } from './parse.ts';
import { printRule } from '../print.ts';

/** A rule of the listing: one of ours in canonical form, or the JSON of a rule that we would never write. */
export type InstalledRule =
  | { readonly kind: 'known'; readonly rule: Rule }
  | { readonly kind: 'foreign'; readonly json: string };

/** How a base chain hangs in the kernel. */
export interface Attachment {
  readonly type: string;
  readonly hook: string;
  readonly priority: number;
  readonly policy: string;
}

export interface InstalledChain {
  readonly name: string;
  /** Only on a base chain. */
  readonly attachment?: Attachment;
  readonly rules: readonly InstalledRule[];
}

/** Anything besides chains and rules. Of ours there are counters, of which what they counted is no part of the rules, and maps. */
export interface InstalledObject {
  /** In nft's words: `set`, `map`, `counter`, … */
  readonly object: string;
  readonly name: string;
  /** Only of a map from addresses of one family to counters, such as ours. */
  readonly members?: InstalledMembers;
}

export interface InstalledMembers {
  readonly family: Family;
  readonly elements: ReadonlyMap<bigint, string>;
}

export interface Installed {
  /** The table carries flags, such as `dormant`, which switches all its chains off. */
  readonly flagged: boolean;
  readonly chains: ReadonlyMap<string, InstalledChain>;
  readonly objects: readonly InstalledObject[];
}

/** Our tables, each as the kernel holds it; absent where it is not there. */
export type InstalledTables = { readonly [T in TableName]: Installed | undefined };

/** Whether the chain hangs where our base chain on this hook does (reference 1.2 (2)), its policy aside. */
export const isAttachedTo = ({ attachment }: InstalledChain, hook: Hook): boolean =>
  attachment?.type === 'filter' && attachment.hook === hook && attachment.priority === hookPriority[hook];

/** Whether it also lets pass what its rules do not speak of. */
export const isProperlyAttached = (chain: InstalledChain, hook: Hook): boolean =>
  isAttachedTo(chain, hook) && chain.attachment?.policy === 'accept';

/** Thrown where the value is no listing of nft at all. */
export class NoListing extends Error {
  readonly code = 'no_listing';
}

const text = (record: JsonObject, key: string): string => {
  const value = field(record, key);
  return typeof value === 'string' ? value : '';
};

function attachmentOf(chain: JsonObject): Attachment | undefined {
  if (field(chain, 'hook') === undefined) return undefined;
  const priority = field(chain, 'prio');
  return {
    type: text(chain, 'type'),
    hook: text(chain, 'hook'),
    priority: typeof priority === 'number' ? priority : Number.NaN,
    policy: text(chain, 'policy'),
  };
}

const known = new Set(['family', 'table', 'chain', 'handle', 'index', 'expr']);

const mapFields = new Set(['family', 'table', 'name', 'handle', 'type', 'map', 'elem']);

/** What a map holds; nothing where it is of another kind than ours. */
function membersOf(map: JsonObject): { readonly members?: InstalledMembers } {
  const type = text(map, 'type');
  if ((type !== 'ipv4_addr' && type !== 'ipv6_addr') || text(map, 'map') !== 'counter') return {};
  if (!Object.keys(map).every((key) => mapFields.has(key))) return {};
  const family = type === 'ipv4_addr' ? 4 : 6;
  const elements = new Map<bigint, string>();
  const listed = field(map, 'elem') ?? [];
  for (const entry of Array.isArray(listed) ? (listed as readonly unknown[]) : [undefined]) {
    const [address, counter] = Array.isArray(entry) ? (entry as readonly unknown[]) : [];
    const parsed = typeof address === 'string' ? parseAddress(address) : undefined;
    if (parsed === undefined || 'fault' in parsed || typeof counter !== 'string') return {};
    elements.set(parsed.value, counter);
  }
  return { members: { family, elements } };
}

/** Enough of a foreign rule for a person to recognize it. JSON too deep to print is named so. */
function shown(value: unknown): string {
  try {
    return (JSON.stringify(value) ?? '').slice(0, 300);
  } catch {
    return 'too deep to show';
  }
}

function installedRule(json: JsonObject): InstalledRule {
  // A comment or anything else that we never write makes the rule foreign, whatever it does to packets.
  const rule = Object.keys(json).every((key) => known.has(key)) ? parseRule(field(json, 'expr')) : undefined;
  return rule === undefined ? { kind: 'foreign', json: shown(field(json, 'expr')) } : { kind: 'known', rule };
}

type PartialChain = InstalledChain & { attachment?: Attachment; rules: InstalledRule[] };

/**
 * Reads a table of ours out of the entries of a listing, one after the other. A rule that reads as the one in `expected` at its place is
 * that one, the same object: what is as it should be takes no memory.
 */
export class TableReader {
  readonly #table: TableName;
  readonly #expected: ReadonlyMap<string, readonly Rule[]>;
  readonly #chains = new Map<string, PartialChain>();
  readonly #objects: InstalledObject[] = [];
  #found = false;
  #flagged = false;

  constructor(table: TableName, expected?: TableRules) {
    this.#table = table;
    this.#expected = new Map(
      expected && [...expected.helpers, ...basesOf(expected)].map(({ name, rules }) => [name as string, rules]),
    );
  }

  add(entry: unknown): void {
    if (!isObject(entry)) return;
    for (const [kind, content] of Object.entries(entry)) {
      if (!isObject(content) || text(content, 'family') !== tableFamily) continue;
      if (text(content, kind === 'table' ? 'name' : 'table') !== this.#table) continue;
      this.#found = true;
      if (kind === 'table') this.#flagged = field(content, 'flags') !== undefined;
      else if (kind === 'rule') {
        const { name, rules } = this.#chainNamed(text(content, 'chain'));
        rules.push(shared(installedRule(content), this.#expected.get(name)?.[rules.length]));
      } else if (kind === 'chain') {
        const chain = this.#chainNamed(text(content, 'name'));
        const attached = attachmentOf(content);
        if (attached !== undefined) chain.attachment = attached;
      } else
        this.#objects.push({ object: kind, name: text(content, 'name'), ...(kind === 'map' && membersOf(content)) });
    }
  }

  /** The table; nothing where no entry was about it. */
  get installed(): Installed | undefined {
    return this.#found ? { flagged: this.#flagged, chains: this.#chains, objects: this.#objects } : undefined;
  }

  #chainNamed(name: string): PartialChain {
    const chain = this.#chains.get(name) ?? { name, rules: [] };
    this.#chains.set(name, chain);
    return chain;
  }
}

const shared = (each: InstalledRule, wanted: Rule | undefined): InstalledRule =>
  each.kind === 'known' && wanted !== undefined && printRule(each.rule) === printRule(wanted)
    ? { kind: 'known', rule: wanted }
    : each;
