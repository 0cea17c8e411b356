/** Owns the lists of what has touched devices: those that the same changes touched share one list, however many they are. */
import type { Touch } from './verdict.ts';

/** Changes that are remembered of each device: enough for whoever waits for one that others have followed. */
const mostTouches = 8;

export const untouched: readonly Touch[] = Object.freeze([]);

/** A touch, and the lists that it made of others. */
interface Made {
  readonly touch: Touch;
  readonly lists: Map<readonly Touch[], readonly Touch[]>;
}

/**
 * A change may touch ten thousand devices, one after the other. A list for each of them would be most of the garbage that following a change
 * leaves, so the lists of the change before are looked up by which list they were made of.
 */
export class TouchLists {
  /** By the key of the touch. */
  readonly #made = new Map<string, Made>();
  #revision = Number.NaN;

  /** The list with this touch at its end; the earliest are forgotten. */
  after(touches: readonly Touch[], touch: Touch): readonly Touch[] {
    const { key, revision } = touch;
    // What another change made is not asked for again.
    if (revision !== this.#revision) this.#made.clear();
    this.#revision = revision;
    let made = this.#made.get(key);
    if (made === undefined || made.touch.atLatest !== touch.atLatest) {
      made = { touch, lists: new Map() };
      this.#made.set(key, made);
    }
    const known = made.lists.get(touches);
    if (known !== undefined) return known;
    const list = [...touches.slice(1 - mostTouches), made.touch];
    made.lists.set(touches, list);
    return list;
  }
}
