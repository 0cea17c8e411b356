/** Owns a worker's side of the pool: the messages that it receives from the primary process, and its reports. */
import cluster from 'node:cluster';
import { Socket } from 'node:net';
import type { FailedElsewhere } from '../limits/failed-elsewhere.ts';
import type { SharedListener } from '../http/listener/shared-listener.ts';
import type { Measures } from '../http/observe/metrics.ts';
import { pauseMs, reportMs } from './balance.ts';
import type { StreamBound, StreamClaim, StreamCounter } from '../limits/stream-quota.ts';
import { workerVariable, type FromWorker, type Task, type ToWorker } from './messages.ts';
import { NewestTimeline } from './newest-timeline.ts';
import { WorkerPeerLinks } from './worker-peer-links.ts';

export class WorkerProcess {
  /** Which worker this is, from 1. */
  readonly number: number;
  /** What to serve. Never settles when there is nothing to serve any more. */
  readonly task: Promise<Task>;
  /** Resolves when it is time to stop. */
  readonly stop: Promise<void>;
  /** Measures this process. */
  measure: () => Promise<Measures> = () => Promise.resolve([]);
  /** The other workers. */
  readonly workerPeers = new WorkerPeerLinks();
  readonly timeline = new NewestTimeline((timeline) => this.#send({ type: 'timeline', timeline }));
  readonly #requests = new Map<number, (measures: readonly Measures[]) => void>();
  readonly #counting = new Map<number, (bounds: readonly (StreamBound | undefined)[]) => void>();
  #endedStreams: StreamClaim[] = [];
  #lastRequest = 0;
  #pause: () => void = () => {};
  #onFailedElsewhere: (address: string) => void = () => {};

  /** This process, if it is a worker of the one that started it; `orphan` if that one has ended already. */
  static current(): WorkerProcess | 'orphan' | undefined {
    const [parent, number] = process.env[workerVariable]?.split(' ') ?? [];
    if (!cluster.isWorker || parent === undefined) return undefined;
    return parent === String(process.ppid) ? new WorkerProcess(Number(number)) : 'orphan';
  }

  private constructor(number: number) {
    this.number = number;
    let serve: (task: Task) => void = () => {};
    let stop: () => void = () => {};
    this.task = new Promise((resolve) => (serve = resolve));
    this.stop = new Promise((resolve) => (stop = resolve));
    process.on('message', (message: ToWorker, handle: unknown) => {
      switch (message.type) {
        case 'serve':
          this.timeline.hear(message.timeline);
          serve(message.task);
          break;
        case 'timeline':
          this.timeline.hear(message.timeline);
          break;
        case 'stop':
          stop();
          break;
        case 'pause':
          this.#pause();
          break;
        case 'measure':
          void this.#sendMeasures(message.request);
          break;
        case 'others-measured':
          this.#requests.get(message.request)?.(message.measures);
          this.#requests.delete(message.request);
          break;
        case 'streams-counted':
          this.#counting.get(message.request)?.(message.bounds.map((bound) => bound ?? undefined));
          this.#counting.delete(message.request);
          break;
        case 'credential-failed':
          this.#onFailedElsewhere(message.address);
          break;
        case 'worker-peer':
          if (handle instanceof Socket) this.workerPeers.add(handle);
          break;
        default:
          message satisfies never;
      }
    });
    this.#send({ type: 'started' });
  }

  reportReady(url: string): void {
    this.#send({ type: 'ready', url });
  }

  /** Resolves when the report has been sent. */
  async reportFailure(lines: readonly string[], exitCode: 1 | 2): Promise<void> {
    await new Promise<void>((resolve) => this.#send({ type: 'failed', lines, exitCode }, resolve));
  }

  /**
   * Reports the number of connections and pauses when the primary process asks for it, so that the workers' shares stay
   * even. Returns the function that stops this.
   */
  balance(listener: SharedListener): () => void {
    let paused: NodeJS.Timeout | undefined;
    this.#pause = () => {
      clearTimeout(paused);
      listener.pause();
      paused = setTimeout(() => listener.open(), pauseMs);
    };
    const reports = setInterval(() => {
      void listener.connections().then((count) => this.#send({ type: 'connections', count }));
    }, reportMs).unref();
    return () => {
      this.#pause = () => {};
      clearInterval(reports);
      clearTimeout(paused);
    };
  }

  /** What the other workers measure; those that do not answer are left out. */
  measureOthers(): Promise<readonly Measures[]> {
    this.#lastRequest += 1;
    const request = this.#lastRequest;
    return new Promise((resolve) => {
      this.#requests.set(request, resolve);
      this.#send({ type: 'measure-others', request });
    });
  }

  /** Counts streams where all workers' streams are counted. */
  readonly streams: StreamCounter = {
    add: (claims) => {
      const request = (this.#lastRequest += 1);
      return new Promise((resolve) => {
        this.#counting.set(request, resolve);
        this.#send({ type: 'count-streams', request, claims });
      });
    },
    remove: (claim) => {
      if (this.#endedStreams.length === 0) setImmediate(() => this.#sendEnded());
      this.#endedStreams.push(claim);
    },
  };

  /** The failed credentials of the other workers. */
  readonly failedElsewhere: FailedElsewhere = {
    tell: (address) => this.#send({ type: 'credential-failed', address }),
    listen: (listener) => (this.#onFailedElsewhere = listener),
  };

  /** Streams that end in one turn of the event loop go together. */
  #sendEnded(): void {
    const claims = this.#endedStreams;
    this.#endedStreams = [];
    this.#send({ type: 'streams-ended', claims });
  }

  /** No more messages: the process may end. */
  disconnect(): void {
    this.workerPeers.close();
    if (process.connected) process.disconnect();
  }

  async #sendMeasures(request: number): Promise<void> {
    this.#send({ type: 'measured', request, measures: await this.measure() });
  }

  /** The primary process may be gone: then this one is about to end too. */
  #send(message: FromWorker, sent: () => void = () => {}): void {
    process.send?.(message, undefined, undefined, () => sent());
  }
}
