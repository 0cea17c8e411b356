/** Proves that a log line stays one line and cannot be forged by the names and messages in it. */
import { expect, test } from 'vitest';
import { lineLog } from './log.ts';

function logged(journal: boolean): { lines: string[]; log: ReturnType<typeof lineLog> } {
  const lines: string[] = [];
  return { lines, log: lineLog({ write: (line) => lines.push(line), journal, least: 'info' }) };
}

test('a line carries the journal’s priority, or a word on a terminal, and its fields', () => {
  const { lines, log } = logged(true);
  log('warn', 'careful', { group: 'web', why: 'two words', none: undefined });
  log('debug', 'left out');
  expect(lines).toEqual(['<4>careful group=web why="two words"\n']);
  const terminal = logged(false);
  terminal.log('error', 'broken');
  expect(terminal.lines).toEqual(['error: broken\n']);
});

test.each([
  ['a line break', 'a\nerror: forged', 'a error: forged'],
  ['an escape sequence', 'a\u001b[2Jb', 'a\\u001b[2Jb'],
  ['a C1 control character', 'a\u009b2Jb', 'a\\u009b2Jb'],
  ['a reversed direction', 'a\u202eb', 'a\\u202eb'],
])('%s in a message is shown, not done', (_, message, shown) => {
  const { lines, log } = logged(false);
  log('info', message);
  expect(lines).toEqual([`info: ${shown}\n`]);
});

test.each(['a\nb', 'a\u001b[2Jb', 'a\u009b2Jb', 'a\u202eb', 'a\u2028b'])('%j in a field is shown, not done', (text) => {
  const { lines, log } = logged(false);
  log('info', 'x', { name: text });
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatch(/^[\x20-\x7e]+\n$/);
});
