/** Owns a process with some devices of the measured fleet, and what it and the benchmark tell each other. */
import { fork, type ChildProcess } from 'node:child_process';
import { Client } from '../../src/client/http.ts';
import { createNodeFetch } from '../../src/node/fetch.ts';
import { Namespace } from '../../test/lib/netns.ts';
import { Follower } from './follower.ts';

/** The argument that makes the benchmark's program such a process. */
export const followersArgument = '--followers';

type Device = { readonly id: string; readonly token: string };
type Order =
  | {
      readonly kind: 'follow';
      readonly url: string;
      readonly organization: string;
      readonly folder: string;
      readonly devices: readonly Device[];
    }
  | { readonly kind: 'verify' }
  | { readonly kind: 'close' };

type Report =
  | { readonly kind: 'following' | 'verified' | 'closed' }
  /** All kernels of the process reflect the revision: since when the first, and since when the last. */
  | { readonly kind: 'reached'; readonly revision: number; readonly first: number; readonly last: number }
  | { readonly kind: 'failed'; readonly why: string };

const words = (error: unknown): string => (error instanceof Error ? (error.stack ?? error.message) : String(error));

/** Runs in the process itself until it is asked to close. */
export function serveFollowers(): void {
  const followers: Follower[] = [];
  /** Those whose kernel reflects more than all do: what is looked at for each of them must not grow with their number. */
  let ahead = new Set<Follower>();
  let reached = 0;
  const tell = (report: Report): void => void process.send?.(report);
  const fail = (error: unknown): void => tell({ kind: 'failed', why: words(error) });
  const look = (count: number, follower: Follower): void => {
    if (follower.fault !== undefined) fail(follower.fault);
    if (follower.revision > reached) ahead.add(follower);
    if (ahead.size < count) return;
    reached = Math.min(...followers.map((each) => each.revision));
    ahead = new Set(followers.filter((each) => each.revision > reached));
    const revision = reached;
    const times = followers.map(({ since }) => since);
    tell({ kind: 'reached', revision, first: Math.min(...times), last: Math.max(...times) });
  };
  const obey = async (order: Order): Promise<void> => {
    if (order.kind === 'follow') {
      const { url, organization, folder, devices } = order;
      for (const { id: device, token } of devices) {
        // A client of its own, with connections of its own, as on a machine of its own.
        const client = new Client({ url, token, fetch: createNodeFetch({}) });
        const onReached = (follower: Follower): void => look(devices.length, follower);
        followers.push(new Follower(await Namespace.create(), folder, { client, organization, device, onReached }));
      }
      tell({ kind: 'following' });
    } else if (order.kind === 'verify') {
      for (const follower of followers) await follower.verify();
      tell({ kind: 'verified' });
    } else {
      await Promise.all(followers.map((each) => each.close()));
      process.disconnect();
    }
  };
  process.on('message', (order: Order) => void obey(order).catch(fail));
  // The benchmark may end before it sends a close.
  process.on('disconnect', () => void Promise.all(followers.map((each) => each.close())).finally(() => process.exit()));
}

/** The process as the benchmark sees it. */
export class FollowerProcess {
  readonly #child: ChildProcess;
  readonly #ended: Promise<void>;
  readonly #waiting = new Set<{
    isMet: (report: Report) => boolean;
    resolve: () => void;
    reject: (e: Error) => void;
  }>();
  #fault: Error | undefined;
  #reached: { readonly revision: number; readonly first: number; readonly last: number } = {
    revision: 0,
    first: 0,
    last: 0,
  };

  constructor() {
    this.#child = fork(process.argv[1] ?? '', [followersArgument]);
    this.#child.on('message', (report: Report) => this.#hear(report));
    this.#ended = new Promise((resolve) => {
      this.#child.once('exit', () => {
        this.#fail(new Error('a process of the fleet has ended'));
        resolve();
      });
    });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  async follow(place: Omit<Extract<Order, { kind: 'follow' }>, 'kind'>): Promise<void> {
    const following = this.#until(({ kind }) => kind === 'following');
    this.#child.send({ kind: 'follow', ...place } satisfies Order);
    await following;
  }

  /** Since when the kernels reflect the revision, or a later one. */
  async reach(revision: number): Promise<{ readonly first: number; readonly last: number }> {
    if (this.#reached.revision < revision) {
      await this.#until((report) => report.kind === 'reached' && report.revision >= revision);
    }
    return this.#reached;
  }

  /** Whether the kernels hold what was put in force. */
  async verify(): Promise<void> {
    const verified = this.#until(({ kind }) => kind === 'verified');
    this.#child.send({ kind: 'verify' } satisfies Order);
    await verified;
  }

  async close(): Promise<void> {
    if (this.#child.connected) this.#child.send({ kind: 'close' } satisfies Order);
    await this.#ended;
  }

  #until(isMet: (report: Report) => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#fault === undefined) this.#waiting.add({ isMet, resolve, reject });
      else reject(this.#fault);
    });
  }

  #hear(report: Report): void {
    if (report.kind === 'failed') {
      this.#fail(new Error(report.why));
      return;
    }
    if (report.kind === 'reached') this.#reached = report;
    for (const each of this.#waiting) {
      if (!each.isMet(report)) continue;
      this.#waiting.delete(each);
      each.resolve();
    }
  }

  #fail(error: Error): void {
    this.#fault ??= error;
    for (const each of this.#waiting) each.reject(this.#fault);
    this.#waiting.clear();
  }
}
