/** Owns the price of policy tests: the steps that judging them takes, counted as they are taken. */

import type { PolicyTest } from '../../policy/policy-test/policy-test.ts';

/** So many steps at once hold nobody up: a fraction of a millisecond. */
const stepsAtOnce = 20_000;

/** Thrown where the tests cost more than they may: these take the most, by their names. */
export class TestsTooCostly extends Error {
  readonly code = 'tests_too_costly';
  readonly tests: readonly string[];

  constructor(tests: readonly string[]) {
    super('the policy tests take too much work');
    this.name = 'TestsTooCostly';
    this.tests = tests;
  }
}

/** How many tests an error names. */
const mostNamed = 20;

/** A step is a look at one device, one rule or one word of a set. */
export class Effort {
  taken = 0;
  /** What was paid before, for what is known from then. */
  #charged = 0;
  readonly #most: number;
  readonly #tests: readonly PolicyTest[];
  readonly #ofTests: { readonly test: PolicyTest; readonly steps: number }[] = [];
  #before = 0;
  #pausedAt = 0;

  /** `most` steps may be taken for these tests, which are judged in their order. */
  constructor(most: number, tests: readonly PolicyTest[]) {
    this.#most = most;
    this.#tests = tests;
  }

  take(steps: number): void {
    this.taken += steps;
  }

  /** The price: what it takes to find out everything anew. */
  get price(): number {
    return this.taken + this.#charged;
  }

  /** What is known of a test counts as when it was found out. */
  charge(steps: number): void {
    this.#charged += steps;
  }

  /** What was taken since the last test belongs to the next one; without one, to none. */
  endTest(test?: PolicyTest): void {
    if (test !== undefined) this.#ofTests.push({ test, steps: this.sinceTest });
    this.#before = this.price;
  }

  get sinceTest(): number {
    return this.price - this.#before;
  }

  /** Whether it is time for a pause. Throws `TestsTooCostly` where the price is too high. */
  isDue(): boolean {
    if (this.price > this.#most) throw new TestsTooCostly(this.#mostCostly());
    if (this.taken - this.#pausedAt < stepsAtOnce) return false;
    this.#pausedAt = this.taken;
    return true;
  }

  #mostCostly(): readonly string[] {
    // It ended at the one after those that have ended.
    const next = this.#tests[this.#ofTests.length];
    const all = [...this.#ofTests, ...(next === undefined ? [] : [{ test: next, steps: this.sinceTest }])];
    return all
      .toSorted((a, b) => b.steps - a.steps)
      .slice(0, mostNamed)
      .map(({ test }) => test.name);
  }
}
