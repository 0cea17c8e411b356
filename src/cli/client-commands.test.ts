/** Proves that the words of a family are its commands, so that no family hides a command of another. */
import { Command } from 'commander';
import { expect, it } from 'vitest';
import { clientFamilies } from './client-commands.ts';
import { addFamilies } from './command-line/family.ts';

const added = async (...args: readonly string[]): Promise<readonly string[]> => {
  const program = new Command('ringfence');
  await addFamilies(program, clientFamilies, args);
  return program.commands.map((command) => command.name());
};

it.each(
  clientFamilies.filter(({ words }) => words.length > 0).map((family) => [family.words.join(', '), family] as const),
)('the words %s are the commands of their family', async (_, { words, add }) => {
  const program = new Command('ringfence');
  await add(program);
  expect(program.commands.flatMap((command) => [command.name(), ...command.aliases()])).toEqual(words);
});

it('a word of a family brings its family only, any other word and none bring all', async () => {
  expect(await added('group')).toEqual(['group']);
  expect(await added('whoami')).toContain('profile');
  expect(await added('whoami')).not.toContain('group');
  const all = await added();
  expect(all).toContain('completion');
  expect(new Set(all).size).toBe(all.length);
  expect(await added('grup')).toEqual(all);
  expect(await added('completion')).toEqual(all);
});

it('what may follow a half-typed command is asked of its family only, where that is known', async () => {
  expect(await added('complete', '--', 'group', 'show')).toEqual(['group', 'completion', 'complete']);
  const all = await added();
  expect(await added('complete', '--', 'grup', 'show')).toEqual(all);
  expect(await added('complete', '--', '--org', 'acme', 'group', 'show')).toEqual(all);
  expect(await added('complete', '--')).toEqual(all);
  expect(await added('complete')).toEqual(all);
  expect(await added('complete', 'group')).toEqual(all);
  expect(await added('group', '--', 'complete')).toEqual(['group']);
});
