/** Follows docs/first-fleet.md word for word: the built program, real devices, real packets. */
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Program, Run } from './lib/run.ts';
import { isShown, stepsUnder } from './lib/walkthrough.ts';

const headings = ['Two devices', 'A port', 'A change, and back'];
/** The page speaks of the lab; this one is ours alone. */
const name = `page-${process.pid}`;
const lab = fileURLToPath(new URL('../dev/lab/lab', import.meta.url));
const mark = '----- end of step -----';
/** How to undo a change set: a hint on stderr. */
const undoHint = /^To undo it: ringfence undo \S+\n/gm;
/** What `--wait` says in the end, which is all else that the page may say on stderr. */
const inForce = /^Revision \d+ (is in force on (\d) of \2 devices?|concerns no device with an agent)\.\n/gm;

let program: Program;
let folder: string;
let shell: ChildProcess | undefined;
beforeAll(async () => {
  program = await Program.build();
  folder = await mkdtemp(join(tmpdir(), 'rf-first-fleet-'));
  await mkdir(join(folder, 'bin'));
  for (const [word, file] of [
    ['ringfence', program.file],
    ['lab', lab],
  ]) {
    const command = `#!/bin/sh\nexec '${process.execPath}' '${file}' "$@"\n`;
    await writeFile(join(folder, 'bin', String(word)), command, { mode: 0o755 });
  }
});
afterAll(async () => {
  // Whatever of the page still runs must not run for ever.
  if (shell?.pid !== undefined && shell.exitCode === null) process.kill(-shell.pid, 'SIGKILL');
  await new Run(lab, ['down', name], {}).ended;
  await program?.close();
  await rm(folder ?? '', { recursive: true, force: true });
});

test('the session of the first fleet shows what it says it shows', { timeout: 600_000 }, async () => {
  const page = await readFile(new URL('../docs/first-fleet.md', import.meta.url), 'utf8');
  const steps = headings.flatMap((heading) => stepsUnder(heading, page));
  expect(steps.length).toBeGreaterThan(8);
  const kept = Object.entries(process.env).filter(([variable]) => !variable.startsWith('RINGFENCE_'));
  const script = steps.map((step) => `${step.script}\necho '${mark}'\n`).join('');
  shell = spawn('bash', ['-euo', 'pipefail', '-c', script], {
    cwd: folder,
    env: {
      ...Object.fromEntries(kept),
      PATH: `${join(folder, 'bin')}${delimiter}${process.env['PATH'] ?? ''}`,
      HOME: folder,
      RINGFENCE_LAB_NAME: name,
      RINGFENCE_LAB_PROGRAM: program.file,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  let output = '';
  let errors = '';
  shell.stdout?.on('data', (chunk: Buffer) => (output += chunk.toString()));
  shell.stderr?.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  const [code] = await once(shell, 'close');
  const unexpected = errors.replaceAll(inForce, '').replaceAll(undoHint, '');
  expect({ code, unexpected, output: code === 0 ? '' : output }).toEqual({ code: 0, unexpected: '', output: '' });
  const waits = steps.flatMap(({ script: text }) => text.match(/--wait$/gm) ?? []).length;
  expect([waits > 4, errors.match(inForce)?.length]).toEqual([true, waits]);
  const outputs = output.split(mark);
  for (const [i, step] of steps.entries()) {
    for (const line of step.shows) {
      expect(isShown(line, outputs[i] ?? ''), `step ${i + 1} shows ${line}\nbut gave ${outputs[i]}`).toBe(true);
    }
  }
});
