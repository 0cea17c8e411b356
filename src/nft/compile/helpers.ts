/**
 * Owns the naming of helper chains: a name is derived from the chain's content, so equal parts share one chain and keep
 * its name.
 */
import { sha256Hex } from '#sha256';
import { node, type HelperChain, type Rule } from '../ast.ts';
import { parseObjectName, type ObjectName } from '../names.ts';
import { printRules } from '../print.ts';
import { inParts } from './parts.ts';

/** The first word of a helper chain's name. It only shows a reader of the listing what the chain is for. */
export type HelperPurpose =
  | 'inbound'
  | 'outbound'
  | 'discovery'
  | 'server'
  | 'forbid'
  | 'tcp'
  | 'udp'
  | 'transport'
  | 'ping'
  | 'ping6'
  | 'from'
  | 'to'
  | 'tree'
  | 'ports'
  | 'part'
  | 'bundle'
  | 'record'
  | 'admit'
  | 'refuse'
  | 'answer';

/** 128 bits: no two contents ever meet by chance. */
const digestDigits = 32;

/**
 * The name of a chain with these rules. Rules hold the names of their targets, so a name covers all that a packet can
 * meet below it. Another salt gives another name to the same content.
 */
export function helperName(purpose: HelperPurpose, rules: readonly Rule[], salt = ''): ObjectName {
  const content = `${salt}\n${printRules(rules)}`;
  return parseObjectName(`${purpose}-${sha256Hex(content).slice(0, digestDigits)}`);
}

const helperChain = (purpose: HelperPurpose, rules: readonly Rule[], salt = ''): HelperChain =>
  node({ kind: 'helper', name: helperName(purpose, rules, salt), rules });

/** The chains of all parts, each once. */
export const allHelpers = (
  parts: readonly ({ readonly helpers: readonly HelperChain[] } | undefined)[],
): HelperChain[] => [
  ...new Map(parts.flatMap((part) => part?.helpers ?? []).map((chain) => [chain.name, chain])).values(),
];

/** How a collection makes its chains. */
export interface HelperOptions {
  readonly salt: string;
  /** Ranges of a list that stand in one chain; see `parts`. */
  readonly longestList: number;
}

/** A chain, and those that hold parts of its lists. */
export interface MadeChain {
  readonly parts: readonly HelperChain[];
  readonly chain: HelperChain;
}

/** Collects helper chains, each content once, targets before the chains that name them. */
export class Helpers {
  readonly #chains = new Map<ObjectName, HelperChain>();
  readonly #options: HelperOptions;

  constructor(options: HelperOptions) {
    this.#options = options;
  }

  make(purpose: HelperPurpose, rules: readonly Rule[]): MadeChain {
    const { salt, longestList } = this.#options;
    const parts: HelperChain[] = [];
    const chainOf = (some: readonly Rule[]): ObjectName => {
      const part = helperChain('part', some, salt);
      parts.push(part);
      return part.name;
    };
    // The addresses of the server are few, and their chain is left out of the table for forwarded connections.
    const longest = purpose === 'server' ? Number.POSITIVE_INFINITY : longestList;
    const short = rules.map((each) => inParts(each, { longest, chainOf }));
    return { parts, chain: helperChain(purpose, parts.length === 0 ? rules : short, salt) };
  }

  add(purpose: HelperPurpose, rules: readonly Rule[]): ObjectName {
    return this.put(this.make(purpose, rules));
  }

  /** Takes a chain over as it is, its name included. */
  put({ parts, chain }: MadeChain): ObjectName {
    for (const each of [...parts, chain]) if (!this.#chains.has(each.name)) this.#chains.set(each.name, each);
    return chain.name;
  }

  get chains(): readonly HelperChain[] {
    return [...this.#chains.values()];
  }
}
