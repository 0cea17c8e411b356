/** Proves the log format for a terminal. */
import { expect, test } from 'vitest';
import { createLog } from './log.ts';
import { terminalLog } from './terminal-log.ts';

function logged(verbose: boolean): readonly string[] {
  const lines: string[] = [];
  const log = createLog('info', terminalLog({ write: (text) => lines.push(text), verbose }));
  log.info({ method: 'GET', path: '/api/me', status: 200, ms: 1.5, req: 'x' }, 'request');
  log.warn({ err: new Error('no\u001B[31m answer') }, 'a database connection was lost');
  log.debug('not at this level');
  return lines;
}

test('a terminal shows one short line for each entry, without requests, stacks and control characters', () => {
  expect(logged(false)).toEqual([
    expect.stringMatching(/^\d\d:\d\d:\d\d warn  a database connection was lost: no\\u001b\[31m answer\n$/),
  ]);
});

test('with --verbose it also shows requests, and where an error happened', () => {
  const [request, warning = ''] = logged(true);
  expect(request).toMatch(/^\d\d:\d\d:\d\d GET \/api\/me 200 1.5 ms\n$/);
  expect(warning).toMatch(/answer\n +at .*terminal-log\.test\.ts/);
});

test('a cause that says the same is not said twice', () => {
  const lines: string[] = [];
  const log = createLog('info', terminalLog({ write: (text) => lines.push(text), verbose: false }));
  log.warn({ err: new Error('no room') }, 'no room');
  expect(lines).toEqual([expect.stringMatching(/ warn {2}no room\n$/)]);
});
