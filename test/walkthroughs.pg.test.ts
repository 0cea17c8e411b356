/** Follows the first ten minutes with a server, the session with curl, the recipes and the pages of questions, word for word, against the program as it is built. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { builtProgram } from './lib/built.ts';
import { mortal } from './lib/mortal.ts';
import { isShown, stepsUnder, type Step } from './lib/walkthrough.ts';

const page = (file: string): string => readFileSync(new URL(`../${file}`, import.meta.url), 'utf8');
const [start, ...steps] = stepsUnder('First ten minutes', page('docs/first-server.md'));
const curlSteps = stepsUnder('A session with curl', page('docs/api.md'));
const stepsOn = (file: string): readonly Step[] => {
  const text = page(file);
  return [...text.matchAll(/^## (.+)$/gm)].flatMap(([, heading = '']) => stepsUnder(heading, text));
};
const recipeSteps = stepsOn('docs/recipes.md');

/** The pages that answer one question each, about a fleet without agents. Monitoring and the like need more than a server. */
const questions = ['dropped-packets', 'undo', 'temporary-access', 'coming-from', 'teams'] as const;
const fleetOf = (question: (typeof questions)[number]): Step => ({
  script: `export PATH=$PWD/bin:$PATH RINGFENCE_SERVER=http://127.0.0.1:8080
export RINGFENCE_TOKEN=$(cat /tmp/ringfence-try/admin-token) RINGFENCE_ORG=${question}
mkdir ${question} && cd ${question} && ringfence org create ${question}
for device in app-1:app:1 db-1:db:2 web-1:web:3 laptop-1:laptop:4; do
  IFS=: read -r name label number <<< "$device"
  ringfence device create "$name" --public-key "$name" --label "$label" --tunnel-ip "100.64.0.$number" -q
done
${question === 'coming-from' ? '' : "ringfence group create database --applies-to label:db --in 'postgres from label:app'"}
`,
  shows: [],
});

/** The fleet that the recipes are about. */
const recipeFleet = {
  script: `export PATH=$PWD/bin:$PATH RINGFENCE_SERVER=http://127.0.0.1:8080
export RINGFENCE_TOKEN=$(cat /tmp/ringfence-try/admin-token) RINGFENCE_ORG=recipes
ringfence org create recipes
for device in app-1:app:2 db-1:db:3 forensics-1:forensics:4 monitor-1:monitoring:5 monitor-2:monitoring:6; do
  IFS=: read -r name label number <<< "$device"
  ringfence device create "$name" --public-key "$name" --label "$label" --tunnel-ip "100.64.0.$number" -q
done
ringfence org edit recipes --observe all
ringfence device create web-7 --public-key web-7 --label web --tunnel-ip 100.64.0.1 -o json > web-7.json
field() { grep "^  .$1.:" web-7.json | cut -d'"' -f4; }
curl -sSf -o web-7.flows -H "Authorization: Bearer $(field device_token)" -H 'Content-Type: application/json' \\
  "$RINGFENCE_SERVER/api/organizations/$(field organization_id)/devices/$(field id)/flows" -d '{
    "since": "'$(date -u -d '1 minute ago' +%FT%TZ)'", "until": "'$(date -u +%FT%T.%3NZ)'", "observed": "all", "not_recorded": 0,
    "tuples": [{ "direction": "in", "verdict": "admitted", "far": "100.64.0.5", "protocol": "tcp", "port": 9100, "packets": 40 }]
  }'
ringfence group create database --applies-to label:db --in 'postgres from label:app'
for user in kim ada; do ringfence user create "$user"; ringfence member add "$user"; done
ringfence device move app-1 --user kim -q
`,
  shows: [],
};

describe('the first ten minutes', () => {
  let folder: string;
  let server: ChildProcess;
  let said = '';
  let address = '';

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'rf-readme-'));
    const bundle = join(await builtProgram(), 'ringfence.mjs');
    await mkdir(join(folder, 'bin'));
    const command = `#!/bin/sh\nexec '${process.execPath}' '${bundle}' "$@"\n`;
    await writeFile(join(folder, 'bin/ringfence'), command, { mode: 0o755 });
    // What `npm start` runs after set-up and build, on a free port.
    const program = [bundle, 'server', '--listen', '127.0.0.1:0'];
    server = spawn(...mortal(process.execPath, program), {
      env: { ...process.env, RINGFENCE_DATA: join(folder, 'data') },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const listening = new Promise<string>((resolve, reject) => {
      const read = (chunk: Buffer): void => {
        said += chunk.toString();
        const found = /http:\/\/(127\.0\.0\.1:\d+)\/api/.exec(said)?.[1];
        if (found !== undefined) resolve(found);
      };
      server.stdout?.on('data', read);
      server.stderr?.on('data', read);
      server.once('exit', (code) => reject(new Error(`the server ended with ${code}: ${said}`)));
    });
    address = await listening;
  });

  afterAll(async () => {
    if (server.exitCode === null) {
      server.kill('SIGTERM');
      await once(server, 'exit');
    }
    await rm(folder, { recursive: true, force: true });
  });

  it('begin with a start on a data folder of its own', () => {
    expect(start?.script).toBe('RINGFENCE_DATA=/tmp/ringfence-try npm start\n');
    expect(steps.length).toBeGreaterThan(3);
  });

  const walks: readonly (readonly [string, readonly Step[]])[] = [
    ['by the command line', steps],
    ['by curl', curlSteps],
    ['and so do the recipes', [recipeFleet, ...recipeSteps]],
    ...questions.map((name) => [`and so does ${name}`, [fleetOf(name), ...stepsOn(`docs/${name}.md`)]] as const),
  ];
  it.each(walks)('show what they say they show, %s', async (_, pageSteps) => {
    const mark = '----- end of step -----';
    expect(pageSteps.length).toBeGreaterThan(1);
    const script = pageSteps
      .map((step) => `${step.script}\necho '${mark}'\n`)
      .join('')
      .replaceAll('127.0.0.1:8080', address)
      // The fleet of the recipes has no past.
      .replaceAll('--at 2026-11-09', '--at now')
      // No agent runs there: a trial is in force on no device, which is code 6. How to go on and how to undo are notes.
      .replaceAll('--confirm-within 10m', '--confirm-within 10m 2> notes || [ $? = 6 ]')
      .replaceAll('apply web.yaml --yes', 'apply web.yaml --yes 2> notes')
      .replaceAll('/tmp/ringfence-try', join(folder, 'data'))
      .replaceAll('/var/lib/ringfence-new', join(folder, 'new'))
      .replaceAll('/var/lib/ringfence', join(folder, 'data'))
      .replaceAll('$PWD/bin', join(folder, 'bin'));
    const env = Object.entries(process.env).filter(([variable]) => !variable.startsWith('RINGFENCE_'));
    const shell = spawn('bash', ['-euo', 'pipefail', '-c', script], {
      cwd: folder,
      env: { ...Object.fromEntries(env), HOME: folder },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    let errors = '';
    shell.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
    shell.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
    const [code] = await once(shell, 'close');
    // Besides its output, a command may say what to look at and how to go back.
    const unexpected = errors.replaceAll(/^(?:To undo it: |Note: |Warning: | {2}[-+~] ).*\n/gm, '');
    expect({ code, unexpected }).toEqual({ code: 0, unexpected: '' });
    const outputs = output.split(mark);
    for (const [i, step] of pageSteps.entries()) {
      for (const line of step.shows) {
        expect(isShown(line, outputs[i] ?? ''), `step ${i + 1} shows ${line}\nbut gave ${outputs[i]}`).toBe(true);
      }
    }
  });
});
