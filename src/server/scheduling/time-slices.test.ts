/** Proves that background work holds the event loop for one slice at most, and that all background work shares the slices in turn. */
import { expect, test } from 'vitest';
import { TimeSlices } from './time-slices.ts';

/** A loop whose turns the test takes, and whose time passes only while something works. */
class Loop {
  now = 0;
  rests = 0;
  #due: (() => void)[] = [];
  readonly slices: TimeSlices;

  constructor(looked: () => void = () => {}) {
    const monotonic = (): number => {
      looked();
      return this.now;
    };
    const defer = (run: () => void): unknown => this.#due.push(run);
    const rest = (run: () => void): void => {
      this.rests += 1;
      defer(run);
    };
    this.slices = new TimeSlices({ monotonic, worked: () => this.now, defer, rest });
  }

  async turn(): Promise<void> {
    const due = this.#due;
    this.#due = [];
    for (const run of due) run();
    for (let i = 0; i < 20; i += 1) await Promise.resolve();
  }
}

test('a long walk does a slice of its work in each turn, and all of it in the end', async () => {
  const loop = new Loop();
  const done: number[] = [];
  const walk = loop.slices.each(
    Array.from({ length: 20 }, (_, i) => i),
    (item) => {
      done.push(item);
      loop.now += 0.5;
    },
  );
  const counts: number[] = [];
  for (let turn = 0; turn < 6; turn += 1) {
    await loop.turn();
    counts.push(done.length);
  }
  expect(counts).toEqual([4, 8, 12, 16, 20, 20]);
  await walk;
  expect(done).toEqual(Array.from({ length: 20 }, (_, i) => i));
});

test('what has few steps waits for no slice, and what has more does', async () => {
  const loop = new Loop();
  function* steps(count: number): Generator<void, number> {
    for (let step = 0; step < count; step += 1) {
      loop.now += 1;
      yield;
    }
    return count;
  }
  expect(await loop.slices.run(steps(9), { atOnce: 10 })).toBe(9);
  expect(loop.now).toBe(9);
  const long = loop.slices.run(steps(15), { atOnce: 10 });
  expect(loop.now).toBe(19);
  for (let turn = 0; turn < 5; turn += 1) await loop.turn();
  expect(await long).toBe(15);
  expect(loop.now).toBe(24);
});

test('however many walks there are, a turn holds one slice, and each gets its turn', async () => {
  const loop = new Loop();
  const done: string[] = [];
  const walk = (name: string): Promise<void> =>
    loop.slices.each([1, 2, 3, 4, 5, 6], () => {
      done.push(name);
      loop.now += 1;
    });
  const walks = Promise.all([walk('a'), walk('b'), walk('c')]);
  const most: number[] = [];
  for (let turn = 0; turn < 9; turn += 1) {
    const before = loop.now;
    await loop.turn();
    most.push(loop.now - before);
  }
  await walks;
  expect(Math.max(...most)).toBe(2);
  expect(done.slice(0, 6)).toEqual(['a', 'a', 'b', 'b', 'c', 'c']);
});

test('what is taken away or added while a walk pauses does not disturb it', async () => {
  const loop = new Loop();
  const items = new Set([1, 2, 3]);
  const done: number[] = [];
  const walk = loop.slices.each(items, (item) => {
    done.push(item);
    items.delete(2);
    items.add(9);
    loop.now += 5;
  });
  for (let turn = 0; turn < 4; turn += 1) await loop.turn();
  await walk;
  expect(done).toEqual([1, 2, 3]);
});

test('while others are served between the slices, these are a quarter as long and a rest follows each', async () => {
  const loop = new Loop();
  const done: number[] = [];
  const walk = loop.slices.each(
    Array.from({ length: 40 }, (_, i) => i),
    (item) => {
      done.push(item);
      loop.now += 0.25;
    },
  );
  const counts: [number, number][] = [];
  const turn = async (servedForMs: number): Promise<void> => {
    const before = [done.length, loop.rests] as const;
    loop.now += servedForMs;
    await loop.turn();
    counts.push([done.length - before[0], loop.rests - before[1]]);
  };
  for (const servedForMs of [0, 0.1, 1, 1, 0.3, 0, 1, 0]) await turn(servedForMs);
  expect(counts).toEqual([
    [8, 0],
    [8, 0],
    [2, 1],
    [2, 1],
    [2, 1],
    [8, 0],
    [2, 1],
    [8, 0],
  ]);
  await walk;
});

test('small pieces cost few looks at the clock; as soon as they grow, it is looked at after each', async () => {
  let looks = 0;
  const loop = new Loop(() => (looks += 1));
  const done: number[] = [];
  const walk = loop.slices.each(
    Array.from({ length: 1_000 }, (_, i) => i),
    (item) => {
      done.push(item);
      loop.now += item < 900 ? 0.001 : 0.5;
    },
  );
  await loop.turn();
  expect(looks).toBeLessThan(done.length / 4);
  const most: number[] = [];
  while (done.length < 1_000) {
    const before = loop.now;
    await loop.turn();
    most.push(loop.now - before);
  }
  await walk;
  // Once more than a slice: a handful that was begun as small ones.
  expect(most.filter((ms) => ms > 2.5)).toHaveLength(1);
  expect(Math.max(...most)).toBeLessThan(9);
});
