/** Owns an in-memory link between the processes of one server: messages are copied as JSON and may be late or lost. */
import type { WorkerPeers } from './worker-peer-hints.ts';

export class MemoryWorkerPeers implements WorkerPeers {
  readonly #others: MemoryWorkerPeers[] = [];
  #listener: (message: unknown) => void = () => {};
  /** Sent, and not heard by the others yet. */
  #underWay: string[] = [];
  /** How many characters were sent, each time. */
  readonly sizes: number[] = [];
  /** The others hear at once. */
  isImmediate = true;
  /** What is sent is lost. */
  isCut = false;

  static pair(): readonly [MemoryWorkerPeers, MemoryWorkerPeers] {
    const [one, other] = [new MemoryWorkerPeers(), new MemoryWorkerPeers()];
    one.#others.push(other);
    other.#others.push(one);
    return [one, other];
  }

  send(message: unknown): void {
    this.sizes.push(JSON.stringify(message).length);
    if (!this.isCut) this.#underWay.push(JSON.stringify(message));
    if (this.isImmediate) this.arrive();
  }

  listen(listener: (message: unknown) => void): void {
    this.#listener = listener;
  }

  /** So many of the messages under way arrive. */
  arrive(count = this.#underWay.length): void {
    for (const message of this.#underWay.splice(0, count)) {
      for (const other of this.#others) other.#listener(JSON.parse(message));
    }
  }

  /** So many of the messages under way are lost. */
  lose(count: number): void {
    this.#underWay.splice(0, count);
  }
}
