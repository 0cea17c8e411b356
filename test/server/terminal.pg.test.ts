/** Proves what the server prints on a real terminal: its start, its log, and its end by Ctrl-C. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { useProgram } from '../lib/stage.ts';

const installed = useProgram();
let data: string;
beforeAll(async () => {
  data = await mkdtemp(join(tmpdir(), 'ringfence-terminal-'));
});
afterAll(() => rm(data, { recursive: true, force: true }));

const server = (...more: string[]): string[] => ['server', '--listen', '127.0.0.1:0', '--data', data, ...more];

test('Ctrl-C ends the server, its workers and its PostgreSQL with one line', async () => {
  // A person's key press reaches all of them, and npm passes it on a second time.
  const { code, stdout } = await installed.program.inTerminal(server('--workers', '2'), {
    typed: [[/admin-token[^]*rf_user_/, '\u0003\u0003']],
  });
  const [greeting = '', end] = stdout.replaceAll('^C', '').split(/rf_user_\S+\n/);
  expect(greeting).toMatch(/^Ringfence is ready\.\n {2}UI {4}http/);
  expect(code).toBe(0);
  expect(end).toMatch(/^(Stopping\. The server finishes the requests in flight\.\n)?Stopped\.\n$/);
});

test('the log on a terminal is short, and has requests only with --verbose', async () => {
  let answered: Promise<unknown> = Promise.resolve();
  const shown = {
    pattern: /API {3}(http:\S+)/,
    act: ([, url = '']: RegExpExecArray) => {
      answered = fetch(`${url}/users/me`, { headers: { authorization: 'Bearer nobody' } });
    },
  };
  const { stdout } = await installed.program.inTerminal(server('--workers', '1', '-v'), {
    shown,
    typed: [[/401/, '\u0003']],
  });
  await answered;
  expect(stdout).toMatch(/\n\d\d:\d\d:\d\d GET \/api\/users\/me 401 [\d.]+ ms\n/);
  expect(stdout).not.toContain('{"level"');
});
