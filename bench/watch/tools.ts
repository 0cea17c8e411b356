/** Owns the tools of the benchmarks of stream and agent: C programs built on demand, processes pinned to processors, lines read from them. */
import { spawn, spawnSync, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { cpus } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { mortal } from '../../test/lib/mortal.ts';

/** The server has one processor, the load the other; on a machine with one they share it. */
export const processor = { server: '0', load: cpus().length > 1 ? '1' : '0' } as const;

export const nowNs = (): number => Number(process.hrtime.bigint());

/** What every document carries: when it was written. */
export const marker = (): string => `@@${process.hrtime.bigint().toString(16).padStart(16, '0')}`;

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** The project's folder: benchmarks are bundled and run from elsewhere. */
export const root = ((): string => {
  let folder = import.meta.dirname;
  while (!existsSync(join(folder, 'bench/run.mjs'))) folder = dirname(folder);
  return folder;
})();

export function compile(source: string, folder: string): string {
  const program = join(folder, basename(source, '.c'));
  const args = ['-O2', '-o', program, join(root, 'bench/watch', source), '-lssl', '-lcrypto'];
  const { status, stderr } = spawnSync('gcc', args);
  if (status !== 0) throw new Error(`gcc ${source}: ${stderr.toString()}`);
  return program;
}

/** Our program, as it ships. */
export function buildOurs(folder: string): string {
  const outdir = join(folder, 'dist');
  const code = `import { buildProgram } from './scripts/build-program.mjs'; await buildProgram({ outdir: ${JSON.stringify(outdir)} });`;
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', code], { cwd: root });
  if (status !== 0) throw new Error(`the build failed: ${stderr.toString()}`);
  return join(outdir, 'ringfence.mjs');
}

/** Resident memory in KB. */
export function residentKb(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
}

/** Processor time in seconds, of user and kernel together. */
export function processorSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** A child process that answers commands line by line. */
export class Talker {
  readonly child: ChildProcessWithoutNullStreams;
  readonly #lines: string[] = [];
  #waiting: { readonly word: string; readonly resolve: (line: string) => void; readonly reject: (e: Error) => void }[] =
    [];
  #error = '';
  #over: Error | undefined;

  constructor(command: readonly string[], cpu: string, env: NodeJS.ProcessEnv = {}) {
    this.child = spawn(...mortal('taskset', ['-c', cpu, ...command]), { env: { ...process.env, ...env } });
    createInterface({ input: this.child.stdout }).on('line', (line) => this.#hear(line));
    this.child.stderr.on('data', (chunk: Buffer) => (this.#error = (this.#error + chunk.toString()).slice(-2_000)));
    this.child.on('exit', (code) => {
      this.#over = new Error(`${command[0]} ended with ${code}: ${this.#error}`);
      for (const { reject } of this.#waiting) reject(this.#over);
      this.#waiting = [];
    });
  }

  /** Why it has ended, if it has. */
  get over(): Error | undefined {
    return this.#over;
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  #hear(line: string): void {
    const index = this.#waiting.findIndex(({ word }) => line.includes(word));
    if (index < 0) this.#lines.push(line);
    else this.#waiting.splice(index, 1)[0]?.resolve(line);
  }

  /** The next line that holds a word. */
  hears(word: string, timeoutMs = 60_000): Promise<string> {
    const index = this.#lines.findIndex((line) => line.includes(word));
    if (index >= 0) return Promise.resolve(this.#lines.splice(index, 1)[0] ?? '');
    if (this.#over !== undefined) return Promise.reject(this.#over);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`waited for "${word}" in vain`)), timeoutMs);
      this.#waiting.push({
        word,
        resolve: (line) => {
          clearTimeout(timer);
          resolve(line);
        },
        reject: (error) => {
          clearTimeout(timer);
          reject(error);
        },
      });
    });
  }

  say(line: string): void {
    this.child.stdin.write(`${line}\n`);
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const gone = once(this.child, 'exit');
    this.child.kill(signal);
    await gone;
  }
}

/** What the load generator speaks. */
export type Protocol = 'http' | 'nats' | 'grpc' | 'gateway' | 'bytes';

/** How it secures a connection: a full TLS handshake each, or the session of the first one resumed. */
export type Security = 'tls' | 'resume';

export interface Reached {
  readonly first: number;
  readonly p50: number;
  readonly p99: number;
  readonly last: number;
}

const numbersOf = (line: string): readonly number[] => line.split(' ').slice(1).map(Number);

/** Many streams, held by one C program. */
export class Load {
  readonly #talker: Talker;

  private constructor(talker: Talker) {
    this.#talker = talker;
  }

  /** Opens the streams and waits until each is answered; gives the nanoseconds that took. */
  static async open(options: {
    readonly program: string;
    readonly folder: string;
    readonly protocol: Protocol;
    readonly security?: Security | undefined;
    /** Each address has some 28,000 ports to connect from. */
    readonly host?: string | undefined;
    readonly port: number;
    readonly streams: number;
    readonly request: Buffer;
    readonly ready?: string;
  }): Promise<{ readonly load: Load; readonly ns: number; readonly resumed: number }> {
    const { program, folder, security, host = '127.0.0.1', port, streams, request, ready = '' } = options;
    const protocol = security === undefined ? options.protocol : `${security}+${options.protocol}`;
    // One file for each: several start at once, and rewriting a shared file would disturb a reader.
    const file = join(folder, `request-${randomUUID()}`);
    writeFileSync(file, request);
    const command = [program, protocol, host, String(port), String(streams), file, ready];
    const talker = new Talker(command, processor.load);
    // A slow machine is slow, and no failure: some tens of streams a second would do.
    const [ns = 0, resumed = 0] = numbersOf(await talker.hears('ready', 60_000 + streams * 20));
    return { load: new Load(talker), ns, resumed };
  }

  /**
   * Counts from now on; `reached` resolves when each stream has this many more documents. What is written before this
   * call resolves may not be counted.
   */
  async expect(documents: number): Promise<{ readonly reached: Promise<Reached> }> {
    this.#talker.say(`expect ${documents}`);
    await this.#talker.hears('expecting');
    const reached = this.#talker.hears('reached').then((line) => {
      const [first = 0, p50 = 0, p99 = 0, last = 0] = numbersOf(line);
      return { first, p50, p99, last };
    });
    // The waiting caller may be busy writing when it fails.
    reached.catch(() => {});
    return { reached };
  }

  async count(): Promise<{ readonly documents: number; readonly bytes: number; readonly at: number }> {
    this.#talker.say('count');
    const [documents = 0, bytes = 0, at = 0] = numbersOf(await this.#talker.hears('count'));
    return { documents, bytes, at };
  }

  /** Lags since the last call, in milliseconds. */
  async lag(): Promise<{ readonly p50: number; readonly p99: number; readonly max: number }> {
    this.#talker.say('lag');
    const [, p50 = 0, p99 = 0, max = 0] = numbersOf(await this.#talker.hears('lag'));
    return { p50: p50 / 1e6, p99: p99 / 1e6, max: max / 1e6 };
  }

  /** Whether it polls without sleeping. Only one does at a time: they share a processor. */
  async awake(on: boolean): Promise<void> {
    this.#talker.say(`awake ${on ? 1 : 0}`);
    await this.#talker.hears('awake');
  }

  async stall(streams: number): Promise<void> {
    this.#talker.say(`stall ${streams}`);
    await this.#talker.hears('stalled');
  }

  stop(): Promise<void> {
    return this.#talker.stop('SIGKILL');
  }
}
