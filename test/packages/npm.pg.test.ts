/** Proves the npm package: packed and installed into an empty prefix, it is the whole program and the client library. */
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { mortal } from '../lib/mortal.ts';

const top = fileURLToPath(new URL('../..', import.meta.url));
const token = 'operator-token-0123456789-0123456789';
const folder = mkdtempSync(join(tmpdir(), 'ringfence-npm-'));
const prefix = join(folder, 'prefix');
const program = join(prefix, 'bin/ringfence');
const installed = join(prefix, 'lib/node_modules/ringfence');
const npm = (...args: string[]): string =>
  execFileSync('npm', [...args, '--prefer-offline', '--no-audit', '--no-fund'], { cwd: top, encoding: 'utf8' });

beforeAll(() => {
  if (!existsSync(join(top, 'dist/NOTICES.txt'))) npm('run', '--silent', 'build');
  npm('pack', '--silent', '--ignore-scripts', '--pack-destination', folder);
  const file = readdirSync(folder).find((name) => name.endsWith('.tgz')) ?? '';
  mkdirSync(prefix);
  npm('install', '--global', '--prefix', prefix, join(folder, file));
}, 300_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('it brings the built program and nothing to build: one dependency, no maps, no sources', () => {
  expect(readdirSync(join(installed, 'node_modules')).filter((name) => !name.startsWith('.'))).toEqual(['typebox']);
  const files = readdirSync(installed, { recursive: true, encoding: 'utf8' });
  for (const wanted of ['dist/ringfence.mjs', 'dist/agent.mjs', 'dist/ui/index.html', 'dist/NOTICES.txt', 'LICENSE']) {
    expect(files).toContain(wanted);
  }
  expect(files.filter((file) => /^(src|test|bench|scripts)\b|^dist\/.*\.map$/.test(file))).toEqual([]);
});

test('it runs the server with its web UI, and the command line', async () => {
  const data = join(folder, 'data');
  const env = { PATH: process.env['PATH'] ?? '', HOME: folder, RINGFENCE_ADMIN_TOKEN: token };
  const args = ['server', '--data', data, '--listen', '127.0.0.1:0', '--workers', '1'];
  const server = spawn(...mortal(process.execPath, [program, ...args]), { env, stdio: ['ignore', 'pipe', 'ignore'] });
  const ended = new Promise((resolve) => server.on('close', resolve));
  try {
    const url = await new Promise<string>((resolve, reject) => {
      let said = '';
      server.stdout.on('data', (chunk: Buffer) => {
        said += chunk.toString();
        const [, found] = /API {3}(\S+)\/api/.exec(said) ?? [];
        if (found !== undefined) resolve(found);
      });
      server.on('close', () => reject(new Error(`the server ended: ${said}`)));
    });
    const page = await fetch(`${url}/ui/`);
    expect(await page.text()).toContain('<script');
    const cli = { ...env, RINGFENCE_SERVER: url, RINGFENCE_TOKEN: token };
    expect(execFileSync(process.execPath, [program, 'org', 'list'], { env: cli, encoding: 'utf8' })).toContain('admin');
  } finally {
    server.kill('SIGTERM');
    await ended;
  }
});

test('it runs the agent, which says what it lacks', () => {
  const agent = (): string => execFileSync(process.execPath, [program, 'agent'], { encoding: 'utf8', stdio: 'pipe' });
  expect(agent).toThrow('the agent needs --server');
});

test('it is the client library, with its types', () => {
  const project = join(folder, 'project');
  mkdirSync(join(project, 'node_modules'), { recursive: true });
  execFileSync('ln', ['-s', installed, join(project, 'node_modules/ringfence')]);
  const script =
    "import { Client } from 'ringfence/client'; console.log(typeof new Client({ url: 'http://x', token: 'y' }).devices)";
  const shown = execFileSync(process.execPath, ['--input-type=module', '-e', script], {
    cwd: project,
    encoding: 'utf8',
  });
  expect(shown.trim()).toBe('object');
  const { exports } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8')) as {
    readonly exports: Readonly<Record<string, { readonly types: string }>>;
  };
  expect(existsSync(join(installed, exports['./client']?.types ?? ''))).toBe(true);
});
