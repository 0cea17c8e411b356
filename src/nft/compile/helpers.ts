/**
 * Owns the naming of helper chains: a name is derived from the chain's content, so equal parts share one chain and keep
 * its name.
 */
import { sha256Hex } from '#sha256';
import { node, type HelperChain, type Rule } from '../ast.ts';
import { parseObjectName, type ObjectName } from '../names.ts';
import { printRules } from '../print.ts';

/** The first word of a helper chain's name. It only shows a reader of the listing what the chain is for. */
export type HelperPurpose =
  | 'inbound'
  | 'outbound'
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

export const helperChain = (purpose: HelperPurpose, rules: readonly Rule[], salt = ''): HelperChain =>
  node({ kind: 'helper', name: helperName(purpose, rules, salt), rules });

/** The chains of all parts, each once. */
export const allHelpers = (
  parts: readonly ({ readonly helpers: readonly HelperChain[] } | undefined)[],
): HelperChain[] => [
  ...new Map(parts.flatMap((part) => part?.helpers ?? []).map((chain) => [chain.name, chain])).values(),
];

/** Collects helper chains, each content once, targets before the chains that name them. */
export class Helpers {
  readonly #chains = new Map<ObjectName, HelperChain>();
  readonly #salt: string;

  constructor(salt = '') {
    this.#salt = salt;
  }

  add(purpose: HelperPurpose, rules: readonly Rule[]): ObjectName {
    const chain = helperChain(purpose, rules, this.#salt);
    this.put(chain);
    return chain.name;
  }

  /** Takes a chain over as it is, its name included. */
  put(chain: HelperChain): void {
    if (!this.#chains.has(chain.name)) this.#chains.set(chain.name, chain);
  }

  get chains(): readonly HelperChain[] {
    return [...this.#chains.values()];
  }
}
