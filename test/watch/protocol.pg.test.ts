/** Runs every curl example of docs/watch-protocol.md, and compares what it prints with what the page says. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { mortal } from '../lib/mortal.ts';
import { watching } from '../lib/watching.ts';

const page = readFileSync(new URL('../../docs/watch-protocol.md', import.meta.url), 'utf8');
const world = watching();

interface Example {
  readonly command: string;
  readonly lines: readonly string[];
}

/** A shell block followed by a text block is an example with its output. */
const examples: readonly Example[] = [...page.matchAll(/```sh\n([^`]*)```\n\n```text\n([^`]*)```/g)].map(
  ([, command = '', text = '']) => ({ command, lines: text.trimEnd().split('\n') }),
);

/** `…` matches any text. */
const pattern = (line: string): RegExp =>
  new RegExp(`^${line.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replaceAll('…', '.*')}$`);

/** A command under way, and the lines that it has printed. */
class Running {
  readonly #child: ChildProcess;
  readonly ended: Promise<void>;
  #out = '';
  #err = '';
  over = false;

  constructor(command: string, env: NodeJS.ProcessEnv) {
    const child = spawn(...mortal('bash', ['-c', `exec ${command}`]), { env: { ...process.env, ...env } });
    child.stdout.on('data', (chunk: Buffer) => (this.#out += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (this.#err += chunk.toString()));
    this.ended = once(child, 'close').then(() => void (this.over = true));
    this.#child = child;
  }

  get lines(): readonly string[] {
    if (this.#err !== '') throw new Error(this.#err);
    return this.#out.split('\n').filter((line) => line !== '');
  }

  async until(what: string, so: () => boolean): Promise<void> {
    for (const end = Date.now() + 60_000; !so(); await sleep(10)) {
      if (Date.now() > end) throw new Error(`waited for ${what} in vain; printed: ${this.lines.join('\n')}`);
    }
  }

  async stop(): Promise<void> {
    this.#child.kill();
    await this.ended;
  }
}

test('the examples of the protocol page print what the page says, and nothing more (reference 4.3)', async () => {
  const place = await world.place();
  const gate = await world.newDevice(place, { hostname: 'gate' });
  await world.newDevice(place, { hostname: 'shop' });
  const old = await world.newDevice(place, { hostname: 'old' });
  await world.remove(place, old.id);
  expect(gate.revision).toBe(2);
  const env = {
    RINGFENCE_SERVER: world.server.url,
    RINGFENCE_TOKEN: place.member.token,
    RINGFENCE_ORG: place.org,
  };
  expect(examples.length).toBeGreaterThanOrEqual(4);
  const running = examples.map((example) => ({ ...example, run: new Running(example.command, env) }));
  for (const { run, lines } of running) {
    await run.until(`${lines.length} lines`, () => run.lines.length >= lines.length || run.over);
  }
  // What comes next on every stream is this change: whatever was printed too much has come before it.
  await world.newDevice(place, { hostname: 'the mark' });
  for (const { run, lines } of running) {
    await run.until('the mark', () => run.over || run.lines.some((line) => line.includes('the mark')));
    const printed = run.lines.filter((line) => !line.includes('the mark'));
    expect(printed).toHaveLength(lines.length);
    for (const [index, line] of lines.entries()) expect(printed[index]).toMatch(pattern(line));
    await run.stop();
  }
});
