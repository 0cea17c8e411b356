/** Proves the search of the command palette. */
import { expect, it } from 'vitest';
import { findCommands, readVerb, type Command } from './palette.ts';

const command = (kind: Command['kind'], name: string, keywords = ''): Command => ({ id: name, kind, name, keywords });
const commands = [
  command('page', 'Devices'),
  command('action', 'New group', 'create'),
  command('group', 'web'),
  command('device', 'web-1', '100.64.0.17'),
  command('device', 'old-web', '100.64.0.18'),
];
const found = (text: string, most = 10): readonly string[] =>
  findCommands(commands, text, most).map(({ name }) => name);

it('shows pages and actions while nothing is typed', () => {
  expect(found('')).toEqual(['Devices', 'New group']);
});

it('puts the whole name first, then its beginning, then the rest', () => {
  expect(found('web')).toEqual(['web', 'web-1', 'old-web']);
});

it('finds by address and by several words in any order, and nothing else', () => {
  expect(found('0.17')).toEqual(['web-1']);
  expect(found('group new')).toEqual(['New group']);
  expect(found('create')).toEqual(['New group']);
  expect(found('mail')).toEqual([]);
  expect(found('web', 1)).toEqual(['web']);
});

it('a verb before the name of a device asks for that action', () => {
  expect(readVerb('isolate db-1')).toEqual({ verb: 'isolate', rest: 'db-1' });
  expect(readVerb('expl web')).toEqual({ verb: 'explain', rest: 'web' });
  expect(readVerb('flows db')).toEqual({ verb: 'flows', rest: 'db' });
  expect(readVerb('copy ')).toEqual({ verb: 'copy', rest: '' });
  for (const text of ['db-1', 'is db-1', 'isolated db-1', 'isolate', '']) expect(readVerb(text)).toBeUndefined();
});
