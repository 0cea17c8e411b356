/** Runs every curl example of docs/watch-protocol.md, and compares what it prints with what the page says. */
import { spawn } from 'node:child_process';
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

/** `…` stands for any text. */
const pattern = (line: string): RegExp =>
  new RegExp(`^${line.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replaceAll('…', '.*')}$`);

/** Runs a command until it has printed so many lines, or ends by itself. */
async function run(command: string, env: NodeJS.ProcessEnv, lines: number): Promise<readonly string[]> {
  const child = spawn(...mortal('bash', ['-c', `exec ${command}`]), { env: { ...process.env, ...env } });
  let out = '';
  let err = '';
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()));
  const over = new Promise<void>((resolve) => child.on('close', () => resolve()));
  const printed = (): readonly string[] => out.split('\n').filter((line) => line !== '');
  for (let i = 0; i < 1_000 && printed().length < lines && child.exitCode === null; i += 1) await sleep(10);
  // Anything more that comes at once would be too much.
  await sleep(100);
  child.kill();
  await over;
  if (err !== '') throw new Error(err);
  return printed();
}

test('the examples of the protocol page print what the page says (reference 4.3)', async () => {
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
  for (const { command, lines } of examples) {
    const printed = await run(command, env, lines.length);
    expect(printed).toHaveLength(lines.length);
    for (const [index, line] of lines.entries()) expect(printed[index]).toMatch(pattern(line));
  }
});
