/** Owns the pool of a server's workers: they share its port, are replaced when they die, and end together. */
import cluster, { type Worker } from 'node:cluster';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../http/observe/log.ts';
import type { Measures } from '../http/observe/metrics.ts';
import { StartError } from '../lifecycle/start-error.ts';
import { StreamCounts, type StreamBound, type StreamClaim, type StreamLimits } from '../limits/stream-quota.ts';
import { mustPause, pauseMs, type Load } from './balance.ts';
import { workerVariable, type FromWorker, type Task, type ToWorker } from './messages.ts';
import { NewestTimeline } from './newest-timeline.ts';
import { socketPair } from './socket-pair.ts';

export interface WorkerPoolOptions {
  readonly count: number;
  readonly log: Log;
  /** The most streams that all workers together may have open. */
  readonly streamLimits: StreamLimits;
  /** How long workers may take to stop before they are killed. */
  readonly timeoutMs: number;
}

/** Waits before a worker that keeps dying is replaced; one that served for `healthyMs` starts over. */
const backOffMs = [0, 100, 250, 500, 1_000, 2_000, 5_000];
const healthyMs = 30_000;
/** The wait before a worker that an interrupt ended is replaced. */
const interruptedMs = 500;
/** So many deaths before the first worker has served are a start that cannot succeed. */
const mostDeaths = 3;
/** How long a worker may take to report what it measures. */
const measureMs = 2_000;

interface PooledWorker {
  readonly number: number;
  readonly child: Worker;
  readonly since: number;
  /** How often in a row its number has died. */
  readonly deaths: number;
  /** It takes messages. */
  started: boolean;
  /** It serves. */
  ready: boolean;
  /** Its connections, once it has reported them. */
  load: Load | undefined;
  /** Its streams, to be given back should it die: how often it has claimed each. */
  readonly streams: Map<string, { readonly claim: StreamClaim; count: number }>;
}

/** A worker's request for what all the others measure. */
interface MeasureRequest {
  readonly from: PooledWorker;
  /** The number that the requesting worker gave it. */
  readonly request: number;
  readonly waiting: Set<PooledWorker>;
  readonly measures: Measures[];
  readonly timer: NodeJS.Timeout;
}

const keyOf = ({ credential, organization = '' }: StreamClaim): string => `${credential} ${organization}`;

export class WorkerPool {
  /** For a worker that replaces another, too: alone, it would accept a primary that was replaced. */
  readonly timeline = new NewestTimeline((timeline) => {
    for (const worker of this.#workers) if (worker.started) this.#send(worker, { type: 'timeline', timeline });
  });
  readonly #o: WorkerPoolOptions;
  readonly #workers = new Set<PooledWorker>();
  readonly #requests = new Map<number, MeasureRequest>();
  readonly #streams: StreamCounts;
  #lastRequest = 0;
  #task: Task | undefined;
  #serving = false;
  #stopping = false;
  #onServing: (url: string) => void = () => {};
  #onFailure: (error: Error) => void = (error) => (this.#failure = error);
  /** Failed before there was a task. */
  #failure: Error | undefined;
  #onEmpty: () => void = () => {};

  /** Starts the first worker at once: it loads while others prepare what it will serve. The others follow when it serves, so as not to delay it. */
  constructor(options: WorkerPoolOptions) {
    this.#o = options;
    this.#streams = new StreamCounts(options.streamLimits);
    // All workers wait at one listening socket, and the kernel gives a connection to the first that accepts. If this
    // process handed connections over, one on its way to a killed worker would stay open and unanswered for ever.
    cluster.schedulingPolicy = cluster.SCHED_NONE;
    // However this process ends. Without it, the workers outlive the database for a moment, and tell of lost connections.
    process.on('exit', () => {
      for (const worker of this.#workers) worker.child.process.kill('SIGKILL');
    });
    this.#start(1, 0);
  }

  /** Gives workers their task; resolves with the address when the first of them serves. */
  serve(task: Task): Promise<string> {
    return new Promise((resolve, reject) => {
      if (this.#failure !== undefined) reject(this.#failure);
      this.#onServing = resolve;
      this.#onFailure = reject;
      this.#task = task;
      for (const worker of this.#workers) if (worker.started) this.#serve(worker, task);
    });
  }

  /** Ends all workers, cleanly if they end in time. */
  async stop(): Promise<void> {
    this.#stopping = true;
    const empty = new Promise<void>((resolve) => (this.#onEmpty = resolve));
    // One that takes no messages yet has nothing to finish.
    for (const worker of this.#workers) {
      if (worker.started) this.#send(worker, { type: 'stop' });
      else worker.child.process.kill('SIGKILL');
    }
    if (this.#workers.size === 0) return;
    const cut = setTimeout(() => {
      for (const worker of this.#workers) worker.child.process.kill('SIGKILL');
    }, this.#o.timeoutMs);
    await empty;
    clearTimeout(cut);
  }

  #start(number: number, deaths: number): void {
    const child = cluster.fork({ [workerVariable]: `${process.pid} ${number}` });
    const worker: PooledWorker = {
      number,
      child,
      deaths,
      since: performance.now(),
      started: false,
      ready: false,
      load: undefined,
      streams: new Map(),
    };
    this.#workers.add(worker);
    child.on('message', (message: FromWorker) => this.#receive(worker, message));
    // A failed message needs no handling: `exit` follows.
    child.on('error', () => {});
    child.once('exit', (code, signal) => void this.#onExit(worker, signal ?? code));
  }

  #send(worker: PooledWorker, message: ToWorker): void {
    if (worker.child.isConnected()) worker.child.send(message, () => {});
  }

  #serve(worker: PooledWorker, task: Task): void {
    this.#send(worker, { type: 'serve', task, timeline: this.timeline.newest });
  }

  #receive(worker: PooledWorker, message: FromWorker): void {
    switch (message.type) {
      case 'started':
        worker.started = true;
        if (this.#stopping) this.#send(worker, { type: 'stop' });
        else if (this.#task !== undefined) this.#serve(worker, this.#task);
        break;
      case 'timeline':
        this.timeline.saw(message.timeline);
        break;
      case 'ready':
        worker.ready = true;
        for (const other of this.#workers) if (other !== worker && other.ready) void this.#link(worker, other);
        if (!this.#serving) this.#onFirstReady(message.url);
        break;
      case 'failed':
        if (this.#serving)
          this.#o.log.error({ worker: worker.number }, `a worker cannot serve: ${message.lines.join(' ')}`);
        else this.#onFailure(new StartError(message.lines, message.exitCode));
        break;
      case 'connections':
        this.#balance(worker, message.count);
        break;
      case 'measure-others':
        this.#measureOthers(worker, message.request);
        break;
      case 'measured':
        this.#requests.get(message.request)?.measures.push(message.measures);
        this.#measured(message.request, worker);
        break;
      case 'count-streams': {
        const bounds = message.claims.map((claim) => this.#countStream(worker, claim));
        this.#send(worker, { type: 'streams-counted', request: message.request, bounds });
        break;
      }
      case 'credential-failed':
        for (const other of this.#workers) if (other !== worker && other.ready) this.#send(other, message);
        break;
      case 'streams-ended':
        for (const claim of message.claims) this.#endStream(worker, claim);
        break;
      default:
        message satisfies never;
    }
  }

  #onFirstReady(url: string): void {
    this.#serving = true;
    this.#onServing(url);
    if (this.#stopping) return;
    for (let number = 2; number <= this.#o.count; number += 1) this.#start(number, 0);
  }

  // How workers tell each other of commits: past this process.

  async #link(...two: readonly [PooledWorker, PooledWorker]): Promise<void> {
    try {
      const ends = await socketPair();
      ends.forEach((socket, index) => {
        const child = two[index]?.child;
        if (child?.isConnected() === true) child.send({ type: 'worker-peer' } satisfies ToWorker, socket, () => {});
        else socket.destroy();
      });
    } catch (error) {
      this.#o.log.warn(
        { err: error },
        'workers cannot notify each other of changes directly; they use the database instead',
      );
    }
  }

  // Which workers take connections.

  #balance(worker: PooledWorker, connections: number): void {
    const now = performance.now();
    const load = { connections, reportedAt: now, pausedUntil: worker.load?.pausedUntil ?? 0 };
    worker.load = load;
    const loads = [...this.#workers].flatMap((one) => one.load ?? []);
    if (this.#stopping || !mustPause(load, loads, now)) return;
    worker.load = { ...load, pausedUntil: now + pauseMs };
    this.#send(worker, { type: 'pause' });
  }

  // How many streams all workers have.

  #countStream(worker: PooledWorker, claim: StreamClaim): StreamBound | null {
    const bound = this.#streams.add(claim);
    if (bound !== undefined) return bound;
    const key = keyOf(claim);
    const known = worker.streams.get(key);
    if (known === undefined) worker.streams.set(key, { claim, count: 1 });
    else known.count += 1;
    return null;
  }

  #endStream(worker: PooledWorker, claim: StreamClaim): void {
    const known = worker.streams.get(keyOf(claim));
    if (known === undefined) return;
    this.#streams.remove(claim);
    known.count -= 1;
    if (known.count === 0) worker.streams.delete(keyOf(claim));
  }

  // What all workers measure.

  #measureOthers(from: PooledWorker, request: number): void {
    const id = (this.#lastRequest += 1);
    const waiting = new Set([...this.#workers].filter((worker) => worker !== from && worker.ready));
    const timer = setTimeout(() => this.#answer(id), measureMs).unref();
    this.#requests.set(id, { from, request, waiting, measures: [], timer });
    for (const worker of waiting) this.#send(worker, { type: 'measure', request: id });
    if (waiting.size === 0) this.#answer(id);
  }

  #measured(id: number, worker: PooledWorker): void {
    const pending = this.#requests.get(id);
    if (pending?.waiting.delete(worker) === true && pending.waiting.size === 0) this.#answer(id);
  }

  #answer(id: number): void {
    const pending = this.#requests.get(id);
    if (pending === undefined) return;
    this.#requests.delete(id);
    clearTimeout(pending.timer);
    this.#send(pending.from, {
      type: 'others-measured',
      request: pending.request,
      measures: pending.measures,
    });
  }

  // Ends.

  async #onExit(worker: PooledWorker, how: string | number): Promise<void> {
    this.#workers.delete(worker);
    for (const { claim, count } of worker.streams.values()) {
      for (let left = count; left > 0; left -= 1) this.#streams.remove(claim);
    }
    for (const id of this.#requests.keys()) this.#measured(id, worker);
    if (this.#stopping) {
      if (this.#workers.size === 0) this.#onEmpty();
      return;
    }
    const deaths = performance.now() - worker.since > healthyMs ? 1 : worker.deaths + 1;
    if (!this.#serving && deaths > mostDeaths) {
      this.#onFailure(new StartError([`the workers exit before they serve requests (${how})`]));
      return;
    }
    // Ctrl-C reaches all processes, and ends a worker that is too new to ignore it. This process may hear of it a moment later.
    const isInterrupted = how === 'SIGINT' && !worker.started;
    const wait = isInterrupted ? interruptedMs : (backOffMs[Math.min(deaths - 1, backOffMs.length - 1)] ?? 0);
    if (!isInterrupted)
      this.#o.log.error(
        { worker: worker.number, how },
        `worker ${worker.number} exited unexpectedly (${how}); starting a new one in ${wait} ms`,
      );
    if (wait > 0) await sleep(wait);
    if (!this.#stopping) this.#start(worker.number, deaths);
  }
}
