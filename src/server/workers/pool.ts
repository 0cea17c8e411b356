/** Owns the workers of a server: they share its port, are replaced when they die, and end together. */
import cluster, { type Worker } from 'node:cluster';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../http/observe/log.ts';
import type { Measures } from '../http/observe/metrics.ts';
import { StartError } from '../start-error.ts';
import { mustRest, restMs, type Share } from './balance.ts';
import { variable, type Order, type Task, type Word } from './messages.ts';

export interface CrewOptions {
  readonly count: number;
  readonly log: Log;
  /** How long workers may take to stop before they are killed. */
  readonly patienceMs: number;
}

/** Waits before a worker that keeps dying is replaced; one that served for `healthyMs` starts over. */
const backOffMs = [0, 100, 250, 500, 1_000, 2_000, 5_000];
const healthyMs = 30_000;
/** So many deaths before the first worker has served are a start that cannot succeed. */
const mostDeaths = 3;
/** How long a worker may take to say what it measures. */
const measureMs = 2_000;

interface Hand {
  readonly number: number;
  readonly worker: Worker;
  readonly since: number;
  /** How often in a row its number has died. */
  readonly deaths: number;
  here: boolean;
  ready: boolean;
  /** What it holds, once it has said so. */
  share: Share | undefined;
}

/** Someone wants to know what all the others measure. */
interface Question {
  readonly from: Hand;
  readonly asked: number;
  readonly waiting: Set<Hand>;
  readonly measures: Measures[];
  readonly timer: NodeJS.Timeout;
}

export class Crew {
  readonly #o: CrewOptions;
  readonly #hands = new Set<Hand>();
  readonly #questions = new Map<number, Question>();
  #questionNumber = 0;
  #task: Task | undefined;
  #serving = false;
  #stopping = false;
  #onServing: (url: string) => void = () => {};
  #onFailure: (error: Error) => void = (error) => (this.#failure = error);
  /** Failed before there was a task. */
  #failure: Error | undefined;
  #onEmpty: () => void = () => {};

  /** Starts the first worker at once: it loads while others prepare what it will serve. The others follow when it serves, so as not to delay it. */
  constructor(options: CrewOptions) {
    this.#o = options;
    // All workers wait at one listening socket, and the kernel gives a connection to whoever takes it first. Were they handed
    // over from here, the one on its way to a worker that is killed would stay open and unanswered for ever.
    cluster.schedulingPolicy = cluster.SCHED_NONE;
    this.#hire(1, 0);
  }

  /** Gives workers their task; resolves with the address when the first of them serves. */
  serve(task: Task): Promise<string> {
    return new Promise((resolve, reject) => {
      if (this.#failure !== undefined) reject(this.#failure);
      this.#onServing = resolve;
      this.#onFailure = reject;
      this.#task = task;
      for (const hand of this.#hands) if (hand.here) this.#order(hand, { do: 'serve', task });
    });
  }

  /** Ends all of them, cleanly if they let it be. */
  async stop(): Promise<void> {
    this.#stopping = true;
    const empty = new Promise<void>((resolve) => (this.#onEmpty = resolve));
    // One that has not come to listen yet has nothing to finish.
    for (const hand of this.#hands) {
      if (hand.here) this.#order(hand, { do: 'stop' });
      else hand.worker.process.kill('SIGKILL');
    }
    if (this.#hands.size === 0) return;
    const cut = setTimeout(() => {
      for (const { worker } of this.#hands) worker.process.kill('SIGKILL');
    }, this.#o.patienceMs);
    await empty;
    clearTimeout(cut);
  }

  #hire(number: number, deaths: number): void {
    const worker = cluster.fork({ [variable]: `${process.pid} ${number}` });
    const hand: Hand = {
      number,
      worker,
      deaths,
      since: performance.now(),
      here: false,
      ready: false,
      share: undefined,
    };
    this.#hands.add(hand);
    worker.on('message', (word: Word) => this.#hear(hand, word));
    // Whatever goes wrong between us and it, it ends.
    worker.on('error', () => {});
    worker.once('exit', (code, signal) => void this.#left(hand, signal ?? code));
  }

  #order(hand: Hand, order: Order): void {
    if (hand.worker.isConnected()) hand.worker.send(order, () => {});
  }

  #hear(hand: Hand, word: Word): void {
    switch (word.say) {
      case 'here':
        hand.here = true;
        if (this.#stopping) this.#order(hand, { do: 'stop' });
        else if (this.#task !== undefined) this.#order(hand, { do: 'serve', task: this.#task });
        break;
      case 'ready':
        hand.ready = true;
        if (!this.#serving) this.#begun(word.url);
        break;
      case 'failed':
        if (this.#serving) this.#o.log.error({ worker: hand.number }, `a worker cannot serve: ${word.lines.join(' ')}`);
        else this.#onFailure(new StartError(word.lines, word.exitCode));
        break;
      case 'holds':
        this.#weigh(hand, word.connections);
        break;
      case 'ask':
        this.#ask(hand, word.asked);
        break;
      case 'measured':
        this.#questions.get(word.asked)?.measures.push(word.measures);
        this.#answered(word.asked, hand);
        break;
      default:
        word satisfies never;
    }
  }

  #begun(url: string): void {
    this.#serving = true;
    this.#onServing(url);
    if (this.#stopping) return;
    for (let number = 2; number <= this.#o.count; number += 1) this.#hire(number, 0);
  }

  // Who takes connections.

  #weigh(hand: Hand, connections: number): void {
    const now = performance.now();
    const share = { connections, heardAt: now, restsUntil: hand.share?.restsUntil ?? 0 };
    hand.share = share;
    const shares = [...this.#hands].flatMap((one) => one.share ?? []);
    if (this.#stopping || !mustRest(share, shares, now)) return;
    hand.share = { ...share, restsUntil: now + restMs };
    this.#order(hand, { do: 'rest' });
  }

  // What all of them measure.

  #ask(from: Hand, asked: number): void {
    const id = (this.#questionNumber += 1);
    const waiting = new Set([...this.#hands].filter((hand) => hand !== from && hand.ready));
    const timer = setTimeout(() => this.#answer(id), measureMs).unref();
    this.#questions.set(id, { from, asked, waiting, measures: [], timer });
    for (const hand of waiting) this.#order(hand, { do: 'measure', asked: id });
    if (waiting.size === 0) this.#answer(id);
  }

  #answered(id: number, hand: Hand): void {
    const question = this.#questions.get(id);
    if (question?.waiting.delete(hand) === true && question.waiting.size === 0) this.#answer(id);
  }

  #answer(id: number): void {
    const question = this.#questions.get(id);
    if (question === undefined) return;
    this.#questions.delete(id);
    clearTimeout(question.timer);
    this.#order(question.from, { do: 'know', asked: question.asked, measures: question.measures });
  }

  // Ends.

  async #left(hand: Hand, how: string | number): Promise<void> {
    this.#hands.delete(hand);
    for (const id of this.#questions.keys()) this.#answered(id, hand);
    if (this.#stopping) {
      if (this.#hands.size === 0) this.#onEmpty();
      return;
    }
    const deaths = performance.now() - hand.since > healthyMs ? 1 : hand.deaths + 1;
    if (!this.#serving && deaths > mostDeaths) {
      this.#onFailure(new StartError([`the workers end before they serve (${how})`]));
      return;
    }
    const wait = backOffMs[Math.min(deaths - 1, backOffMs.length - 1)] ?? 0;
    this.#o.log.error(
      { worker: hand.number, how },
      `worker ${hand.number} ended unexpectedly (${how}); starting another in ${wait} ms`,
    );
    if (wait > 0) await sleep(wait);
    if (!this.#stopping) this.#hire(hand.number, deaths);
  }
}
