/** Owns rulesets as people read them, for tests that show one whole. */
import { basesOf, type TableRules } from '../ast.ts';
import { printRule } from '../print.ts';

/** A ruleset as people read it: chains with their rules, `1`, `2`, … for the digests in the names, and short names of groups. */
export function readable(table: TableRules): string {
  const text = [...basesOf(table), ...table.helpers.toReversed()]
    .map(({ name, rules }) => [`${name}:`, ...rules.map((each) => `  ${printRule(each)}`)].join('\n'))
    .join('\n');
  const digests = [...new Set(text.match(/[0-9a-f]{32}/g))];
  return digests
    .reduce((shown, digest, i) => shown.replaceAll(digest, String(i + 1)), text)
    .replaceAll(/0{8}-0000-4000-8000-0{11}/g, 'group');
}
