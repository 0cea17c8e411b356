/** Owns drift: changes that other programs have made in our tables. */
import { basesOf, type TableName, type TableRules } from '../../nft/ast.ts';
import { isOurCounter, isOurMap, isOurSet } from '../../nft/read/decompile.ts';
import type { Installed, InstalledObject } from '../../nft/read/listing.ts';
import type { Finding } from '../../nft/read/read-chain.ts';

/** What a change of the packet filter did to our tables, as far as the kernel's monitor reports it. */
export interface TableChange {
  /** Those that were themselves made or deleted. */
  readonly tables: ReadonlySet<TableName>;
  /** In whichever of them. */
  readonly chains: ReadonlySet<string>;
}

/**
 * Objects in the table that do not affect packets and were not there before: chains that none of our chains refers to,
 * sets, …
 */
export function foreignParts(
  installed: Installed | undefined,
  rules: TableRules,
  before: Installed | undefined,
): Finding[] {
  if (installed === undefined) return [];
  const counters = new Set<string>(rules.counters);
  const maps = new Set<string>(rules.maps?.map(({ name }) => name));
  const sets = new Set<string>(rules.sets?.map(({ name }) => name));
  const own = new Set<string>([...basesOf(rules), ...rules.helpers].map(({ name }) => name));
  const chains = [...installed.chains.values()]
    .filter(({ name }) => !own.has(name) && before?.chains.has(name) !== true)
    .filter(({ attachment }) => before !== undefined || attachment !== undefined)
    .map(({ name }): Finding => ({ code: 'foreign_chain', name, detail: 'the table contains a foreign chain' }));
  const leftover = (each: InstalledObject): boolean =>
    (isOurCounter(each) || isOurMap(each) || isOurSet(each)) &&
    (before === undefined || before.objects.some(({ name }) => name === each.name));
  const foreign = installed.objects.filter(
    (each) =>
      !(each.object === 'counter' && counters.has(each.name)) &&
      !(each.object === 'map' && maps.has(each.name)) &&
      !(each.object === 'set' && sets.has(each.name)) &&
      !leftover(each),
  );
  const objects = foreign.map(({ object, name }): Finding => ({
    code: 'foreign_object',
    name,
    detail: `the table contains a foreign ${object}`,
  }));
  return [...chains, ...objects];
}

/** How much a table holds beyond what the rules need, in chains and objects. */
export function surplus(installed: Installed | undefined, rules: TableRules | undefined): number {
  if (installed === undefined || rules === undefined) return 0;
  const { chains, objects } = installed;
  const { helpers, counters, maps = [], sets = [] } = rules;
  return (
    Math.max(chains.size - helpers.length - basesOf(rules).length, 0) +
    Math.max(objects.length - counters.length - maps.length - sets.length, 0)
  );
}

export const tableGone: Finding = { code: 'missing_chain', name: '', detail: 'the table does not exist' };
export const otherRules: Finding = { code: 'wrong_layout', name: '', detail: 'the table contains other rules' };
