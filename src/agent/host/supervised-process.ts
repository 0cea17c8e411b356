/** Owns one long-running helper program: its output lines, its exit, and its restart after a growing wait. */
import { spawn, type ChildProcess } from 'node:child_process';
import type { Clock } from '../../client/clock.ts';
import { helperEnvironment } from '../../node/helper-environment.ts';

export interface SupervisedProcessOptions {
  readonly clock: Clock;
  readonly argv: readonly string[];
  /** Only this many letters of a line are kept. */
  readonly longestLine: number;
  readonly onLine: (line: string) => void;
  /** The program runs, for the first time or again: what happened while it did not run is unknown. */
  readonly onStart: () => void;
  /** It goes on, but has complained: it may have missed something. */
  readonly onComplaint?: () => void;
  /** It ended by itself, or could not be started. It is started again. */
  readonly onEnd: (why: string) => void;
}

const firstWait = 100;
const longestWait = 30_000;
/** A program that ran so long has not failed to start. */
const settled = 10_000;

/** Cuts a stream of text into lines, the rest of long ones dropped as it comes. */
class Lines {
  readonly #longest: number;
  readonly #onLine: (line: string) => void;
  #partial = '';

  constructor(longest: number, onLine: (line: string) => void) {
    this.#longest = longest;
    this.#onLine = onLine;
  }

  push(text: string): void {
    let from = 0;
    for (let to = text.indexOf('\n'); to >= 0; to = text.indexOf('\n', from)) {
      this.#append(text, from, to);
      from = to + 1;
      const line = this.#partial;
      this.#partial = '';
      this.#onLine(line);
    }
    this.#append(text, from, text.length);
  }

  #append(text: string, from: number, to: number): void {
    const room = this.#longest - this.#partial.length;
    if (room > 0 && to > from) this.#partial += text.slice(from, Math.min(to, from + room));
  }
}

export class SupervisedProcess {
  readonly #options: SupervisedProcessOptions;
  #child: ChildProcess | undefined;
  #ended: Promise<void> = Promise.resolve();
  #stopped = false;
  #wait = firstWait;
  #cancel: (() => void) | undefined;

  constructor(options: SupervisedProcessOptions) {
    this.#options = options;
  }

  start(): void {
    const { argv, clock, longestLine, onLine, onStart, onComplaint, onEnd } = this.#options;
    const [command = '', ...args] = argv;
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], env: helperEnvironment });
    this.#child = child;
    const startedAt = clock.now();
    let said = '';
    const lines = new Lines(longestLine, (line) => {
      if (!this.#stopped) onLine(line);
    });
    child.stdout.setEncoding('utf8').on('data', (text: string) => lines.push(text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said = `${said}${text}`.slice(0, 300);
      if (!this.#stopped) onComplaint?.();
    });
    child.once('spawn', () => {
      if (!this.#stopped) onStart();
    });
    this.#ended = new Promise((resolve) => {
      let over = false;
      const end = (why: string): void => {
        if (over) return;
        over = true;
        this.#child = undefined;
        resolve();
        if (this.#stopped) return;
        if (clock.now() - startedAt >= settled) this.#wait = firstWait;
        this.#cancel = clock.after(this.#wait, () => this.start());
        this.#wait = Math.min(this.#wait * 2, longestWait);
        onEnd(why);
      };
      child.once('error', (error) => end(`${command} cannot be started: ${error.message}`));
      child.once('close', (code, signal) => {
        const reason = said.trim() === '' ? '' : `: ${said.trim()}`;
        end(`${argv.join(' ').slice(0, 100)} exited with ${signal ?? `code ${code}`}${reason}`);
      });
    });
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancel?.();
    this.#child?.kill('SIGKILL');
    // What the program itself started may hold these open.
    for (const output of [this.#child?.stdout, this.#child?.stderr]) output?.destroy();
    await this.#ended;
  }
}
