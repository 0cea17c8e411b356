/** Owns what a running program's event loop and memory were like while something happened, whatever else the machine does meanwhile. */
import { closeSync, mkdtempSync, openSync, readFileSync, readSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const preload = pathToFileURL(fileURLToPath(new URL('./turns-preload.mjs', import.meta.url))).href;

/** Told before the program starts where to write its turns. */
export class Turns {
  readonly #folder = mkdtempSync(join(tmpdir(), 'rf-turns-'));
  readonly #file = join(this.#folder, 'turns');
  #read = 0;

  constructor() {
    writeFileSync(this.#file, '');
  }

  /** The environment that the program is started with. */
  get env(): Readonly<Record<string, string>> {
    return { NODE_OPTIONS: `--import=${preload}`, RINGFENCE_TURNS: this.#file };
  }

  /** Milliseconds of processor time of the longest turn since this was last asked; 0 where none was long. */
  longest(): number {
    const file = openSync(this.#file, 'r');
    try {
      const buffer = Buffer.alloc(1 << 20);
      const length = readSync(file, buffer, 0, buffer.length, this.#read);
      this.#read += length;
      return Math.max(0, ...buffer.toString('latin1', 0, length).trim().split('\n').map(Number));
    } finally {
      closeSync(file);
    }
  }

  close(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** Milliseconds of processor time that the thread of the program's event loop has taken. */
export const loopMs = (pid: number): number =>
  Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;

/** Forgets the most memory that the process had. */
export const forgetPeak = (pid: number): void => writeFileSync(`/proc/${pid}/clear_refs`, '5');

/** The most memory that the process had since then, in MiB. */
export const peakMiB = (pid: number): number =>
  Number(/^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? Number.NaN) / 1_024;
