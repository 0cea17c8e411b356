/** Owns one running `nft -i`: it writes a line, reads the reply, and always ends the process. */
import { spawn, type ChildProcess } from 'node:child_process';
import type { Clock } from '../../client/clock.ts';
import { isMark, listingStart, markLine } from '../../nft/session.ts';
import { NftError } from './nft.ts';
import { helperEnvironment } from '../../node/helper-environment.ts';

export interface NftSessionOptions {
  readonly clock: Clock;
  /** The command line that programs are started through, such as one that enters a network namespace. */
  readonly prefix: readonly string[];
  readonly program: string;
}

interface PendingLine {
  readonly listing: ((part: string) => void) | undefined;
  readonly resolve: (lines: readonly string[]) => void;
  readonly reject: (error: NftError) => void;
  readonly cancel: () => void;
}

const noSuchProgram = 127;
/** Milliseconds for a process that was asked nothing to end. */
const endTimeout = 60_000;

export class NftSession {
  readonly #options: NftSessionOptions;
  readonly #child: ChildProcess;
  readonly #closed: Promise<void>;
  #pending: PendingLine | undefined;
  #lines: string[] = [];
  #partial: string[] = [];
  /** Whether what comes of this line is given on as it comes. */
  #isListing = false;
  #dead: NftError | undefined;
  #asked = 0;

  constructor(options: NftSessionOptions) {
    this.#options = options;
    // nft answers on two streams; only in one of them do answers and marks keep their order.
    // Protocols as numbers: their names are those of the device.
    const argv = [...options.prefix, options.program, '-j', '--numeric-protocol', '-i'];
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
   * would run the beginning of a line whose end never comes. `listing` is given what is listed, part by part as it comes, which is then no line of the answer.
   */
  ask(line: string, timeout: number, listing?: (part: string) => void): Promise<readonly string[]> {
    return new Promise((resolve, reject) => {
      if (this.#dead !== undefined) {
        reject(this.#dead);
        return;
      }
      const { clock, program } = this.#options;
      this.#asked++;
      const cancel = clock.after(timeout, () => {
        this.#die(new NftError('timed_out', `${program} did not answer within ${Math.round(timeout / 1_000)} s`));
        this.#child.kill('SIGKILL');
      });
      this.#pending = { listing, resolve, reject, cancel };
      this.#child.stdin?.write(`${line}\n${markLine}\n`);
    });
  }

  /** Lets the process finish what it was asked, and waits for its end. */
  async end(): Promise<void> {
    this.#child.stdin?.end();
    const cancel = this.#options.clock.after(endTimeout, () => this.#child.kill('SIGKILL'));
    await this.#closed;
    cancel();
  }

  #hear(text: string): void {
    const parts = text.split('\n');
    const rest = parts.pop() ?? '';
    for (const part of parts) {
      this.#take(part);
      this.#endLine();
    }
    this.#take(rest);
  }

  #take(part: string): void {
    if (part === '') return;
    this.#partial.push(part);
    const listing = this.#pending?.listing;
    if (listing === undefined) return;
    this.#isListing ||= this.#partial.join('').startsWith(listingStart);
    if (!this.#isListing) return;
    for (const each of this.#partial) listing(each);
    this.#partial = [];
  }

  #endLine(): void {
    // A line of megabytes is joined once, at its end.
    const [line, isListing] = [this.#partial.join(''), this.#isListing];
    this.#partial = [];
    this.#isListing = false;
    if (isListing) return;
    if (isMark(line.slice(0, 200))) this.#answer();
    else this.#lines.push(line);
  }

  #answer(): void {
    const [pending, lines] = [this.#pending, this.#lines];
    this.#pending = undefined;
    this.#lines = [];
    pending?.cancel();
    pending?.resolve(lines);
  }

  #endOf(code: number | null, signal: string | null): NftError {
    const { program } = this.#options;
    const said = [...this.#lines, this.#partial.join('')].join(' ').trim().slice(0, 300);
    const reason = said === '' ? '' : `: ${said}`;
    if (code === noSuchProgram) return new NftError('missing', `${program} cannot be started${reason}`);
    return new NftError('interrupted', `${program} exited with ${signal ?? `code ${code}`}${reason}`);
  }

  #die(error: NftError): void {
    this.#dead ??= error;
    const pending = this.#pending;
    this.#pending = undefined;
    pending?.cancel();
    pending?.reject(this.#dead);
  }
}
