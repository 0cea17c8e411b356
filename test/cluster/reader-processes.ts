/** Owns the processes of a fault run's readers: thousands of streams in one process would starve it, and the test with it. */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { onTestFinished } from 'vitest';
import { eventually } from '../lib/eventually.ts';
import type { GroupReadersOptions } from './group-readers.ts';
import type { ReadersAnswer, ReadersOrder, ReadersReport } from './readers-main.ts';

const mostEach = 1_250;

/** The readers' program, as one file that Node runs. It is there until the test ends. */
async function buildReaders(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'rf-readers-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const outfile = join(folder, 'readers.mjs');
  const entryPoints = [fileURLToPath(new URL('readers-main.ts', import.meta.url))];
  await build({ entryPoints, bundle: true, platform: 'node', format: 'esm', outfile, logLevel: 'error' });
  return outfile;
}

class ReaderProcess {
  readonly #child: ChildProcess;

  constructor(file: string) {
    this.#child = fork(file, { execArgv: [] });
    onTestFinished(() => void this.#child.kill('SIGKILL'));
  }

  /** One order at a time. */
  async ask<K extends ReadersAnswer['kind']>(
    order: ReadersOrder,
    kind: K,
  ): Promise<Extract<ReadersAnswer, { kind: K }>> {
    const over = new AbortController();
    const { signal } = over;
    const gone = once(this.#child, 'exit', { signal }).then(([code]) => {
      throw new Error(`a process of readers ended with ${String(code)}`);
    });
    const answered = once(this.#child, 'message', { signal });
    this.#child.send(order);
    try {
      const [answer] = (await Promise.race([answered, gone])) as [ReadersAnswer];
      if (answer.kind !== kind) throw new Error(`the readers say ${answer.kind} instead of ${kind}`);
      return answer as Extract<ReadersAnswer, { kind: K }>;
    } finally {
      for (const other of [answered, gone]) other.catch(() => undefined);
      over.abort();
    }
  }
}

export class ReaderProcesses {
  readonly count: number;
  readonly #processes: readonly ReaderProcess[];

  private constructor(count: number, processes: readonly ReaderProcess[]) {
    this.count = count;
    this.#processes = processes;
  }

  /** All readers have a stream and what it lists. They end with the test. */
  static async start(options: Omit<GroupReadersOptions, 'signal'>): Promise<ReaderProcesses> {
    const { count } = options;
    const file = await buildReaders();
    const processes = Array.from({ length: Math.ceil(count / mostEach) }, () => new ReaderProcess(file));
    const share = (index: number): number =>
      Math.floor((count * (index + 1)) / processes.length) - Math.floor((count * index) / processes.length);
    await Promise.all(
      processes.map((one, index) => one.ask({ kind: 'start', options: { ...options, count: share(index) } }, 'synced')),
    );
    return new ReaderProcesses(count, processes);
  }

  /** Waits until every reader holds these groups, at these revisions, and no others. */
  async hold(groups: readonly (readonly [id: string, revision: number])[]): Promise<void> {
    for (const one of this.#processes) {
      let different: string | undefined;
      await eventually(
        () => `every reader holds what the database has: ${different}`,
        async () => {
          ({ different } = await one.ask({ kind: 'compare', groups }, 'compared'));
          return different === undefined;
        },
      );
    }
  }

  async report(): Promise<ReadersReport> {
    const answers = await Promise.all(this.#processes.map((one) => one.ask({ kind: 'report' }, 'reported')));
    const reports = answers.map(({ report }) => report);
    return {
      relists: reports.reduce((sum, { relists }) => sum + relists, 0),
      faults: reports.flatMap(({ faults }) => faults),
      errors: reports.flatMap(({ errors }) => errors),
    };
  }
}
