/** Owns a worker's side: the orders it takes from the server's first process, and what it tells it. */
import cluster from 'node:cluster';
import type { Gate } from '../http/listener/gate.ts';
import type { Measures } from '../http/observe/metrics.ts';
import { restMs, tellMs } from './balance.ts';
import { variable, type Order, type Task, type Word } from './messages.ts';

export class Duty {
  /** Which worker this is, from 1. */
  readonly number: number;
  /** What to serve. Never settles when there is nothing to serve any more. */
  readonly task: Promise<Task>;
  /** Resolves when it is time to stop. */
  readonly over: Promise<void>;
  /** Says what this process measures. */
  measure: () => Promise<Measures> = () => Promise.resolve([]);
  readonly #answers = new Map<number, (measures: readonly Measures[]) => void>();
  #asked = 0;
  #rest: () => void = () => {};

  /** The duty of this process, if it is a worker of the one that started it. */
  static mine(): Duty | undefined {
    const [parent, number] = process.env[variable]?.split(' ') ?? [];
    if (!cluster.isWorker || parent !== String(process.ppid)) return undefined;
    return new Duty(Number(number));
  }

  private constructor(number: number) {
    this.number = number;
    let serve: (task: Task) => void = () => {};
    let stop: () => void = () => {};
    this.task = new Promise((resolve) => (serve = resolve));
    this.over = new Promise((resolve) => (stop = resolve));
    process.on('message', (order: Order) => {
      switch (order.do) {
        case 'serve':
          serve(order.task);
          break;
        case 'stop':
          stop();
          break;
        case 'rest':
          this.#rest();
          break;
        case 'measure':
          void this.#tellMeasures(order.asked);
          break;
        case 'know':
          this.#answers.get(order.asked)?.(order.measures);
          this.#answers.delete(order.asked);
          break;
        default:
          order satisfies never;
      }
    });
    this.#say({ say: 'here' });
  }

  ready(url: string): void {
    this.#say({ say: 'ready', url });
  }

  /** Tells how many connections are here, so that the workers' shares stay even; gives what ends this. */
  keepEven(gate: Gate): () => void {
    let resting: NodeJS.Timeout | undefined;
    this.#rest = () => {
      clearTimeout(resting);
      gate.rest();
      resting = setTimeout(() => gate.open(), restMs);
    };
    const telling = setInterval(() => {
      void gate.connections().then((connections) => this.#say({ say: 'holds', connections }));
    }, tellMs).unref();
    return () => {
      this.#rest = () => {};
      clearInterval(telling);
      clearTimeout(resting);
    };
  }

  /** Resolves when it has been told. */
  async failed(lines: readonly string[], exitCode: 1 | 2): Promise<void> {
    await new Promise<void>((resolve) => this.#say({ say: 'failed', lines, exitCode }, resolve));
  }

  /** What the other workers measure; those that do not answer are left out. */
  others(): Promise<readonly Measures[]> {
    this.#asked += 1;
    const asked = this.#asked;
    return new Promise((resolve) => {
      this.#answers.set(asked, resolve);
      this.#say({ say: 'ask', asked });
    });
  }

  /** Nothing more will be said: the process may end. */
  leave(): void {
    if (process.connected) process.disconnect();
  }

  async #tellMeasures(asked: number): Promise<void> {
    this.#say({ say: 'measured', asked, measures: await this.measure() });
  }

  /** The first process may be gone: then this one is about to end too. */
  #say(word: Word, told: () => void = () => {}): void {
    process.send?.(word, undefined, undefined, () => told());
  }
}
