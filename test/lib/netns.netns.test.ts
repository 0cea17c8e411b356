/** Proves that namespaces are private, leave nothing behind, and say what is missing where they cannot be made. */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from './eventually.ts';
import { CommandFailed, connect, Namespace } from './netns.ts';
import { isRunning } from './processes.ts';

describe('a namespace', () => {
  test('has interfaces of its own, and its /sys shows them', async () => {
    const [a, b] = await Promise.all([Namespace.create(), Namespace.create()]);
    try {
      await connect(
        { namespace: a, name: 'cable0', addresses: ['10.5.0.1/24'] },
        { namespace: b, name: 'cable0', addresses: ['10.5.0.2/24'] },
      );
      const { stdout } = await a.run(['ls', '/sys/class/net']);
      expect(stdout.split('\n').filter(Boolean).toSorted()).toEqual(['cable0', 'lo']);
    } finally {
      await Promise.all([a.close(), b.close()]);
    }
  });

  test('ends with every process in it', async () => {
    const namespace = await Namespace.create();
    const child = namespace.spawn(['sleep', '600'], { stdio: 'ignore' });
    await namespace.close();
    expect(child.signalCode).toBe('SIGKILL');
    expect(existsSync(`/proc/${namespace.pid}`)).toBe(false);
  });

  test('tells what a failed command said, and the input it was given', async () => {
    const namespace = await Namespace.create();
    try {
      const failed = namespace.run(['nft', '-f', '-'], 'add nonsense\n');
      await expect(failed).rejects.toThrow(CommandFailed);
      await expect(failed).rejects.toThrow(/syntax error[\s\S]*--- input\nadd nonsense/);
      expect((await namespace.attempt(['false'])).code).toBe(1);
    } finally {
      await namespace.close();
    }
  });
});

describe('a process that makes a namespace', () => {
  let folder: string;
  let script: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'ringfence-netns-'));
    script = join(folder, 'main.mjs');
    const netns = fileURLToPath(new URL('netns.ts', import.meta.url));
    await build({
      entryPoints: [netns],
      bundle: true,
      platform: 'node',
      format: 'esm',
      outfile: join(folder, 'netns.mjs'),
    });
    const lines = [
      `import { Namespace } from './netns.mjs';`,
      `if (process.argv[2] === 'as nobody') process.setuid(65534);`,
      `try { console.log((await Namespace.create()).pid); } catch (error) { console.log(error.message); process.exit(1); }`,
      `setInterval(() => {}, 1000);`,
    ];
    await writeFile(script, lines.join('\n'));
  });
  afterAll(() => rm(folder, { recursive: true }));

  /** Starts it; gives the process and its first words. */
  async function start(...args: readonly string[]): Promise<{ child: ReturnType<typeof spawn>; said: string }> {
    const child = spawn(process.execPath, [script, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
    const said = await new Promise<string>((resolve, reject) => {
      child.stdout?.once('data', (text: Buffer) => resolve(text.toString().trim()));
      child.once('close', (code) => reject(new Error(`ended with ${code} and said nothing`)));
    });
    return { child, said };
  }

  test('leaves nothing behind, not even when it is killed', async () => {
    const { child, said: holder } = await start();
    expect(isRunning(Number(holder))).toBe(true);
    child.kill('SIGKILL');
    await eventually('the holder ends', () => !isRunning(Number(holder)));
  });

  test('without the rights to, fails and says so', async () => {
    const { said } = await start('as nobody');
    expect(said).toMatch(/^the network lab cannot be built: not root/);
  });
});
