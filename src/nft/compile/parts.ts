/**
 * Owns long lists of addresses in rules: each is loaded in parts, by chains of their own. While any program monitors the packet filter, the kernel keeps eight
 * kilobytes for each range of a transaction until its end, so no transaction may hold many.
 */
import { jump, node, rule, type AddressEntry, type Match, type Rule } from '../ast.ts';
import type { ObjectName } from '../names.ts';
import { printRule } from '../print.ts';

/** Ranges of a list that stand in one chain; 16 MB of the kernel's memory while they are loaded. */
export const longestListByDefault = 2_048;

const isPart = (chain: string): boolean => chain.startsWith('part-');

type AddressMatch = Extract<Match, { kind: 'address' }>;
const isAddress = (match: Match): match is AddressMatch => match.kind === 'address';

function* slices<T>(all: readonly T[], most: number): Iterable<readonly T[]> {
  for (let at = 0; at < all.length; at += most) yield all.slice(at, at + most);
}

/** The rule that says the same by chains of parts, which `chainOf` takes; the rule itself where its list is not long. */
export function inParts(
  each: Rule,
  { longest, chainOf }: { readonly longest: number; readonly chainOf: (rules: readonly Rule[]) => ObjectName },
): Rule {
  const { matches, action, counter } = each;
  if (action.kind === 'addressMap') {
    const { family, side, entries } = action;
    if (entries.length <= longest || matches.length > 0) return each;
    const parts = [...slices(entries, longest)].map((some) =>
      entryTo(chainOf([rule([], node({ ...action, entries: some }), counter)]), some),
    );
    return rule([], node({ kind: 'addressMap', family, side, entries: parts }));
  }
  const list = matches.find(isAddress);
  if (list === undefined || list.ranges.length <= longest) return each;
  const { family, side, ranges } = list;
  const parts = [...slices(ranges, longest)].map((some) => {
    const within = matches.map((match) => (match === list ? node({ ...list, ranges: some }) : match));
    return entryTo(chainOf([rule(within, action, counter)]), some);
  });
  return rule([], node({ kind: 'addressMap', family, side, entries: parts }));
}

/** From the first address of a part to its last. */
function entryTo(chain: ObjectName, some: readonly { readonly first: bigint; readonly last: bigint }[]): AddressEntry {
  return node({ first: some[0]?.first ?? 0n, last: some.at(-1)?.last ?? 0n, verdict: jump(chain) });
}

/**
 * The inverse of `inParts`: the rule with its whole list; nothing where the parts are none that we would write. `rulesOf` gives the rules
 * of a chain.
 */
export function wholeOf(each: Rule, rulesOf: (chain: string) => readonly Rule[]): Rule | undefined {
  const { action } = each;
  if (action.kind !== 'addressMap') return each;
  const [first] = action.entries;
  if (first?.verdict.kind !== 'jump' || !isPart(first.verdict.chain)) return each;
  const parts: Rule[] = [];
  for (const { verdict, ...range } of action.entries) {
    const [only, ...more] = verdict.kind === 'jump' && isPart(verdict.chain) ? rulesOf(verdict.chain) : [];
    const ranges = only && listIn(only);
    if (only === undefined || more.length > 0 || ranges === undefined) return undefined;
    if (ranges[0]?.first !== range.first || ranges.at(-1)?.last !== range.last) return undefined;
    parts.push(only);
  }
  const [one] = parts;
  if (one === undefined || each.matches.length > 0 || each.counter !== undefined) return undefined;
  const kind = kindOf(one);
  const isSame = parts.every((part) => {
    const where = part.action.kind === 'addressMap' ? part.action : part.matches.find(isAddress);
    return where?.family === action.family && where.side === action.side && kindOf(part) === kind;
  });
  if (!isSame) return undefined;
  if (one.action.kind === 'addressMap') {
    const entries = parts.flatMap((part) => (part.action.kind === 'addressMap' ? part.action.entries : []));
    return { ...one, action: { ...one.action, entries } };
  }
  const ranges = parts.flatMap((part) => part.matches.find(isAddress)?.ranges ?? []);
  return { ...one, matches: one.matches.map((match) => (isAddress(match) ? { ...match, ranges } : match)) };
}

/** The addresses that a rule of a part tells apart. */
const listIn = ({ matches, action }: Rule): readonly { readonly first: bigint; readonly last: bigint }[] | undefined =>
  action.kind === 'addressMap' ? action.entries : matches.find(isAddress)?.ranges;

/** What the rule says besides its list. */
const kindOf = (each: Rule): string =>
  each.action.kind === 'addressMap'
    ? `map ${each.counter ?? ''} ${each.matches.map((match) => match.kind).join(' ')}`
    : printRule({
        ...each,
        matches: each.matches.map((match) => (isAddress(match) ? { ...match, ranges: [] } : match)),
      });
