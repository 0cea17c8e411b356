/** Owns one long-lived program of the lab: its log, its output and its end. */
import type { ChildProcess } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** How much of a program's output is kept in memory. */
const keptBytes = 64 * 1024;

export interface ProcessExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export class ChildProgram {
  readonly ended: Promise<ProcessExit>;
  readonly #child: ChildProcess;
  #output = '';

  constructor(child: ChildProcess, logFile: string) {
    this.#child = child;
    const log = createWriteStream(logFile, { flags: 'a', mode: 0o600 });
    log.on('error', () => {}); // The lab's folder may be gone before the last line is written.
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.#output = `${this.#output}${text}`.slice(-keptBytes);
        log.write(text);
      });
    }
    this.ended = new Promise((resolve) => {
      child.once('error', (error) => {
        this.#output += error.message;
        resolve({ code: 1, signal: null });
      });
      child.once('close', (code, signal) => {
        log.end();
        resolve({ code, signal });
      });
    });
  }

  get pid(): number {
    return this.#child.pid ?? Number.NaN;
  }
  get output(): string {
    return this.#output;
  }
  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Waits until its output matches. */
  async waitFor(pattern: RegExp): Promise<RegExpExecArray> {
    for (let attempt = 0; attempt < 18_000; attempt++) {
      const found = pattern.exec(this.#output);
      if (found !== null) return found;
      if (!this.isRunning) break;
      await sleep(10);
    }
    throw new Error(`its output never matched ${pattern}; the output was: ${this.#output.slice(-2_000).trim()}`);
  }

  /** Ends it, by force if it does not listen. */
  async end(signal: NodeJS.Signals = 'SIGTERM', timeout = 15_000): Promise<ProcessExit> {
    if (this.isRunning) this.#child.kill(signal);
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), timeout);
    try {
      return await this.ended;
    } finally {
      clearTimeout(timer);
    }
  }
}
