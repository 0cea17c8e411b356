/** Owns where lines of the audit log go: a file that may be rotated, standard output, or the input of a program that logs. */
import { spawn, type ChildProcess } from 'node:child_process';
import { write } from 'node:fs';
import { open, stat, type FileHandle } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

export interface Sink {
  /** Bytes of a line at most; absent: any. */
  readonly longestLine?: number;
  /** Resolves when the lines were taken; until then it may take any time. What fails may have been taken in part. */
  write(text: string): Promise<void>;
  close(): Promise<void>;
}

const isCode = (error: unknown, ...codes: readonly string[]): boolean =>
  error instanceof Error && 'code' in error && codes.includes(String(error.code));

/** Appends to the file of this name, also after another program has renamed or removed it. */
class FileSink implements Sink {
  readonly #path: string;
  #file: FileHandle | undefined;
  /** The last write may have left half of a line. */
  #isTorn = false;

  constructor(path: string) {
    this.#path = path;
  }

  async write(text: string): Promise<void> {
    const file = await this.#current();
    const lines = this.#isTorn ? `\n${text}` : text;
    this.#isTorn = true;
    await file.appendFile(lines);
    // A device or a pipe has nothing to sync.
    await file.datasync().catch((error: unknown) => {
      if (!isCode(error, 'EINVAL', 'ENOTSUP')) throw error;
    });
    this.#isTorn = false;
  }

  async close(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    await file?.close();
  }

  async #current(): Promise<FileHandle> {
    if (this.#file !== undefined && (await this.#isRotated(this.#file))) await this.close();
    this.#file ??= await open(this.#path, 'a', 0o600);
    return this.#file;
  }

  async #isRotated(file: FileHandle): Promise<boolean> {
    try {
      const [own, named] = await Promise.all([file.stat(), stat(this.#path)]);
      return own.ino !== named.ino || own.dev !== named.dev;
    } catch (error) {
      if (isCode(error, 'ENOENT')) return true;
      throw error;
    }
  }
}

/** How soon a full pipe is tried again. */
const retryMs = 50;

/** Standard output. Not through `process.stdout`, which stops the whole process while a pipe is full. */
class OutputSink implements Sink {
  #isClosed = false;

  async write(text: string): Promise<void> {
    for (let bytes = Buffer.from(text); bytes.length > 0 && !this.#isClosed;) {
      try {
        const taken = await new Promise<number>((resolve, reject) => {
          write(1, bytes, (error, count) => (error === null ? resolve(count) : reject(error)));
        });
        bytes = bytes.subarray(taken);
      } catch (error) {
        if (!isCode(error, 'EAGAIN')) throw error;
        await sleep(retryMs, undefined, { ref: false });
      }
    }
  }

  close(): Promise<void> {
    this.#isClosed = true;
    return Promise.resolve();
  }
}

/** A program that logs each line of its input. It is started again when it has ended. */
class ProgramSink implements Sink {
  readonly longestLine: number;
  readonly #argv: readonly [string, ...string[]];
  #child: ChildProcess | undefined;

  constructor(argv: readonly [string, ...string[]], longestLine: number) {
    this.#argv = argv;
    this.longestLine = longestLine;
  }

  write(text: string): Promise<void> {
    const child = (this.#child ??= this.#start());
    return new Promise((resolve, reject) => {
      const ended = (): void => reject(new Error(`${this.#argv[0]} has ended`));
      const failed = (error: Error): void => reject(new Error(`cannot run ${this.#argv[0]}: ${error.message}`));
      child.once('close', ended).once('error', failed);
      child.stdin?.write(text, (error) => {
        child.off('close', ended).off('error', failed);
        if (error) failed(error);
        else resolve();
      });
    });
  }

  async close(): Promise<void> {
    this.#child?.stdin?.end();
    this.#child = undefined;
  }

  #start(): ChildProcess {
    const [program, ...args] = this.#argv;
    const child = spawn(program, args, { stdio: ['pipe', 'ignore', 'ignore'] });
    const forget = (): void => {
      if (this.#child === child) this.#child = undefined;
    };
    child.on('error', forget).on('close', forget);
    // A write tells of it.
    child.stdin.on('error', forget);
    return child;
  }
}

const tag = 'ringfence-audit';

/** Journald splits lines beyond 48 KB, and syslog daemons cut messages beyond 8 KB. */
export function sinkOf(where: string): Sink {
  if (where === '-') return new OutputSink();
  if (where === 'journald')
    return new ProgramSink(['systemd-cat', `--identifier=${tag}`, '--priority=info', '--level-prefix=false'], 40_000);
  if (where === 'syslog')
    return new ProgramSink(['logger', '--tag', tag, '--priority', 'auth.info', '--size', '8192'], 7_500);
  return new FileSink(where);
}
