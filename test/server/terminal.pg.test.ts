/** Proves what the server prints on a real terminal: its start, its log, and its end by Ctrl-C. */
import { once } from 'node:events';
import { copyFile, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { useProgram } from '../lib/stage.ts';

const installed = useProgram();
const top = fileURLToPath(new URL('../..', import.meta.url));
let data: string;
beforeAll(async () => {
  data = await mkdtemp(join(tmpdir(), 'ringfence-terminal-'));
});
afterAll(() => rm(data, { recursive: true, force: true }));

const shownToken = /admin-token[^]*rf_user_/;
const shownEnd = /^(Stopping\. The server finishes the requests in flight\.\n)?Stopped\.\n$/;
const server = (...more: string[]): string[] => ['server', '--listen', '127.0.0.1:0', '--data', data, ...more];

test('Ctrl-C ends the server, its workers and its PostgreSQL with one line', async () => {
  // A person's key press reaches all of them, and npm passes it on a second time.
  const { code, stdout } = await installed.program.inTerminal(server('--workers', '2'), {
    typed: [[shownToken, '\u0003\u0003']],
  });
  const [greeting = '', end] = stdout.replaceAll('^C', '').split(/rf_user_\S+\n/);
  expect(greeting).toMatch(/^Ringfence is ready\.\n {2}UI {4}http/);
  expect(code).toBe(0);
  expect(end).toMatch(shownEnd);
});

test('Ctrl-C on `npm start` ends everything with one line too', async () => {
  // The commands of this package, with nothing to set up and nothing to build; npm itself stays silent.
  const checkout = await installed.program.as('checkout', {
    npm_config_update_notifier: 'false',
    npm_config_progress: 'false',
  });
  const at = (path: string): string => join(checkout.home, path);
  await Promise.all([mkdir(at('bin')), mkdir(at('scripts')), symlink(dirname(checkout.bundle), at('dist'))]);
  await Promise.all([
    copyFile(join(top, 'package.json'), at('package.json')),
    copyFile(join(top, 'bin/ringfence'), at('bin/ringfence')),
    writeFile(at('scripts/setup.mjs'), ''),
    writeFile(at('scripts/build.mjs'), ''),
  ]);
  const start = ['npm', 'start', '--', '--listen', '127.0.0.1:0', '--data', at('data'), '--workers', '2'];
  const { code, stdout } = await checkout.commandInTerminal(start, { typed: [[shownToken, '\u0003']] });
  const [, end] = stdout.replaceAll('^C', '').split(/rf_user_\S+\n/);
  expect(code).toBe(0);
  expect(end).toMatch(shownEnd);
});

test('the log on a terminal is short, and has requests only with --verbose', async () => {
  let answered: Promise<unknown> = Promise.resolve();
  const shown = {
    // With its end, because the terminal may show it in two parts.
    pattern: /API {3}(http:\S+)\s/,
    act: ([, url = '']: RegExpExecArray) => {
      answered = fetch(`${url}/users/me`, { headers: { authorization: 'Bearer nobody' } });
    },
  };
  const { stdout } = await installed.program.inTerminal(server('--workers', '1', '-v'), {
    shown,
    // Not the number alone, which a port may contain.
    typed: [[/users\/me 401/, '\u0003']],
  });
  await answered;
  expect(stdout).toMatch(/\n\d\d:\d\d:\d\d GET \/api\/users\/me 401 [\d.]+ ms\n/);
  expect(stdout).not.toContain('{"level"');
});

test('a port that is taken: one line with a free port to use instead, and exit 1', async () => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  const { port } = other.address() as AddressInfo;
  const args = ['server', '--listen', `127.0.0.1:${port}`, '--data', data, '--workers', '1'];
  const { code, stdout } = await installed.program.inTerminal(args);
  other.close();
  expect(code).toBe(1);
  const [, said, suggested] = /^ringfence: (.*); try --listen 127\.0\.0\.1:(\d+)\n$/.exec(stdout) ?? [];
  expect(said).toBe(`cannot listen on 127.0.0.1:${port}: another program already uses this address`);
  expect(Number(suggested) % 10).toBe(port % 10);
  expect(Number(suggested)).toBeGreaterThan(port);
});
