/** Owns the question what in our table others have put their hands on. */
import type { Ruleset } from '../../nft/ast.ts';
import { isOurCounter, type Finding } from '../../nft/decompile.ts';
import type { Installed, InstalledObject } from '../../nft/listing.ts';

/** What news from the kernel says about our table. */
export interface Touched {
  /** The table itself was made or deleted. */
  readonly table: boolean;
  readonly chains: ReadonlySet<string>;
}

/** What stands in the table without touching packets and was not there before: chains that nothing of ours leads to, sets, … */
export function strange(
  installed: Installed | undefined,
  { counters: named, helpers, inbound, outbound }: Ruleset,
  before: Installed | undefined,
): Finding[] {
  if (installed === undefined) return [];
  const counters = new Set<string>(named);
  const own = new Set<string>([inbound, outbound, ...helpers].map(({ name }) => name));
  const chains = [...installed.chains.values()]
    .filter(({ name }) => !own.has(name) && before?.chains.has(name) !== true)
    .filter(({ attachment }) => before !== undefined || attachment !== undefined)
    .map(({ name }): Finding => ({ code: 'foreign_chain', name, detail: 'the table holds a chain that is not ours' }));
  const leftover = (each: InstalledObject): boolean =>
    isOurCounter(each) && (before === undefined || before.objects.some(({ name }) => name === each.name));
  const foreign = installed.objects.filter(
    (each) => !(each.object === 'counter' && counters.has(each.name)) && !leftover(each),
  );
  const objects = foreign.map(({ object, name }): Finding => ({
    code: 'foreign_object',
    name,
    detail: `the table holds a ${object} that is not ours`,
  }));
  return [...chains, ...objects];
}
