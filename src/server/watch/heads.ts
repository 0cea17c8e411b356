/** Owns the reading of heads: one query at a time for the whole process, shared by everyone who asked before it began. */
import type { OrganizationId } from '../../policy/ids.ts';
import type { Heads } from '../store/changes.ts';
import type { Source } from './source.ts';

export class HeadReader {
  readonly #source: Source;
  readonly #onRead: (heads: Heads, asked: ReadonlyMap<OrganizationId, number>) => void;
  readonly #known: (org: OrganizationId) => number;
  #asked = new Set<OrganizationId>();
  #under: Promise<unknown> = Promise.resolve();
  #next: Promise<Heads> | undefined;

  constructor(options: {
    readonly source: Source;
    /** What this process has read of an organization's log already. */
    readonly known: (org: OrganizationId) => number;
    /** Told of every answer, with what was known when it was asked for: an answer below that is a database that went back. */
    readonly onRead: (heads: Heads, asked: ReadonlyMap<OrganizationId, number>) => void;
  }) {
    this.#source = options.source;
    this.#known = options.known;
    this.#onRead = options.onRead;
  }

  /** Heads that are at least as new as this call. */
  read(orgs: Iterable<OrganizationId>): Promise<Heads> {
    for (const org of orgs) this.#asked.add(org);
    if (this.#next === undefined) {
      this.#next = this.#under.then(() => this.#begin());
      this.#under = this.#next.catch(() => undefined);
    }
    return this.#next;
  }

  async #begin(): Promise<Heads> {
    const asked = new Map([...this.#asked].map((org) => [org, this.#known(org)]));
    this.#asked = new Set();
    this.#next = undefined;
    const heads = await this.#source.heads([...asked.keys()]);
    this.#onRead(heads, asked);
    return heads;
  }
}
