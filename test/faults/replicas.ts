/** Owns the servers of a fault run: real processes on one PostgreSQL, each on a port of its own, killed and started at will. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../lib/free-port.ts';
import { mortal } from '../lib/mortal.ts';
import type { Random } from '../lib/random.ts';

export const adminToken = `rf_user_${'f'.repeat(43)}`;

function sendTo(pids: readonly number[], name: NodeJS.Signals): void {
  for (const pid of pids) {
    try {
      process.kill(pid, name);
    } catch {
      // It ended meanwhile.
    }
  }
}

export class Replica {
  readonly url: string;
  readonly #program: string;
  readonly #args: readonly string[];
  readonly #env: NodeJS.ProcessEnv;
  #child: ChildProcess | undefined;
  /** The last it said, for a run that fails. */
  said = '';

  constructor(options: {
    program: string;
    port: number;
    databaseUrl: string;
    data: string;
    workers: number;
    args?: readonly string[];
  }) {
    this.url = `http://127.0.0.1:${options.port}`;
    this.#program = options.program;
    this.#args = ['server', '--listen', `127.0.0.1:${options.port}`, '--log-level', 'warn', ...(options.args ?? [])];
    this.#env = {
      ...process.env,
      RINGFENCE_DATABASE_URL: options.databaseUrl,
      RINGFENCE_DATA: options.data,
      RINGFENCE_ADMIN_TOKEN: adminToken,
      RINGFENCE_RATE_LIMIT: '0',
      RINGFENCE_WORKERS: String(options.workers),
    };
  }

  get up(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Starts it and waits until it is ready. */
  async start(): Promise<void> {
    const child = spawn(...mortal(process.execPath, [this.#program, ...this.#args]), {
      env: this.#env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    const hear = (chunk: Buffer): void => {
      this.said = (this.said + chunk.toString()).slice(-4_000);
    };
    child.stdout.on('data', hear);
    child.stderr.on('data', hear);
    for (let i = 0; i < 3_000; i += 1) {
      if (!this.up) return;
      if (await this.ready()) return;
      await sleep(20);
    }
    throw new Error(`a server did not become ready: ${this.said}`);
  }

  async ready(): Promise<boolean> {
    try {
      return (await fetch(`${this.url}/readyz`, { signal: AbortSignal.timeout(1_000) })).ok;
    } catch {
      return false;
    }
  }

  async stop(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const child = this.#child;
    if (child === undefined || !this.up) return;
    const gone = once(child, 'exit');
    child.kill(signal);
    await Promise.race([gone, sleep(30_000, undefined, { ref: false })]);
    if (this.up) child.kill('SIGKILL');
  }

  /** Kills one of its workers, if it has any: it is replaced, and its streams go elsewhere. */
  killWorker(random: Random): void {
    const workers = this.#workers();
    if (workers.length > 0) sendTo([random.pick(workers)], 'SIGKILL');
  }

  /** Freezes a worker for a while and then kills it: no client that connected meanwhile may be left waiting. */
  async freezeAndKillWorker(random: Random): Promise<void> {
    const workers = this.#workers();
    if (workers.length === 0) return;
    const frozen = [random.pick(workers)];
    sendTo(frozen, 'SIGSTOP');
    await sleep(random.int(50, 1_000));
    sendTo(frozen, 'SIGKILL');
  }

  /** Freezes it for a while, all its processes: it is there, and does nothing. */
  async freeze(ms: number): Promise<void> {
    const { pid } = this;
    if (pid === undefined || !this.up) return;
    const all = [pid, ...this.#workers()];
    sendTo(all, 'SIGSTOP');
    await sleep(ms);
    sendTo(all, 'SIGCONT');
  }

  #workers(): readonly number[] {
    const { pid } = this;
    if (pid === undefined || !this.up) return [];
    try {
      const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
      return children.trim().split(' ').filter(Boolean).map(Number);
    } catch {
      return [];
    }
  }
}

export async function startReplicas(
  count: number,
  options: { program: string; databaseUrl: string; data: string; args?: readonly string[] },
): Promise<readonly Replica[]> {
  const replicas: Replica[] = [];
  for (let i = 0; i < count; i += 1) {
    // The first is a server of several processes.
    const workers = i === 0 ? 2 : 1;
    const replica = new Replica({ ...options, workers, data: `${options.data}/${i}`, port: await freePort() });
    await replica.start();
    if (!replica.up) throw new Error(`a server ended at its start: ${replica.said}`);
    replicas.push(replica);
  }
  return replicas;
}
