/** Owns one running `nft -i`: a line goes in, its answer comes out, and the process is never left behind. */
import { spawn, type ChildProcess } from 'node:child_process';
import type { Clock } from '../../client/clock.ts';
import { isMark, markLine } from '../../nft/session.ts';
import { NftError } from './nft.ts';
import { helperEnvironment } from '../host/supervised-process.ts';

export interface NftSessionOptions {
  readonly clock: Clock;
  /** The command line that programs are started through, such as one that enters a network namespace. */
  readonly prefix: readonly string[];
  readonly program: string;
}

interface Question {
  readonly resolve: (lines: readonly string[]) => void;
  readonly reject: (error: NftError) => void;
  readonly cancel: () => void;
}

const noSuchProgram = 127;
/** Milliseconds for a process that was asked nothing to end. */
const endPatience = 60_000;

export class NftSession {
  readonly #options: NftSessionOptions;
  readonly #child: ChildProcess;
  readonly #closed: Promise<void>;
  #question: Question | undefined;
  #lines: string[] = [];
  #partial: string[] = [];
  #dead: NftError | undefined;
  #asked = 0;

  constructor(options: NftSessionOptions) {
    this.#options = options;
    // nft answers on two streams; only in one of them do answers and marks keep their order.
    const argv = [...options.prefix, options.program, '-j', '-i'];
    this.#child = spawn('/bin/sh', ['-c', 'exec "$@" 2>&1', 'nft', ...argv], {
      stdio: ['pipe', 'pipe', 'ignore'],
      env: helperEnvironment,
    });
    this.#child.stdin?.on('error', () => {}); // A process that is gone shows by its end.
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => this.#hear(text));
    this.#closed = new Promise((resolve) => {
      this.#child.once('error', (error) => {
        this.#die(new NftError('missing', `${options.program} cannot be started: ${error.message}`, { cause: error }));
        resolve();
      });
      this.#child.once('close', (code, signal) => {
        this.#die(this.#endOf(code, signal));
        resolve();
      });
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }
  get alive(): boolean {
    return this.#dead === undefined;
  }
  /** Lines asked so far. nft remembers each for ever, so its owner replaces it from time to time. */
  get asked(): number {
    return this.#asked;
  }

  /**
   * The lines that answer this line, or `timed_out` after so many milliseconds. One question at a time; the line is short, so that the kernel takes it whole: nft
   * would run the beginning of a line whose end never comes.
   */
  ask(line: string, patience: number): Promise<readonly string[]> {
    return new Promise((resolve, reject) => {
      if (this.#dead !== undefined) {
        reject(this.#dead);
        return;
      }
      const { clock, program } = this.#options;
      this.#asked++;
      const cancel = clock.after(patience, () => {
        this.#die(new NftError('timed_out', `${program} has not answered for ${Math.round(patience / 1_000)} s`));
        this.#child.kill('SIGKILL');
      });
      this.#question = { resolve, reject, cancel };
      this.#child.stdin?.write(`${line}\n${markLine}\n`);
    });
  }

  /** Lets the process finish what it was asked, and waits for its end. */
  async end(): Promise<void> {
    this.#child.stdin?.end();
    const cancel = this.#options.clock.after(endPatience, () => this.#child.kill('SIGKILL'));
    await this.#closed;
    cancel();
  }

  #hear(text: string): void {
    // A listing is one line of megabytes: its parts are joined once, when the end of the line has come.
    const parts = text.split('\n');
    const rest = parts.pop() ?? '';
    for (const part of parts) {
      const line = this.#partial.length === 0 ? part : this.#partial.join('') + part;
      this.#partial = [];
      if (!isMark(line.slice(0, 200))) this.#lines.push(line);
      else this.#answer();
    }
    if (rest !== '') this.#partial.push(rest);
  }

  #answer(): void {
    const [question, lines] = [this.#question, this.#lines];
    this.#question = undefined;
    this.#lines = [];
    question?.cancel();
    question?.resolve(lines);
  }

  #endOf(code: number | null, signal: string | null): NftError {
    const { program } = this.#options;
    const said = [...this.#lines, this.#partial.join('')].join(' ').trim().slice(0, 300);
    const reason = said === '' ? '' : `: ${said}`;
    if (code === noSuchProgram) return new NftError('missing', `${program} cannot be started${reason}`);
    return new NftError('interrupted', `${program} ended by ${signal ?? `itself with code ${code}`}${reason}`);
  }

  #die(error: NftError): void {
    this.#dead ??= error;
    const question = this.#question;
    this.#question = undefined;
    question?.cancel();
    question?.reject(this.#dead);
  }
}
