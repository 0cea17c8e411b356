/** Owns the program's input and output: what it reads from a user or a pipe, and what it writes. */
import { usageError } from './exit.ts';
import { printable } from '../../policy/names/printable.ts';
import { createScreen, type Paint, type Screen } from './screen.ts';

export interface TerminalOptions {
  readonly env: NodeJS.ProcessEnv;
  readonly colour: boolean;
}

// Modules of Node that few commands need are loaded by those: each takes some milliseconds.

/** What a person typed as an answer that means yes. */
const yes = /^(y|yes)$/i;

export class Terminal {
  readonly env: NodeJS.ProcessEnv;
  readonly #stdout: Screen;
  readonly #stderr: Screen;

  constructor({ env, colour }: TerminalOptions) {
    this.env = env;
    const coloured = colour && (env['NO_COLOR'] ?? '') === '' && env['TERM'] !== 'dumb';
    const screen = (isTTY: boolean): Screen =>
      createScreen({ colour: coloured && isTTY, secret: () => globalThis.crypto.randomUUID() });
    this.#stdout = screen(process.stdout.isTTY);
    this.#stderr = screen(process.stderr.isTTY);
  }

  /** Whether a person sits at both ends, so that questions make sense. */
  get isInteractive(): boolean {
    return process.stdin.isTTY && process.stderr.isTTY;
  }

  /**
   * How many characters fit on a line of stdout; undefined for a pipe. A terminal that reports no width counts as 80
   * wide.
   */
  get width(): number | undefined {
    return process.stdout.isTTY ? process.stdout.columns || 80 : undefined;
  }

  /** For stdout: a pipe gets no colours. */
  get paint(): Paint {
    return this.#stdout.paint;
  }
  get paintError(): Paint {
    return this.#stderr.paint;
  }

  out(text: string): void {
    process.stdout.write(this.#stdout.render(text));
  }

  /** One line for programs: fields divided by tabs, which none of them can hold. */
  fields(...texts: readonly string[]): void {
    process.stdout.write(`${texts.map((text) => this.#stdout.render(text.replaceAll('\n', ' '))).join('\t')}\n`);
  }

  /** One line for people only: questions, notes, failures. Never data. */
  note(line: string): void {
    process.stderr.write(`${this.#stderr.render(line.replaceAll('\n', ' '))}\n`);
  }

  /** One line that is drawn over and over where a person looks on; undefined takes it away. */
  progress(line: string | undefined): void {
    if (!process.stderr.isTTY) return;
    const width = Math.max(20, process.stderr.columns || 80) - 1;
    process.stderr.write(`\r\u001B[K${line === undefined ? '' : this.#stderr.render(line.slice(0, width))}`);
  }

  /** Everything that comes in on stdin. */
  async input({ signal }: { readonly signal: AbortSignal }): Promise<string> {
    const chunks: Buffer[] = [];
    const { addAbortSignal } = process.getBuiltinModule('node:stream');
    for await (const chunk of addAbortSignal(signal, process.stdin)) chunks.push(Buffer.from(chunk as Uint8Array));
    return Buffer.concat(chunks).toString('utf8');
  }

  /** Asks before an action that cannot be undone. A script must pass the confirmation as an option instead. */
  async confirm(
    question: string,
    { yes: given, signal }: { readonly yes: boolean; readonly signal: AbortSignal },
  ): Promise<boolean> {
    if (given) return true;
    if (!this.isInteractive) throw usageError(`${question} There is no terminal to answer on. To continue, use --yes.`);
    return yes.test(((await this.#ask(`${question} [y/N] `, { echo: true, signal })) ?? '').trim());
  }

  /** Asks a person; undefined where the input has ended. */
  async question(question: string, { signal }: { readonly signal: AbortSignal }): Promise<string | undefined> {
    return (await this.#ask(question, { echo: true, signal }))?.trim();
  }

  /** Asks for something that must not stay on the screen. */
  async secret(question: string, { signal }: { readonly signal: AbortSignal }): Promise<string> {
    return ((await this.#ask(question, { echo: false, signal })) ?? '').trim();
  }

  /** Undefined where the input ends before an answer. */
  #ask(
    question: string,
    { echo, signal }: { readonly echo: boolean; readonly signal: AbortSignal },
  ): Promise<string | undefined> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) {
        reject(signal.reason);
        return;
      }
      const { createInterface } = process.getBuiltinModule('node:readline');
      const { Writable } = process.getBuiltinModule('node:stream');
      // What readline would draw of a secret is the secret itself.
      const output = echo ? process.stderr : new Writable({ write: (_bytes, _encoding, written) => written() });
      const lines = createInterface({ input: process.stdin, output, terminal: true });
      const done = (): void => {
        signal.removeEventListener('abort', onAbort);
        lines.close();
      };
      const onAbort = (): void => {
        // Before the closing, which would answer with nothing.
        reject(signal.reason);
        done();
      };
      signal.addEventListener('abort', onAbort, { once: true });
      // readline takes Ctrl-C for itself; it means the same here as everywhere else.
      lines.on('SIGINT', () => process.kill(process.pid, 'SIGINT'));
      lines.on('close', () => {
        signal.removeEventListener('abort', onAbort);
        resolve(undefined);
      });
      const shown = printable(question);
      process.stderr.write(shown);
      lines.question(echo ? shown : '', (answer) => {
        if (!echo) process.stderr.write('\n');
        resolve(answer);
        done();
      });
    });
  }
}
