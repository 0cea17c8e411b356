/** Owns what a ruleset gives the kernel to load, and about how long that takes: the measure that a search maximizes. */
import type { Ruleset } from '../../src/nft/ast.ts';
import { makesSet } from '../../src/nft/ast.ts';

export interface Load {
  readonly chains: number;
  readonly rules: number;
  readonly sets: number;
  /** Elements of sets: ranges, and single addresses, which cost a third. */
  readonly ranges: number;
  readonly hosts: number;
  /** Elements of maps. */
  readonly entries: number;
}

export function loadOf({ helpers }: Ruleset): Load {
  const load = { chains: helpers.length, rules: 0, sets: 0, ranges: 0, hosts: 0, entries: 0 };
  for (const rule of helpers.flatMap(({ rules }) => rules)) {
    load.rules += 1;
    if (makesSet(rule)) load.sets += 1;
    if ('entries' in rule.action) load.entries += rule.action.entries.length;
    for (const match of rule.matches) {
      if (match.kind !== 'address' || match.ranges.length < 2) continue;
      if (match.ranges.every(({ first, last }) => first === last)) load.hosts += match.ranges.length;
      else load.ranges += match.ranges.length;
    }
  }
  return load;
}

/**
 * Milliseconds of the processor for `nft -f`, its own and the kernel's, by what each part took alone (nft 1.0.6, Linux
 * 6.18, a 2 GHz Xeon). Sets are walked through for each new one, so they count squared.
 */
export const milliseconds = ({ chains, rules, sets, ranges, hosts, entries }: Load): number =>
  (chains * 4 + rules * 17 + sets * 20 + sets * sets * 0.075 + ranges * 5.4 + hosts * 1.6 + entries * 7) / 1_000;
