/** Owns a map with changes laid over it: the map below stays as it is, and a layer costs as much as its changes. */

/** Layers of more than this share of the map below are written out as one map. */
const largestShare = 0.25;
const smallLayer = 64;

/** `undefined` in `changes` removes an entry. */
export class LayeredMap<K, V> {
  /** The map below, which many layers share. */
  readonly below: ReadonlyMap<K, V>;
  readonly changes: ReadonlyMap<K, V | undefined>;
  readonly size: number;

  constructor(below: ReadonlyMap<K, V> = new Map(), changes: ReadonlyMap<K, V | undefined> = new Map()) {
    this.below = below;
    this.changes = changes;
    let { size } = below;
    for (const [key, value] of changes) size += Number(value !== undefined) - Number(below.has(key));
    this.size = size;
  }

  get(key: K): V | undefined {
    return this.changes.has(key) ? this.changes.get(key) : this.below.get(key);
  }

  has(key: K): boolean {
    return this.get(key) !== undefined;
  }

  *entries(): Generator<[K, V]> {
    for (const [key, value] of this.below) if (!this.changes.has(key)) yield [key, value];
    for (const [key, value] of this.changes) if (value !== undefined) yield [key, value];
  }

  *keys(): Generator<K> {
    for (const [key] of this.entries()) yield key;
  }

  *values(): Generator<V> {
    for (const [, value] of this.entries()) yield value;
  }

  /** The same with more changes: one layer again, whatever came before. */
  with(more: ReadonlyMap<K, V | undefined>): LayeredMap<K, V> {
    if (more.size === 0) return this;
    const changes = new Map([...this.changes, ...more]);
    const layered = new LayeredMap(this.below, changes);
    if (changes.size <= Math.max(smallLayer, this.below.size * largestShare)) return layered;
    return new LayeredMap(new Map(layered.entries()));
  }
}
