/** Owns the signals that stop a process of the server. */

/** Signals within this time come from one key press. */
const sameKeyMs = 500;

/**
 * Resolves at the first of these signals; a later one ends the process at once. Ctrl-C on `npm start` comes twice: from the terminal, and at the same
 * moment from npm. So one listener stays for all of them: while there was none, the second signal ended the process before its workers and its database.
 */
export function stopSignals(
  names: readonly NodeJS.Signals[],
  { now = () => performance.now(), exit = (code: number): void => process.exit(code) } = {},
): Promise<void> {
  return new Promise((resolve) => {
    let first: number | undefined;
    const onSignal = (): void => {
      first ??= now();
      if (now() - first > sameKeyMs) exit(1);
      resolve();
    };
    for (const name of names) process.on(name, onSignal);
  });
}
