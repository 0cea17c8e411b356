/**
 * Owns the hints between servers: after a commit, and apart from it, the other servers are told where to look.
 *
 * NOTIFY inside a writing transaction would take a lock over the whole cluster at commit; sent afterwards, gathered, on a
 * connection of its own, it costs writers nothing. It may be lost with that connection: nothing depends on it but speed.
 */
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { parseDeviceId, parseOrganizationId, parseTokenId, parseUserId } from '../../../policy/ids.ts';
import { clientConfig } from './connection.ts';
import { greeting, listen, OtherServers } from './other-servers.ts';
import { runPrepared } from './prepared-query.ts';
import { statement } from './sql.ts';
import type { Hint } from '../contract/change-log.ts';

const channel = 'ringfence';
const notify = statement<never>('notify', `SELECT pg_notify('${channel}', $1)`);
/** PostgreSQL takes payloads below 8,000 bytes; an entry is at most 80. */
const maxEntries = 90;
const retryMs = 500;
/** Between two NOTIFYs: each wakes every server, and takes from the writers' processor time. The first of a burst goes at once. */
const paceMs = 5;

/**
 * On the wire: a letter, then ids. `o` news in an organization, `c` a dead credential, `m` a removed member, `d` a deleted organization, `r`
 * receipts in an organization, `w` somebody waits for them, `a` its devices and `p` one device are asked for theirs, for a revision.
 */
function encode(hint: Hint): string[] {
  return [
    ...hint.organizations.map((id) => `o${id}`),
    ...hint.credentials.map((id) => `c${id}`),
    ...hint.removed_members.map(({ organization_id, user_id }) => `m${organization_id}/${user_id}`),
    ...hint.deleted_organizations.map((id) => `d${id}`),
    ...hint.receipts.map((id) => `r${id}`),
    ...hint.awaited_organizations.map((id) => `w${id}`),
    ...hint.prompted_organizations.map(({ organization_id, revision }) => `a${organization_id}/${revision}`),
    ...hint.prompted_devices.map(({ device_id, revision }) => `p${device_id}/${revision}`),
  ];
}

type Growing<T> = { readonly [K in keyof T]: T[K] extends readonly (infer Item)[] ? Item[] : never };

const empty = (): Growing<Hint> => ({
  organizations: [],
  logged: [],
  credentials: [],
  removed_members: [],
  deleted_organizations: [],
  receipts: [],
  awaited_organizations: [],
  prompted_organizations: [],
  prompted_devices: [],
});

function parseRevision(text: string): number {
  const revision = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (!Number.isSafeInteger(revision)) throw new RangeError('no revision');
  return revision;
}

/** How each entry is read; a broken one throws. */
const readers: Readonly<Record<string, (into: Growing<Hint>, first: string, second: string) => void>> = {
  o: (into, id) => into.organizations.push(parseOrganizationId(id)),
  c: (into, id) => into.credentials.push(parseTokenId(id)),
  m: (into, org, user) =>
    into.removed_members.push({ organization_id: parseOrganizationId(org), user_id: parseUserId(user) }),
  d: (into, id) => into.deleted_organizations.push(parseOrganizationId(id)),
  r: (into, id) => into.receipts.push(parseOrganizationId(id)),
  w: (into, id) => into.awaited_organizations.push(parseOrganizationId(id)),
  a: (into, org, revision) =>
    into.prompted_organizations.push({ organization_id: parseOrganizationId(org), revision: parseRevision(revision) }),
  p: (into, device, revision) =>
    into.prompted_devices.push({ device_id: parseDeviceId(device), revision: parseRevision(revision) }),
};

/** Entries that a later version may send and this one does not know are passed over. */
export function decodeHint(payload: string): Hint {
  const hint = empty();
  for (const entry of payload.split(' ')) {
    const [first = '', second = ''] = entry.slice(1).split('/');
    try {
      readers[entry.slice(0, 1)]?.(hint, first, second);
    } catch {
      continue;
    }
  }
  return hint;
}

export class Hints {
  readonly #url: string;
  readonly #onWarning: (message: string, cause: unknown) => void;
  readonly #listeners = new Set<(hint: Hint) => void>();
  readonly #others = new OtherServers();
  /**
   * Entries waiting to be sent; a set, because an organization's tenth change needs no tenth hint. While nobody else listens, the last of
   * them wait for whoever begins to: it may have begun before this process hears of it.
   */
  readonly #unsent = new Set<string>();
  #client: Client | undefined;
  #sending = false;
  #closed = false;
  #retry: NodeJS.Timeout | undefined;

  constructor(url: string, onWarning: (message: string, cause: unknown) => void) {
    this.#url = url;
    this.#onWarning = onWarning;
  }

  /** Resolves once it listens, or once the first try failed: it then goes on trying by itself. */
  async start(): Promise<void> {
    await this.#connect();
  }

  on(listener: (hint: Hint) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Tells this process at once and the others soon. */
  tell(hint: Partial<Hint>): void {
    const whole = { ...empty(), ...hint };
    this.#deliver(whole);
    if (this.#others.none && this.#unsent.size >= maxEntries) this.#unsent.clear();
    for (const entry of encode(whole)) this.#unsent.add(entry);
    void this.#send();
  }

  async close(): Promise<void> {
    clearTimeout(this.#retry);
    for (let wait = 0; this.#sending && wait < 50; wait += 1) await new Promise((resolve) => setTimeout(resolve, 10));
    this.#closed = true;
    this.#others.end();
    await this.#client?.end().catch(() => {});
  }

  #deliver(hint: Hint): void {
    for (const listener of this.#listeners) listener(hint);
  }

  async #connect(): Promise<void> {
    const config = clientConfig(this.#url);
    // PostgreSQL writes a commit record for each NOTIFY. There is nothing in it to lose, so nobody waits for the disk because of it.
    const options = `${config.options ?? ''} -c synchronous_commit=off`;
    const client = new Client({ ...config, options, statement_timeout: 10_000 });
    const lost = (cause?: unknown): void => {
      if (this.#closed || this.#retry !== undefined) return;
      if (this.#client === client) {
        this.#client = undefined;
        this.#others.end();
      }
      if (cause !== undefined) this.#onWarning('the connection for hints was lost', cause);
      this.#retry = setTimeout(() => {
        this.#retry = undefined;
        void this.#connect();
      }, retryMs);
      this.#retry.unref();
    };
    client.on('error', lost);
    client.on('end', () => lost());
    client.on('notification', ({ payload, processId }) => {
      // Our own come back too; they were delivered when they were told.
      if (payload === undefined || processId === ownPid) return;
      this.#others.hear();
      if (payload === greeting) void this.#send();
      else this.#deliver(decodeHint(payload));
    });
    let ownPid = -1;
    try {
      await client.connect();
      ownPid = await listen(client, channel);
      if (this.#closed) {
        await client.end();
        return;
      }
      this.#client = client;
      this.#others.begin(client);
    } catch (cause) {
      await client.end().catch(() => {});
      lost(cause);
      return;
    }
    void this.#send();
  }

  /** One NOTIFY in flight, and a pause behind it; what gathers meanwhile goes with the next. */
  async #send(): Promise<void> {
    const client = this.#client;
    if (this.#sending || client === undefined || this.#others.none) return;
    this.#sending = true;
    try {
      // Whoever was just answered may go on first, and all that is told in this moment goes together.
      await setImmediate();
      while (this.#unsent.size > 0 && !this.#closed && !this.#others.none) {
        const entries = [...this.#unsent].slice(0, maxEntries);
        for (const entry of entries) this.#unsent.delete(entry);
        await runPrepared(client, notify, [entries.join(' ')]);
        await sleep(paceMs);
      }
    } catch (cause) {
      this.#onWarning('a hint to other servers was lost', cause);
    } finally {
      this.#sending = false;
    }
  }
}
