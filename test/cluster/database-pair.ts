/** Owns a primary with one standby, and the steps of a failover between the two: kill, promote, and the return of the old primary as a standby. */
import { onTestFinished } from 'vitest';
import { DatabaseNode } from '../lib/database-node.ts';
import { eventually } from '../lib/eventually.ts';

export type Replication = 'synchronous' | 'asynchronous';

export class DatabasePair {
  readonly url: string;
  readonly #replication: Replication;
  #primary: DatabaseNode;
  #standby: DatabaseNode;

  private constructor(primary: DatabaseNode, standby: DatabaseNode, replication: Replication) {
    this.#primary = primary;
    this.#standby = standby;
    this.#replication = replication;
    const hosts = [primary, standby].map(({ port }) => `127.0.0.1:${port}`).join(',');
    this.url = `postgres://ringfence@${hosts}/postgres?target_session_attrs=read-write`;
  }

  /** It ends with the test. */
  static async open(replication: Replication): Promise<DatabasePair> {
    const primary = await DatabaseNode.primary();
    onTestFinished(() => primary.remove());
    const standby = await primary.standby();
    onTestFinished(() => standby.remove());
    const pair = new DatabasePair(primary, standby, replication);
    await pair.#follows();
    return pair;
  }

  async #follows(): Promise<void> {
    const awaited = this.#replication === 'synchronous';
    await this.#primary.reload({ synchronous_standby_names: awaited ? 'standby' : '' });
    const state = `SELECT FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = '${awaited ? 'sync' : 'async'}'`;
    await eventually('the standby follows', async () => (await this.#primary.query(state)).length > 0);
    // Sessions wait for the standby only once the checkpointer has read the setting, which may be in the middle of a checkpoint. It reads it before the next one.
    if (awaited) await this.#primary.query('CHECKPOINT');
  }

  /** From now on the standby receives nothing: what is written will be lost. */
  async detach(): Promise<void> {
    await this.#standby.reload({ primary_conninfo: '' });
    const senders = 'SELECT FROM pg_stat_replication';
    await eventually('the standby receives nothing', async () => (await this.#primary.query(senders)).length === 0);
  }

  /** The primary dies, and its standby takes over. Nothing is awaited by it, as a cluster manager arranges while one server is left. */
  async failOver(): Promise<void> {
    await this.#primary.kill();
    await this.#standby.promote();
    await this.#standby.reload({ synchronous_standby_names: '' });
    [this.#primary, this.#standby] = [this.#standby, this.#primary];
  }

  /** The old primary returns as a copy of the new one. */
  async rejoin(): Promise<void> {
    await this.#standby.follow(this.#primary);
    await this.#follows();
  }
}
