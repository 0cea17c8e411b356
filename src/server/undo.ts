/** Owns the undoing of what was started: last first, and within a time. */

type Step = () => Promise<void> | void;

export class Undo {
  readonly #steps: { readonly step: Step; readonly isEssential: boolean }[] = [];

  /** An essential step is waited for, however long it takes. */
  push(step: Step, { isEssential = false }: { readonly isEssential?: boolean } = {}): void {
    this.#steps.push({ step, isEssential });
  }

  /** When the time is over, the steps that are left are begun and not waited for, but for essential ones. Rejects with the first failure, after all steps. */
  async all(withinMs?: number): Promise<void> {
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
