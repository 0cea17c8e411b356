/**
 * Owns where digests are computed: small ones at once, large ones one after the other in a worker thread, so that they
 * do not block the event loop.
 */
import { basename } from 'node:path';
import { Worker } from 'node:worker_threads';
import { Fleet } from '../../policy/fleet/fleet.ts';
import type { DeviceIdentity } from '../../policy/fleet/identity.ts';
import type { PolicyIsolation } from '../../policy/isolation/policy-isolation.ts';
import type { TimeSlices } from '../scheduling/time-slices.ts';
import { digestOf, type DigestGroup } from './digest-job.ts';
import type { FromThread, ToThread } from './digest-thread-entry.ts';

export interface DigestTask {
  readonly groups: readonly DigestGroup[];
  readonly isolation?: PolicyIsolation | undefined;
  /** The devices that the groups may name, at one moment; empty when the groups name no device. */
  readonly devices: readonly DeviceIdentity[];
  /** The same for tasks with the same devices. */
  readonly fleet: object;
  /** The moment that is asked about, in milliseconds since the epoch. */
  readonly at: number;
}

export interface Digester {
  /** Undefined where a group is not the one that was meant, or the policy is more than can be worked out here. */
  digest(task: DigestTask): Promise<string | undefined>;
}

/** A task of up to this many characters runs at once: it takes a few milliseconds at most. A device counts as some characters. */
const smallTask = 20_000;
const deviceWeight = 100;
/** Devices in one message. */
const devicesAtOnce = 500;
/** The thread ends after this long without work. */
const idleMs = 60_000;
/** Any policy within the limits takes a third of it. One that takes more ends the thread, and nothing else. */
const resourceLimits = { maxOldGenerationSizeMb: 1_024 };

const weightOf = ({ groups, devices }: DigestTask): number =>
  groups.reduce((sum, { json }) => sum + json.length, deviceWeight * devices.length);

/** How to start a thread; undefined when there can be none. */
async function threadStarter(): Promise<(() => Worker) | undefined> {
  const { entryUrl, threadName } = await import('./digest-thread-entry.ts');
  // A thread needs its own entry file. In tests, and in a single-file build, there is none.
  const file = basename(entryUrl);
  const isAlone = file.includes('digest-thread-entry') && file.endsWith('.mjs');
  return isAlone ? () => new Worker(new URL(entryUrl), { workerData: threadName, resourceLimits }) : undefined;
}

export class DigestThread implements Digester {
  readonly #slices: TimeSlices;
  readonly #starter: typeof threadStarter;
  #worker: Worker | undefined;
  /** The devices that the thread knows. */
  #fleet: object | undefined;
  #last: Promise<unknown> = Promise.resolve();
  #idle: NodeJS.Timeout | undefined;

  constructor(slices: TimeSlices, starter = threadStarter) {
    this.#slices = slices;
    this.#starter = starter;
  }

  async digest(task: DigestTask): Promise<string | undefined> {
    const start = await this.#starter();
    if (start === undefined || weightOf(task) <= smallTask) return digestOf(task, new Fleet(task.devices));
    const turn = this.#last.then(() => this.#ask(task, start));
    this.#last = turn.catch(() => {});
    return turn;
  }

  close(): void {
    clearTimeout(this.#idle);
    void this.#worker?.terminate();
    this.#worker = undefined;
    this.#fleet = undefined;
  }

  #start(start: () => Worker): Worker {
    const worker = start();
    // Between tasks no other listener handles a failure of the thread. An idle thread that ends is only dropped.
    worker.on('error', () => {});
    worker.once('exit', () => this.#worker === worker && this.close());
    worker.unref();
    return worker;
  }

  async #ask({ groups, isolation, devices, fleet, at }: DigestTask, start: () => Worker): Promise<string | undefined> {
    clearTimeout(this.#idle);
    const worker = (this.#worker ??= this.#start(start));
    let stopListening = (): void => {};
    const answered = new Promise<FromThread>((resolve, reject) => {
      const onExit = (): void => reject(new Error('the thread ended'));
      worker.once('message', resolve).once('error', reject).once('exit', onExit);
      // These alone: Node has listeners of its own there, without which no later message arrives.
      stopListening = () => void worker.off('message', resolve).off('error', reject).off('exit', onExit);
    });
    // The `await` below reports the failure. Without this handler, a thread that ends earlier would cause an unhandled rejection.
    answered.catch(() => {});
    const tell = async (message: ToThread): Promise<void> => {
      await this.#slices.next();
      // eslint-disable-next-line unicorn/require-post-message-target-origin -- a thread is no window
      worker.postMessage(message);
    };
    try {
      if (devices.length > 0 && this.#fleet !== fleet) {
        this.#fleet = undefined;
        await tell({ type: 'forget' });
        for (let from = 0; from < devices.length; from += devicesAtOnce) {
          await tell({ type: 'devices', devices: devices.slice(from, from + devicesAtOnce) });
        }
        this.#fleet = fleet;
      }
      for (const group of groups) await tell({ type: 'group', group });
      await tell({ type: 'digest', isolation, at });
      const answer = await answered;
      if ('failure' in answer) throw new Error(answer.failure);
      return answer.digest;
    } catch (cause) {
      this.close();
      // Out of memory: the digest is unknown, and no device counts as in force by it.
      if (cause instanceof Error && 'code' in cause && cause.code === 'ERR_WORKER_OUT_OF_MEMORY') return undefined;
      throw cause;
    } finally {
      stopListening();
      this.#idle = setTimeout(() => this.close(), idleMs).unref();
    }
  }
}
