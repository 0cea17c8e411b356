/**
 * Owns another process of the hub's server in tests: it reports its transactions directly and by NOTIFY, and either may
 * be late or lost.
 */
import { decodeHint } from '../store/postgres/hint-text.ts';
import { WorkerPeerHints } from '../store/postgres/worker-peer-hints.ts';
import { MemoryWorkerPeers } from '../store/postgres/worker-peers.fixture.ts';
import { modelOrg, type ModelDatabase } from './model.fixture.ts';

export class ModelWorkerPeer {
  readonly #db: ModelDatabase;
  readonly #way: MemoryWorkerPeers;
  readonly #there: WorkerPeerHints;
  readonly #here: WorkerPeerHints;
  #notices: string[] = [];
  #untoldFrom = 0;

  constructor(db: ModelDatabase) {
    const [way, here] = MemoryWorkerPeers.pair();
    way.isImmediate = false;
    this.#db = db;
    this.#way = way;
    const id = (n: number): string => `44444444-4444-4444-8444-00000000000${n}`;
    this.#there = new WorkerPeerHints({ workerPeers: way, source: id(1), deliver: () => {} });
    this.#here = new WorkerPeerHints({ workerPeers: here, source: id(2), deliver: (hint) => db.hint(hint) });
  }

  /** One transaction of it: what was logged after a revision. Of some it knows only that there was one. */
  tell(after: number, { isKnown }: { readonly isKnown: boolean }): void {
    const entries = this.#db.log.slice(after);
    const number = this.#there.tell([`o${modelOrg}`], isKnown ? [{ organization_id: modelOrg, entries }] : []);
    if (this.#untoldFrom === 0) this.#untoldFrom = number;
  }

  /** Sends a NOTIFY for everything since the last one. */
  notify(): void {
    if (this.#untoldFrom === 0) return;
    this.#notices.push(`${this.#there.markFrom(this.#untoldFrom)} o${modelOrg}`);
    this.#untoldFrom = 0;
  }

  arrive(count: number): void {
    this.#way.arrive(count);
  }

  lose(count: number): void {
    this.#way.lose(count);
  }

  /** The next NOTIFY arrives, or is lost. */
  notice({ isLost }: { readonly isLost: boolean }): void {
    const payload = this.#notices.shift();
    if (payload === undefined || isLost || this.#here.hasReceived(payload)) return;
    this.#db.hint(decodeHint(payload));
  }
}
