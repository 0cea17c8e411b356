/** Measures how long a person waits for the command line: help, and first answers of a local server, beside a bare `node -e 0`. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { median, showGoals } from './lib/goals.ts';
import { figure, table } from './lib/table.ts';
import { buildOurs } from './watch/tools.ts';

const rounds = 25;
const folder = await mkdtemp(join(tmpdir(), 'ringfence-bench-'));

async function time(args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const start = performance.now();
  const child = spawn(process.execPath, args, {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}`);
  return performance.now() - start;
}

interface Job {
  readonly name: string;
  readonly args: readonly string[];
  /** Milliseconds. */
  readonly goal?: number;
}

let server: ChildProcess | undefined;
try {
  const program = buildOurs(folder);
  const data = join(folder, 'data');
  const running = spawn(process.execPath, [program, 'server', '--listen', '127.0.0.1:0', '--data', data]);
  server = running;
  let said = '';
  const url = await new Promise<string>((resolve, reject) => {
    const read = (chunk: Buffer): void => {
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
  const ours = (command: string, goal: number): Job => ({
    name: `ringfence ${command}`,
    args: [program, ...command.split(' ')],
    goal,
  });
  const jobs = [
    { name: 'node -e 0 (floor)', args: ['-e', '0'] },
    ours('--help', 80),
    ours('group allow --help', 80),
    ours('whoami', 120),
    ours('group list', 120),
    ours('group list -o yaml', 120),
    ours('names -- group show', 120),
  ].map((job: Job) => ({ ...job, times: [] as number[] }));
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
  console.log(
    table(
      ['command', 'best', 'median', 'worst', 'over the floor', '× floor'],
      jobs.map(({ name, times }) => {
        const middle = median(times);
        return [name, Math.min(...times), middle, Math.max(...times), middle - floor, middle / floor];
      }),
    ),
  );
  const beside = `node -e 0: ${figure(floor)} ms`;
  showGoals(
    jobs.flatMap(({ name, goal, times }) =>
      goal === undefined ? [] : [{ what: `${name}, median`, goal, measured: median(times), unit: 'ms', beside }],
    ),
  );
} finally {
  if (server !== undefined && server.exitCode === null) {
    server.kill('SIGTERM');
    await once(server, 'exit');
  }
  await rm(folder, { recursive: true, force: true });
}
