/** Owns the waiting for a condition: it polls, at first often, and gives up only after a very long time. */

/** Milliseconds: a bound on what never happens, no measure. A busy machine takes ten times as long as a quiet one. */
const longest = 300_000;

/** Waits until the condition holds. The error names `what` if it never does. */
export async function eventually(
  what: string | (() => string | Promise<string>),
  condition: () => boolean | Promise<boolean>,
): Promise<void> {
  const until = Date.now() + longest;
  for (let pause = 5; !(await condition()); pause = Math.min(pause * 1.5, 100)) {
    if (Date.now() > until) throw new Error(`it never came to pass: ${typeof what === 'string' ? what : await what()}`);
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}
