/** Owns the running of the built program in tests and benchmarks: processes that are ended whatever happens. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildInto, builtProgram, sharedBuildVariable } from './built.ts';
import { mortal } from './mortal.ts';

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** One running program. */
export class Run {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  #stdout = '';
  #stderr = '';

  constructor(file: string, args: readonly string[], env: Readonly<Record<string, string>>, node = process.execPath) {
    const kept = Object.entries(process.env).filter(([name]) => !name.startsWith('RINGFENCE_'));
    this.child = spawn(...mortal(node, [file, ...args]), {
      env: { ...Object.fromEntries(kept), ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.child.stdout?.on('data', (chunk: Buffer) => (this.#stdout += chunk.toString()));
    this.child.stderr?.on('data', (chunk: Buffer) => (this.#stderr += chunk.toString()));
    this.ended = once(this.child, 'close').then(([code, signal]: unknown[]) => ({
      code: code as number | null,
      signal: signal as NodeJS.Signals | null,
      stdout: this.#stdout,
      stderr: this.#stderr,
    }));
  }

  get stdout(): string {
    return this.#stdout;
  }
  get stderr(): string {
    return this.#stderr;
  }

  /** Waits until the output shows this, and gives what it matched; fails when the program ends before. */
  async shows(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const match = pattern.exec(this.#stdout) ?? pattern.exec(this.#stderr);
      if (match !== null) return match;
      const { child } = this;
      if (child.exitCode !== null || child.signalCode !== null) {
        // It has ended, and its last words may still be on their way.
        await this.ended;
        const last = pattern.exec(this.#stdout) ?? pattern.exec(this.#stderr);
        if (last !== null) return last;
        throw new Error(
          `ended with ${child.exitCode ?? child.signalCode} before showing ${pattern}: ${this.#stdout}${this.#stderr}`,
        );
      }
      await Promise.race([
        once(child, 'close'),
        once(child.stdout ?? child, 'data'),
        once(child.stderr ?? child, 'data'),
      ]);
    }
  }

  /** The address that a server says it listens on. */
  async url(): Promise<string> {
    return (await this.shows(/API {3}(https?:\/\/\S+)\/api/))[1] ?? '';
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<Ended> {
    if (this.child.exitCode === null && this.child.signalCode === null) this.child.kill(signal);
    return this.ended;
  }
}

export class Program {
  readonly #folder: string;
  readonly #isOwn: boolean;
  readonly #runs: Run[] = [];

  private constructor(folder: string, { isOwn }: { readonly isOwn: boolean }) {
    this.#folder = folder;
    this.#isOwn = isOwn;
  }

  /** The build that the files of a test run share, or one of its own: for a benchmark, and with the web UI, which takes longer. */
  static async build({ web = false }: { readonly web?: boolean } = {}): Promise<Program> {
    if (!web && process.env[sharedBuildVariable] !== undefined) {
      return new Program(await builtProgram(), { isOwn: false });
    }
    const folder = await mkdtemp(join(tmpdir(), 'rf-program-'));
    await buildInto(folder, web ? ['program', 'web'] : ['program']);
    return new Program(folder, { isOwn: true });
  }

  /** What Node runs. */
  get file(): string {
    return join(this.#folder, 'ringfence.mjs');
  }

  /** `node`: the path of another Node than the tests' own. */
  run(args: readonly string[], env: Readonly<Record<string, string>> = {}, node = process.execPath): Run {
    const run = new Run(this.file, args, env, node);
    this.#runs.push(run);
    return run;
  }

  /** Ends what still runs and takes its own bundle away. */
  async close(): Promise<void> {
    await Promise.all(this.#runs.map((run) => run.stop('SIGKILL')));
    if (this.#isOwn) await rm(this.#folder, { recursive: true, force: true });
  }
}
