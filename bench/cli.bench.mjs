/** Measures how long a person waits for the command line: help, and first answers of a local server, beside a bare `node -e 0`. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildProgram } from '../scripts/build-program.mjs';

const rounds = 25;
const folder = await mkdtemp(join(tmpdir(), 'ringfence-bench-'));

/** @param {readonly string[]} args @param {Record<string, string>} env */
async function time(args, env) {
  const start = process.hrtime.bigint();
  const child = spawn(process.execPath, args, {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}`);
  return Number(process.hrtime.bigint() - start) / 1e6;
}

/** @param {readonly number[]} values */
const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

/** @returns {number[]} */
const noTimes = () => [];

/** @param {number} value */
const shown = (value) => value.toFixed(1).padStart(8);

/** @type {import('node:child_process').ChildProcess | undefined} */
let server;
try {
  await buildProgram({ outdir: join(folder, 'dist') });
  const program = join(folder, 'dist/ringfence.mjs');
  const data = join(folder, 'data');
  const running = spawn(process.execPath, [program, 'server', '--listen', '127.0.0.1:0', '--data', data]);
  server = running;
  let said = '';
  const url = await new Promise((resolve, reject) => {
    const read = (/** @type {Buffer} */ chunk) => {
      said += chunk.toString();
      const found = /(http:\/\/127\.0\.0\.1:\d+)\/api/.exec(said)?.[1];
      if (found !== undefined) resolve(found);
    };
    running.stdout.on('data', read);
    running.stderr.on('data', read);
    running.once('exit', () => reject(new Error(`the server ended: ${said}`)));
  });
  const token = (await readFile(join(data, 'admin-token'), 'utf8')).trim();
  const env = { HOME: folder, RINGFENCE_SERVER: url, RINGFENCE_TOKEN: token };
  const jobs = [
    { name: 'node -e 0 (floor)', goal: '', args: ['-e', '0'] },
    { name: 'ringfence --help', goal: '< 80', args: [program, '--help'] },
    { name: 'ringfence group allow --help', goal: '< 80', args: [program, 'group', 'allow', '--help'] },
    { name: 'ringfence whoami', goal: '< 120', args: [program, 'whoami'] },
    { name: 'ringfence group list', goal: '< 120', args: [program, 'group', 'list'] },
    { name: 'ringfence group list -o yaml', goal: '< 120', args: [program, 'group', 'list', '-o', 'yaml'] },
    { name: 'ringfence names (completion)', goal: '< 120', args: [program, 'names', '--', 'group', 'show'] },
  ].map((job) => ({ ...job, times: noTimes() }));
  // Turn by turn, so that a busy moment of the machine meets all of them.
  for (let round = -2; round < rounds; round += 1) {
    for (const { args, times } of jobs) {
      const took = await time(args, env);
      if (round >= 0) times.push(took);
    }
  }
  const floor = median(jobs[0]?.times ?? []);
  console.log(
    `Milliseconds, ${rounds} runs each, turn by turn. On a busy machine the floor grows too: look at the ratio.\n`,
  );
  console.log(`| command                        | goal  |     best |   median |    worst | over the floor | × floor |`);
  console.log(`|--------------------------------|-------|---------:|---------:|---------:|---------------:|--------:|`);
  for (const { name, goal, times } of jobs) {
    const middle = median(times);
    const figures = [Math.min(...times), middle, Math.max(...times)].map(shown).join(' | ');
    console.log(
      `| ${name.padEnd(30)} | ${goal.padEnd(5)} | ${figures} | ${(middle - floor).toFixed(1).padStart(14)} | ${(middle / floor).toFixed(2).padStart(7)} |`,
    );
  }
} finally {
  if (server !== undefined && server.exitCode === null) {
    server.kill('SIGTERM');
    await once(server, 'exit');
  }
  await rm(folder, { recursive: true, force: true });
}
