/**
 * Measures how long a person waits for the command line: help, and first answers of a local server over TLS, with the runtime that the packages bring along, by which goals are judged, and with this machine's;
 * each beside that runtime starting for nothing, and asking the server once and writing nothing.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { runtimeVersion } from '../scripts/packaging/runtime.mjs';
import { median, showGoals } from './lib/goals.ts';
import { shippedRuntime } from './lib/shipped-runtime.ts';
import { figure, table } from './lib/table.ts';
import { makeCertificate } from './lib/tls.ts';
import { buildOurs, root } from './watch/tools.ts';

const rounds = 15;
const folder = await mkdtemp(join(tmpdir(), 'ringfence-bench-'));
/** Not among temporary files, to which others may write: there the program keeps nothing of what was compiled. */
const home = await mkdtemp(join(homedir(), '.ringfence-bench-'));

async function time(node: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const start = performance.now();
  const child = spawn(node, args, {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}`);
  return performance.now() - start;
}

/** As it is installed: a small program that starts what was built. */
async function installOurs(): Promise<string> {
  buildOurs(folder);
  const program = join(folder, 'bin/ringfence.mjs');
  await mkdir(join(folder, 'bin'));
  await copyFile(join(root, 'bin/ringfence'), program);
  return program;
}

/** The least that an answer can take on Node: one request, its body read as JSON. */
const ask = `const { RINGFENCE_SERVER: url, RINGFENCE_TOKEN: token } = process.env;
require('node:https').get(url + '/api/users/me', { headers: { authorization: 'Bearer ' + token } }, (answer) => {
  let text = '';
  answer.setEncoding('utf8').on('data', (part) => (text += part)).on('end', () => JSON.parse(text));
});`;

interface Job {
  readonly name: string;
  readonly args: readonly string[];
  /** Milliseconds. */
  readonly goal?: number;
}

let server: ChildProcess | undefined;
try {
  const program = await installOurs();
  const data = join(folder, 'data');
  const tls = makeCertificate(folder);
  const serverArguments = ['--listen', '127.0.0.1:0', '--data', data, ...tls.serverArguments];
  const running = spawn(process.execPath, [program, 'server', ...serverArguments]);
  server = running;
  let said = '';
  const url = await new Promise<string>((resolve, reject) => {
    const read = (chunk: Buffer): void => {
      said += chunk.toString();
      const found = /(https:\/\/127\.0\.0\.1:\d+)\/api/.exec(said)?.[1];
      if (found !== undefined) resolve(found);
    };
    running.stdout.on('data', read);
    running.stderr.on('data', read);
    running.once('exit', () => reject(new Error(`the server ended: ${said}`)));
  });
  const token = (await readFile(join(data, 'admin-token'), 'utf8')).trim();
  const env = { HOME: home, RINGFENCE_SERVER: url, RINGFENCE_TOKEN: token, ...tls.environment };
  // A list of one has nothing to put in order.
  await time(process.execPath, [program, 'group', 'create', 'web', '--in', 'https'], env);
  const packaged = shippedRuntime(folder);
  const ours = (command: string, goal: number): Job => ({
    name: `ringfence ${command}`,
    args: [program, ...command.split(' ')],
    goal,
  });
  const jobs: readonly Job[] = [
    { name: 'node -e 0 (floor)', args: ['-e', '0'] },
    { name: 'one request by node:https (floor)', args: ['-e', ask] },
    ours('--help', 80),
    ours('group allow --help', 80),
    ours('whoami', 120),
    ours('group list', 120),
    ours('group list -o yaml', 120),
    ours('names -- group show', 120),
  ];
  const runtimes = [
    { runtime: `Node ${runtimeVersion}, packaged`, node: packaged, shipped: true },
    { runtime: `Node ${process.versions.node}, of this machine`, node: process.execPath, shipped: false },
  ].map((one) => ({ ...one, timed: jobs.map((job) => ({ ...job, times: [] as number[] })) }));
  // Turn by turn, so that a busy moment of the machine meets all of them.
  for (let round = -2; round < rounds; round += 1)
    for (const { node, timed } of runtimes)
      for (const { args, times } of timed) {
        const took = await time(node, args, env);
        if (round >= 0) times.push(took);
      }
  console.log(
    `Milliseconds, ${rounds} runs each, turn by turn. On a busy machine the floor grows too: look at the ratio.\n`,
  );
  const floorOf = (timed: readonly { readonly times: readonly number[] }[], index = 0): number =>
    median(timed[index]?.times ?? []);
  for (const { runtime: node, timed } of runtimes) {
    const floor = floorOf(timed);
    console.log(
      table(
        [node, 'best', 'median', 'worst', 'over the floor', '× floor'],
        timed.map(({ name: command, times }) => {
          const middle = median(times);
          return [command, Math.min(...times), middle, Math.max(...times), middle - floor, middle / floor];
        }),
      ),
    );
  }
  showGoals(
    runtimes
      .filter(({ shipped }) => shipped)
      .flatMap(({ timed }) =>
        timed.flatMap(({ name, goal, times }) =>
          goal === undefined
            ? []
            : [
                {
                  what: `${name}, median`,
                  goal,
                  measured: median(times),
                  unit: 'ms',
                  beside: `node -e 0: ${figure(floorOf(timed))} ms; one request by node:https: ${figure(floorOf(timed, 1))}`,
                },
              ],
        ),
      ),
  );
} finally {
  if (server !== undefined && server.exitCode === null) {
    server.kill('SIGTERM');
    await once(server, 'exit');
  }
  for (const made of [folder, home]) await rm(made, { recursive: true, force: true });
}
