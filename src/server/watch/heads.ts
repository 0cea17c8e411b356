/** Owns the reading of heads: one query at a time for the whole process, shared by everyone who asked before it began. */
import type { OrganizationId } from '../../policy/ids.ts';
import type { Heads } from '../store/contract/change-log.ts';
import type { Source } from './source.ts';

/** How heads are asked for. */
export interface Asking {
  /** Can wait until a read is due, so that many who come one after the other share it. */
  readonly patient?: boolean;
}

/** Between two reads that only the patient wait for. */
export interface Spacing {
  readonly ms: number;
  readonly now: () => number;
  readonly later: (run: () => void, ms: number) => void;
}

export class HeadReader {
  readonly #source: Source;
  readonly #onRead: (heads: Heads, asked: ReadonlyMap<OrganizationId, number>) => void;
  readonly #known: (org: OrganizationId) => number;
  #asked = new Set<OrganizationId>();
  #under: Promise<unknown> = Promise.resolve();
  #next: Promise<Heads> | undefined;
  readonly #spacing: Spacing | undefined;
  /** When the last read began. */
  #began = Number.NEGATIVE_INFINITY;
  #hurried = false;
  #goOn: (() => void) | undefined;

  constructor(options: {
    readonly source: Source;
    /** What this process has read of an organization's log already. */
    readonly known: (org: OrganizationId) => number;
    /** Told of every answer, with what was known when it was asked for: an answer below that is a database that went back. */
    readonly onRead: (heads: Heads, asked: ReadonlyMap<OrganizationId, number>) => void;
    readonly spacing?: Spacing | undefined;
  }) {
    this.#spacing = options.spacing;
    this.#source = options.source;
    this.#known = options.known;
    this.#onRead = options.onRead;
  }

  /** Heads that are at least as new as this call. */
  read(orgs: Iterable<OrganizationId>, { patient = false }: Asking = {}): Promise<Heads> {
    for (const org of orgs) this.#asked.add(org);
    if (!patient) this.#hurried = true;
    if (this.#next === undefined) {
      this.#next = this.#under.then(() => this.#whenDue());
      this.#under = this.#next.catch(() => undefined);
    } else if (!patient) this.#goOn?.();
    return this.#next;
  }

  #whenDue(): Promise<Heads> {
    const spacing = this.#spacing;
    if (spacing === undefined) return this.#begin();
    // Never longer, should the clock have been set back.
    const wait = this.#hurried ? 0 : Math.min(spacing.ms, this.#began + spacing.ms - spacing.now());
    if (wait <= 0) return this.#begin();
    return new Promise((resolve) => {
      const goOn = (): void => {
        // Hurried on before its time.
        if (this.#goOn !== goOn) return;
        this.#goOn = undefined;
        resolve(this.#begin());
      };
      this.#goOn = goOn;
      spacing.later(goOn, wait);
    });
  }

  async #begin(): Promise<Heads> {
    this.#hurried = false;
    this.#began = this.#spacing?.now() ?? 0;
    const asked = new Map([...this.#asked].map((org) => [org, this.#known(org)]));
    this.#asked = new Set();
    this.#next = undefined;
    const heads = await this.#source.heads([...asked.keys()]);
    this.#onRead(heads, asked);
    return heads;
  }
}
