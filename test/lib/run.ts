/** Owns the running of the built program in tests: one bundle per test file, processes that are ended whatever happens. */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
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

  constructor(file: string, args: readonly string[], env: Readonly<Record<string, string>>) {
    const kept = Object.entries(process.env).filter(([name]) => !name.startsWith('RINGFENCE_'));
    this.child = spawn(...mortal(process.execPath, [file, ...args]), {
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
    return (await this.shows(/API {3}(http:\/\/\S+)\/api/))[1] ?? '';
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<Ended> {
    if (this.child.exitCode === null && this.child.signalCode === null) this.child.kill(signal);
    return this.ended;
  }
}

export class Program {
  readonly #folder: string;
  readonly #runs: Run[] = [];

  private constructor(folder: string) {
    this.#folder = folder;
  }

  /** With the web UI where it is asked for: that takes longer. */
  static async build({ web = false }: { readonly web?: boolean } = {}): Promise<Program> {
    const folder = await mkdtemp(join(tmpdir(), 'rf-program-'));
    // In a process of its own, from the top of the repository: a benchmark that is bundled itself cannot import the build.
    const made = (file: string, verb: string): string =>
      `import('./scripts/${file}.mjs').then((build) => build.${verb}({ outdir: ${JSON.stringify(folder)} }));`;
    const code = `${made('build-program', 'buildProgram')}${web ? made('build-web', 'buildWeb') : ''}`;
    await promisify(execFile)(process.execPath, ['-e', code]);
    return new Program(folder);
  }

  /** What Node runs. */
  get file(): string {
    return join(this.#folder, 'ringfence.mjs');
  }

  run(args: readonly string[], env: Readonly<Record<string, string>> = {}): Run {
    const run = new Run(this.file, args, env);
    this.#runs.push(run);
    return run;
  }

  /** Ends what still runs and takes the bundle away. */
  async close(): Promise<void> {
    await Promise.all(this.#runs.map((run) => run.stop('SIGKILL')));
    await rm(this.#folder, { recursive: true, force: true });
  }
}
