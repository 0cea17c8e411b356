/** Owns the cleanup steps that undo what a server started: the last one first, within a time limit. */

type Step = () => Promise<void> | void;

export class Cleanup {
  readonly #steps: { readonly step: Step; readonly isEssential: boolean }[] = [];

  /** The server waits for an essential step however long it takes. */
  push(step: Step, { isEssential = false }: { readonly isEssential?: boolean } = {}): void {
    this.#steps.push({ step, isEssential });
  }

  /** After the time limit it starts the remaining steps and waits for the essential ones only. Rejects with the first failure, after all steps. */
  async run(withinMs?: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const over =
      withinMs === undefined ? undefined : new Promise<void>((resolve) => (timer = setTimeout(resolve, withinMs)));
    const failures: unknown[] = [];
    for (let next = this.#steps.pop(); next !== undefined; next = this.#steps.pop()) {
      const { step, isEssential } = next;
      const done = (async () => step())().catch((error: unknown) => void failures.push(error));
      await (isEssential || over === undefined ? done : Promise.race([done, over]));
    }
    clearTimeout(timer);
    if (failures.length > 0) throw failures[0];
  }
}
