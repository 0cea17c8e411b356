/** Owns the readers of a fault run: each keeps a copy of an organization's groups over any server, and notes what no stream may do. */
import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { choosingFetch } from '../../src/agent/source/server-choice.ts';
import { RingfenceError } from '../../src/client/error.ts';
import { Client } from '../../src/client/http.ts';
import { createInformer } from '../../src/client/informer.ts';
import { watch } from '../../src/client/watch.ts';
import type { Fetch } from '../../src/client/request.ts';
import { createNodeFetch } from '../../src/node/fetch.ts';

export interface GroupReadersOptions {
  readonly servers: readonly string[];
  readonly token: string;
  readonly org: string;
  readonly count: number;
  readonly signal: AbortSignal;
}

export interface GroupReader {
  /** The revision of each group that it holds. */
  held(): ReadonlyMap<string, number>;
  /** How often it was refused to go on from where it was, and listed everything again. */
  readonly relists: number;
  /** What no stream may do. */
  readonly faults: readonly string[];
  /** Each failure of a stream that the reader noticed: it did not end properly, or no server took it. */
  readonly errors: readonly string[];
  readonly synced: Promise<void>;
}

/** Where a reader's last stream was asked for, and when it was answered: an error that it then reports has a cause there. */
class StreamTrace {
  #host = '';
  #begun = 0;
  #answer = 'not answered';

  /** The same fetch, noted here. */
  follow(fetch: Fetch): Fetch {
    return async (url, init) => {
      [this.#host, this.#begun, this.#answer] = [new URL(url).host, performance.now(), 'not answered'];
      const response = await fetch(url, init);
      this.#answer = `${response.status} after ${this.#passed()} ms`;
      return response;
    };
  }

  #passed(): number {
    return Math.round(performance.now() - this.#begun);
  }

  describe(error: unknown): string {
    return `${String(error)} (${this.#host}, ${this.#answer}, ${this.#passed()} ms ago)`;
  }
}

/** A program that uses the client library, with tokens. */
class InformerReader implements GroupReader {
  relists = 0;
  readonly faults: string[] = [];
  readonly errors: string[] = [];
  readonly synced: Promise<void>;
  readonly #informer;

  constructor(client: Client, trace: StreamTrace, { org: organization, signal }: GroupReadersOptions) {
    const backoff = { first: 200, longest: 2_000, longestAsked: 1_000 };
    const informer = createInformer({ client, organization, kinds: ['security-groups'], backoff });
    this.#informer = informer;
    let lastError: unknown;
    informer.onState((state) => {
      if (state.lastError === lastError) return;
      lastError = state.lastError;
      this.errors.push(trace.describe(state.lastError?.error));
      if (state.lastError?.error.code === 'revision_gone') this.relists += 1;
    });
    informer.onChange((changes) => {
      for (const change of changes)
        if (change.type === 'updated' && this.relists === 0 && change.new.revision <= change.old.revision)
          this.faults.push(`${change.old.revision} and then ${change.new.revision}`);
    });
    void informer.run({ signal }).catch((error: unknown) => this.faults.push(`it gave up: ${String(error)}`));
    this.synced = informer.whenSynced({ signal });
  }

  held(): ReadonlyMap<string, number> {
    return new Map([...this.#informer.view('security-groups')].map(({ id, revision }) => [id, revision]));
  }
}

/** A reader of the specification alone: the last revision that it received is all that it sends. */
class PlainReader implements GroupReader {
  relists = 0;
  readonly faults: string[] = [];
  readonly errors: string[] = [];
  readonly synced: Promise<void>;
  readonly #held = new Map<string, number>();
  #after = 0;
  #onSynced = (): void => {};

  constructor(client: Client, trace: StreamTrace, { org, signal }: GroupReadersOptions) {
    this.synced = new Promise((resolve) => (this.#onSynced = resolve));
    void this.#follow(client, trace, { org, signal }).catch((error: unknown) => this.faults.push(String(error)));
  }

  held(): ReadonlyMap<string, number> {
    return this.#held;
  }

  async #follow(
    client: Client,
    trace: StreamTrace,
    { org, signal }: Pick<GroupReadersOptions, 'org' | 'signal'>,
  ): Promise<void> {
    while (!signal.aborted) {
      const isAfresh = this.#after === 0;
      try {
        await this.#read(client, org, signal);
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof RingfenceError)) throw error;
        this.errors.push(trace.describe(error));
        const isGone = error.code === 'revision_gone';
        if (isGone) this.relists += 1;
        if (isGone || isAfresh) this.#after = 0;
      }
      await sleep(100 + Math.random() * 400);
    }
  }

  async #read(client: Client, org: string, signal: AbortSignal): Promise<void> {
    const gt_revision = this.#after;
    const listed = new Set<string>();
    let isLive = false;
    let last = gt_revision;
    const item = { kind: 'security-groups', ...(gt_revision > 0 && { gt_revision }) } as const;
    for await (const event of watch(client, org, [item], { signal })) {
      if (event.type === 'tail') {
        if (gt_revision === 0) for (const id of this.#held.keys()) if (!listed.has(id)) this.#held.delete(id);
        // A listing that is cut off proves nothing, so the reader resumes from it only now.
        this.#after = last;
        isLive = true;
        this.#onSynced();
        continue;
      }
      const { id, revision } = event;
      if (isLive ? revision <= last : revision <= gt_revision) this.faults.push(`${revision} after ${last}`);
      if (!isLive && listed.has(id)) this.faults.push(`${id} twice before the tail`);
      listed.add(id);
      last = Math.max(last, revision);
      if (isLive || gt_revision > 0) this.#after = last;
      if (event.type === 'delete') this.#held.delete(id);
      else this.#held.set(id, revision);
    }
  }
}

/** Half of them with tokens, half without. Each picks a server as an agent does. */
export function startGroupReaders(options: GroupReadersOptions): readonly GroupReader[] {
  const { servers, token, count, signal } = options;
  setMaxListeners(0, signal);
  const [url = ''] = servers;
  return Array.from({ length: count }, (_, index) => {
    const trace = new StreamTrace();
    const fetch = choosingFetch(trace.follow(createNodeFetch()), { servers, random: Math.random });
    const client = new Client({ url, token, fetch });
    return index % 2 === 0 ? new InformerReader(client, trace, options) : new PlainReader(client, trace, options);
  });
}
