/** Runs every example of docs/client.md as a program of its own, and compares what it prints with what the page says. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { clientInto } from '../lib/built.ts';
import { watching } from '../lib/watching.ts';

const top = new URL('../../', import.meta.url);
const page = readFileSync(new URL('docs/client.md', top), 'utf8');
const world = watching();

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rf-client-docs-'));
  const installed = join(folder, 'node_modules/ringfence');
  await mkdir(installed, { recursive: true });
  await writeFile(join(installed, 'package.json'), readFileSync(new URL('package.json', top)));
  await clientInto(join(installed, 'dist'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** A program followed by its output. */
const examples = [...page.matchAll(/```js\n([^`]*)```\n\n```text\n([^`]*)```/g)].map(([, code = '', text = '']) => ({
  code,
  text,
}));

test('the examples of the client page print what the page says', async () => {
  expect(examples).toHaveLength([...page.matchAll(/^```js$/gm)].length);
  expect(examples.length).toBeGreaterThanOrEqual(4);
  const place = await world.place();
  const env = {
    ...process.env,
    RINGFENCE_SERVER: world.server.url,
    RINGFENCE_TOKEN: place.member.token,
    RINGFENCE_ORG: place.org,
  };
  for (const [index, { code, text }] of examples.entries()) {
    const file = join(folder, `example-${index}.mjs`);
    await writeFile(file, code);
    const { stdout } = await promisify(execFile)(process.execPath, [file], { env, timeout: 60_000 });
    expect(stdout).toBe(text);
  }
});
