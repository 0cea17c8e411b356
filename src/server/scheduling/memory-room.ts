/**
 * Owns how much memory what is worked on at a time takes in a process: who holds something large waits until there is room. What is small is let in at once.
 *
 *     const leave = await room.enter(org, bytes);
 */
import { WorkRefused } from './work-budget.ts';

export interface MemoryRoomOptions {
  /** What all that is inside may take together, and one thing alone. */
  readonly most: number;
  /** Up to so much needs no room of its own. */
  readonly small: number;
  /** Milliseconds that something waits at most. */
  readonly patienceMs: number;
}

interface Inside {
  size: number;
  users: number;
}

interface Waiting {
  readonly name: string;
  readonly size: number;
  readonly admit: () => void;
}

export class MemoryRoom {
  readonly #o: MemoryRoomOptions;
  readonly #inside = new Map<string, Inside>();
  readonly #waiting = new Set<Waiting>();

  constructor(options: MemoryRoomOptions) {
    this.#o = options;
  }

  /** What has one name counts once, however many use it. Gives what is to be called, once, when it is no longer used. Refuses what never has room, or has none in time. */
  async enter(name: string, size: number): Promise<() => void> {
    const { most, small, patienceMs } = this.#o;
    if (size <= small) return () => {};
    if (size > most) throw new WorkRefused('too_costly');
    await new Promise<void>((resolve, reject) => {
      const giveUp = setTimeout(() => {
        this.#waiting.delete(one);
        reject(new WorkRefused('busy'));
      }, patienceMs);
      const one = {
        name,
        size,
        admit: () => {
          clearTimeout(giveUp);
          resolve();
        },
      };
      this.#waiting.add(one);
      this.#admitWaiting();
    });
    let isInside = true;
    return () => {
      if (!isInside) return;
      isInside = false;
      this.#leave(name);
    };
  }

  #leave(name: string): void {
    const inside = this.#inside.get(name);
    if (inside === undefined) return;
    inside.users -= 1;
    if (inside.users === 0) this.#inside.delete(name);
    this.#admitWaiting();
  }

  /** In the order in which they came: what is large would otherwise wait forever. */
  #admitWaiting(): void {
    for (const one of this.#waiting) {
      const known = this.#inside.get(one.name);
      const others = [...this.#inside].reduce((sum, [name, { size }]) => (name === one.name ? sum : sum + size), 0);
      if (others + one.size > this.#o.most) return;
      this.#waiting.delete(one);
      this.#inside.set(one.name, { size: Math.max(one.size, known?.size ?? 0), users: (known?.users ?? 0) + 1 });
      one.admit();
    }
  }
}
