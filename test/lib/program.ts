/** Owns the running of the real program in tests: bundled once, started as a person or a script would start it. */
import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { builtProgram } from './built.ts';
import { runHosted } from './command-host.ts';
import { mortal } from './mortal.ts';

export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** What comes in on stdin; without it, stdin is empty. */
  readonly input?: string;
  /** What a person types, each text when the program has shown what it waits for; or what the person does first. */
  readonly typed?: readonly (readonly [after: RegExp, text: string | (() => Promise<string>)])[];
  /** Sends this signal as soon as the output matches; stdin stays open until then. */
  readonly until?: { readonly pattern: RegExp; readonly signal: NodeJS.Signals };
  /** Called once, when the output first matches, so that a test can act at that moment. */
  readonly shown?: { readonly pattern: RegExp; readonly act: (match: RegExpExecArray) => void };
  /** Ctrl-C as soon as this is so. */
  readonly interruptAfter?: Promise<unknown>;
}

const longest = 120_000;

/** What goes on by itself or starts others is a process of its own. */
const programs: ReadonlySet<string | undefined> = new Set(['server', 'backup', 'restore', 'agent']);

/** A person's home, with the program installed: every run sees this home and nothing of the machine's own settings. */
export class Program {
  readonly home: string;
  readonly #file: string;
  readonly #env: Readonly<Record<string, string>>;

  private constructor(home: string, file: string, env: Readonly<Record<string, string>>) {
    this.home = home;
    this.#file = file;
    this.#env = env;
  }

  static async install(): Promise<Program> {
    const folder = await mkdtemp(join(tmpdir(), 'ringfence-cli-'));
    const home = join(folder, 'home');
    await mkdir(home);
    return new Program(home, join(await builtProgram(), 'ringfence.mjs'), {});
  }

  /** The program itself. */
  get bundle(): string {
    return this.#file;
  }

  async remove(): Promise<void> {
    await rm(join(this.home, '..'), { recursive: true, force: true });
  }

  /** The same program for somebody else: another home, other variables. */
  async as(name: string, env: Readonly<Record<string, string>> = {}): Promise<Program> {
    const home = join(this.home, '..', name);
    await mkdir(home, { recursive: true });
    return new Program(home, this.#file, env);
  }

  /** Writes a file into the home and returns its path. */
  async file(name: string, text: string): Promise<string> {
    const path = join(this.home, name);
    await writeFile(path, text);
    return path;
  }

  /** In a pipe, as a script runs it; in a process that serves many commands, where nothing depends on its being its own. */
  run(args: readonly string[], options: RunOptions = {}): Promise<Outcome> {
    const { env, input = '', ...more } = options;
    if (Object.keys(more).length > 0 || programs.has(args[0])) return this.spawn(args, options);
    return runHosted({ file: this.#file, args, env: this.#variables(env), folder: this.home, input });
  }

  /** In a pipe, as a script runs it, and in a process of its own. */
  spawn(args: readonly string[], options: RunOptions = {}): Promise<Outcome> {
    return this.#start(process.execPath, [this.#file, ...args], options);
  }

  /** In a terminal, as a person runs it; both outputs are one there. */
  inTerminal(args: readonly string[], options?: RunOptions): Promise<Outcome> {
    return this.commandInTerminal([process.execPath, this.#file, ...args], options);
  }

  /** Another command in a terminal, in the same home. */
  async commandInTerminal(command: readonly string[], options: RunOptions = {}): Promise<Outcome> {
    const quoted = command.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ');
    // In the place of the shell, which would take Ctrl-C for its own and hide how the program ended.
    const outcome = await this.#start('script', ['-qefc', `exec ${quoted}`, '/dev/null'], options);
    return { ...outcome, stdout: outcome.stdout.replaceAll('\r\n', '\n') };
  }

  #variables(env: Readonly<Record<string, string>> = {}): Record<string, string> {
    return { PATH: process.env['PATH'] ?? '', HOME: this.home, TERM: 'xterm', ...this.#env, ...env };
  }

  #start(
    command: string,
    args: readonly string[],
    { env, input = '', typed, until, shown: awaited, interruptAfter }: RunOptions,
  ): Promise<Outcome> {
    return new Promise((resolve, reject) => {
      const child = spawn(...mortal(command, args), {
        cwd: this.home,
        env: this.#variables(env),
        timeout: longest,
        killSignal: 'SIGKILL',
      });
      let stdout = '';
      let stderr = '';
      const waiting = [...(typed ?? [])];
      let shown = 0;
      let told = false;
      let ended = false;
      const look = (): void => {
        const [next] = waiting;
        if (next?.[0].test(stdout.slice(shown)) === true) {
          waiting.shift();
          shown = stdout.length;
          const [, text] = next;
          if (typeof text === 'string') child.stdin.write(text);
          else void text().then((later) => child.stdin.write(later), reject);
        }
        const match = told ? null : (awaited?.pattern.exec(stdout + stderr) ?? null);
        if (match !== null) {
          told = true;
          awaited?.act(match);
        }
        // Once: a second Ctrl-C means more than the first.
        if (until !== undefined && !ended && until.pattern.test(stdout + stderr)) ended = child.kill(until.signal);
      };
      child.stdout.on('data', (chunk: Buffer) => {
        stdout += chunk.toString();
        look();
      });
      child.stderr.on('data', (chunk: Buffer) => {
        stderr += chunk.toString();
        look();
      });
      child.on('error', reject);
      child.on('close', (code, signal) => {
        resolve({ code: code ?? (signal === 'SIGINT' ? 130 : 137), stdout, stderr });
      });
      void interruptAfter?.then(() => child.kill('SIGINT'));
      child.stdin.on('error', () => undefined);
      if (typed === undefined && until === undefined) child.stdin.end(input);
    });
  }
}
