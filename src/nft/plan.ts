/** Owns the plan of an update: which commands, in which transactions, turn what is installed into what is desired. */
import type { BaseChain, Command, HelperChain, Ruleset } from './ast.ts';

const loadHelper = ({ name, rules }: HelperChain): Command[] => [
  { kind: 'addChain', name },
  ...rules.map((rule): Command => ({ kind: 'addRule', chain: name, rule })),
];

const loadBase = ({ name, hook, rules }: BaseChain): Command[] => [
  { kind: 'addBaseChain', name, hook },
  ...rules.map((rule): Command => ({ kind: 'addRule', chain: name, rule })),
];

/** The whole table from nothing, to be loaded as one transaction. */
export const install = ({ inbound, outbound, helpers }: Ruleset): readonly Command[] => [
  { kind: 'addTable' },
  ...helpers.flatMap(loadHelper),
  ...loadBase(inbound),
  ...loadBase(outbound),
];

/** Takes our table away, whether or not it is there: `add` never fails, so `delete` does not either. */
export const remove = (): readonly Command[] => [{ kind: 'addTable' }, { kind: 'deleteTable' }];
