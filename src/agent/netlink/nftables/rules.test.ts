/** Proves that a rule of a base chain, which is written once and then copied, asks for the same in every batch. */
import { expect, test } from 'vitest';
import { tableNames, type Command, type Rule } from '../../../nft/ast.ts';
import { baseName, baseRules } from '../../../nft/compile/base.ts';
import { parseInterfaceName, parseObjectName } from '../../../nft/names.ts';
import { concat } from '../message.ts';
import { batchOf } from './commands.ts';

const driver = parseInterfaceName('rf0');
const [helper, other] = [parseObjectName('to-a'), parseObjectName('to-b')];
const directions = ['inbound', 'outbound'] as const;

const frameOf = (commands: readonly Command[]): string => {
  const batch = batchOf(commands);
  if (batch === undefined) throw new Error('a rule has no form');
  return Buffer.from(concat(batch.seal(12, 1))).toString('hex');
};
/** The same rules as new objects, so that no cached form of them exists. */
const anew = (commands: readonly Command[]): readonly Command[] => structuredClone(commands);

const rules = tableNames.flatMap((table) =>
  directions.flatMap((direction): readonly Rule[] =>
    [helper, other].flatMap((dispatch) =>
      baseRules({ table, direction }, driver, { kind: 'closed', discovery: helper, forbid: helper, dispatch }),
    ),
  ),
);

test.each(tableNames.flatMap((table) => directions.map((direction) => [table, direction] as const)))(
  'rules are the same when they are written again, also where they stood elsewhere before: %s, %s',
  (table, direction) => {
    const into = (chain = baseName({ table, direction })): readonly Command[] =>
      rules.map((rule) => ({ kind: 'addRule', table, chain, rule }));
    const expected = frameOf(anew(into()));
    expect(frameOf(into())).toBe(expected);
    expect(frameOf(into())).toBe(expected);
    // Sealed with other numbers and an answer asked for, which stay with that batch.
    expect(frameOf([...into().slice(3), ...into().slice(0, 3)])).toBe(
      frameOf(anew([...into().slice(3), ...into().slice(0, 3)])),
    );
    expect(frameOf(into(helper))).toBe(frameOf(anew(into(helper))));
  },
);

test('a rule that makes a set is numbered with its set in each batch', () => {
  const make = (): readonly Command[] =>
    baseRules({ table: 'service', direction: 'inbound' }, driver, { kind: 'default' }).map((rule) => ({
      kind: 'addRule',
      chain: baseName({ table: 'service', direction: 'inbound' }),
      rule,
    }));
  const twice = [...make(), ...make()];
  expect(frameOf(twice)).toBe(frameOf(anew(twice)));
  expect(frameOf(twice.slice(1))).toBe(frameOf(anew(twice.slice(1))));
});
