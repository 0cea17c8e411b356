/** Owns the running of work in steps to its end, for tests that have nothing else to do between two steps. */
export function finished<T>(steps: Generator<void, T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}
