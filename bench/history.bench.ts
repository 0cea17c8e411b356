/**
 * Measures what the history adds to a write, by processor time of the store and its PostgreSQL: this program beside the same one whose
 * statements keep no state. Both have a database of their own and take turns, so that a busy machine is busy for both.
 */
import { build, type Plugin } from 'esbuild';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import { median, showGoals } from './lib/goals.ts';
import { ProcessorMeter, sumOf } from './lib/processor-time.ts';
import { figure, table } from './lib/table.ts';

const rounds = Number(process.env['RINGFENCE_BENCH_ROUNDS'] ?? 7);
const folder = join(process.cwd(), 'node_modules', '.cache', 'ringfence-bench', `history-${process.pid}`);

const kinds = [
  { name: "a group's rules, 64 writers", order: 'group 64 3200' },
  { name: "a group's rules, 1 writer", order: 'group 1 600' },
  { name: "a device's hostname, 64 writers", order: 'device 64 3200' },
  { name: "a device's hostname, 1 writer", order: 'device 1 600' },
] as const;

/** The statements read nothing where they would keep what they wrote. */
const withoutHistory: Plugin = {
  name: 'without history',
  setup(builder) {
    builder.onLoad({ filter: /store\/write\/history\.ts$/ }, async ({ path }) => {
      const text = await readFile(path, 'utf8');
      const nothing = 'export const keepStates = ({ from }) => `SELECT 1 FROM ${from} WHERE false`;';
      const patched = text.replace('export const keepStates =', `${nothing}\nexport const replaced =`);
      if (patched === text) throw new Error('the statement that keeps a state was not found');
      return { contents: patched, loader: 'ts' };
    });
  },
};

class Side {
  readonly #child: ChildProcess;
  readonly #lines: Interface;
  readonly #ended = new AbortController();

  private constructor(child: ChildProcess) {
    this.#child = child;
    if (child.stdout === null) throw new Error('no output');
    this.#lines = createInterface({ input: child.stdout });
    child.once('exit', () => this.#ended.abort(new Error('a side ended')));
  }

  static async start(name: string, plugins: Plugin[]): Promise<Side> {
    const outfile = join(folder, `${name}.mjs`);
    await build({
      entryPoints: [join(process.cwd(), 'bench', 'history', 'side.ts')],
      outfile,
      plugins,
      bundle: true,
      packages: 'external',
      platform: 'node',
      target: 'node20',
      format: 'esm',
      logLevel: 'warning',
    });
    const side = new Side(spawn(process.execPath, [outfile], { stdio: ['pipe', 'pipe', 'inherit'] }));
    await side.#answer();
    return side;
  }

  async #answer(): Promise<void> {
    const [line] = await once(this.#lines, 'line', { signal: this.#ended.signal });
    if (line !== 'ready' && line !== 'done') throw new Error(`a side says ${line}`);
  }

  /** Microseconds of processor time for each write. */
  async write(order: string): Promise<number> {
    const meter = new ProcessorMeter(this.#child.pid ?? 0);
    meter.start();
    this.#child.stdin?.write(`${order}\n`);
    await this.#answer();
    meter.stop();
    return sumOf(meter.total) / Number(order.split(' ')[2]);
  }

  async close(): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.stdin?.end('end\n');
    await ended;
  }
}

await mkdir(folder, { recursive: true });
const sides: Side[] = [];
try {
  const kept = await Side.start('with', []);
  sides.push(kept);
  const bare = await Side.start('without', [withoutHistory]);
  sides.push(bare);
  for (const { order } of kinds) for (const side of sides) await side.write(order);
  const measured = new Map(kinds.map(({ name }) => [name, { with: [] as number[], without: [] as number[] }]));
  for (let round = 0; round < rounds; round += 1) {
    for (const { name, order } of kinds) {
      const figures = measured.get(name);
      // Neither is always the first.
      const turns = round % 2 === 0 ? (['with', 'without'] as const) : (['without', 'with'] as const);
      for (const which of turns) figures?.[which].push(await (which === 'with' ? kept : bare).write(order));
    }
  }
  const ratioOf = ({ with: a, without: b }: { with: number[]; without: number[] }): number =>
    median(a.map((value, round) => value / (b[round] ?? Number.NaN)));
  console.log(
    table(
      [`µs of processor time, ${rounds} rounds`, 'with history', 'without', 'ratio of each round, median'],
      [...measured].map(([name, one]) => [
        name,
        figure(median(one.with)),
        figure(median(one.without)),
        ratioOf(one).toFixed(3),
      ]),
    ),
  );
  showGoals(
    [...measured].map(([name, one]) => ({
      what: `history beside none: ${name}`,
      goal: 1.1,
      measured: ratioOf(one),
      unit: '×',
    })),
  );
} finally {
  for (const side of sides) await side.close().catch(() => {});
  await rm(folder, { recursive: true, force: true });
}
