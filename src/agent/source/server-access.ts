/**
 * Owns where the agent finds its server: it resolves the address before each connection and at intervals, and the rules
 * admit it before the first packet.
 */
import { sleep, type Clock } from '../../client/clock.ts';
import { parseAddress, printAddress, type Address } from '../../policy/address.ts';
import { mergeRanges, type RangeSet } from '../../policy/range.ts';
import type { Family } from '../../policy/rule.ts';
import { sameServerAccess, type ServerAccess } from '../../policy/server-access.ts';
import { isLoopback } from '../host/resolvers.ts';
import type { Log } from '../host/log.ts';
import { asSent, isOnThisDevice, type ServerEndpoint } from './server-endpoint.ts';

export interface ServerAccessOptions {
  readonly endpoint: ServerEndpoint;
  /** The addresses of a name. */
  readonly resolve: (host: string) => Promise<readonly Address[]>;
  /** Whom the device asks for them. */
  readonly resolvers: () => Promise<readonly Address[]>;
  /** What was found at the last time, for this endpoint. */
  readonly kept: readonly Address[];
  /** Keeps what was found for the next start. */
  readonly keep: (addresses: readonly Address[]) => Promise<void>;
  readonly clock: Clock;
  /** Milliseconds that only ever go forward, whatever happens to the time of day. */
  readonly monotonic: () => number;
  readonly random: () => number;
  readonly log: Log;
}

/** More addresses of one name are not used: each of them is a hole in a closed device. */
const mostAddresses = 32;
/** How long an address that is named no more stays open, so that servers can move without a race. */
const grace = 10 * 60_000;
const askEvery = 5 * 60_000;
/** Milliseconds after which what is known is used while the answer is still awaited. */
const timeout = 3_000;
/** Milliseconds for the rules to follow before a connection is tried all the same. */
const rulesTimeout = 5_000;

const textOf = ({ family, value }: Address): string => printAddress(family, value);

/**
 * It promises: an address is given to a connection after `settled` said that the rules know it, unless they cannot be
 * changed; an address in use stays in `access`; new addresses are added at once, old ones leave later.
 */
export class ServerAddresses {
  readonly #options: ServerAccessOptions;
  /** The newest answer, by its text. It never grows old by itself: no answer is no reason to close a way. */
  #newest: ReadonlyMap<string, Address>;
  /** Addresses that were named before, and until when they stay open. */
  readonly #older = new Map<string, { readonly address: Address; readonly until: number }>();
  readonly #inUse = new Map<string, { readonly address: Address; count: number }>();
  #resolvers: readonly Address[] = [];
  #settled: ServerAccess | undefined;
  #asking: Promise<readonly Address[]> | undefined;
  readonly #handlers = new Set<() => void>();
  readonly #waiting = new Set<() => void>();

  constructor(options: ServerAccessOptions) {
    this.#options = options;
    const { address } = options.endpoint;
    this.#newest = byText(address === undefined ? options.kept : [address]);
  }

  /** How many servers the name can lead to, as far as known. A server often has an address of each family. */
  get count(): number {
    const all = [...this.#newest.values()];
    return Math.max(...([4, 6] as const).map((each) => all.filter(({ family }) => family === each).length));
  }

  /** What the rules should keep open at this moment. */
  get access(): ServerAccess {
    const { endpoint } = this.#options;
    const all = [
      ...this.#newest.values(),
      ...[...this.#older.values()].map(({ address }) => address),
      ...[...this.#inUse.values()].map(({ address }) => address),
    ];
    return { addresses: rangesOf(all), port: endpoint.port, resolvers: rangesOf(this.#resolvers) };
  }

  /** The access may have changed. The answer ends the subscription. */
  onChange(handler: () => void): () => void {
    this.#handlers.add(handler);
    return () => this.#handlers.delete(handler);
  }

  /** The rules are such that this access is open, or cannot be made so at the moment. */
  settled(access: ServerAccess | undefined): void {
    this.#settled = access;
    for (const wake of this.#waiting) wake();
  }

  /** Notes a connection to this address. The returned function is called when the connection has ended. */
  opened(remote: string): () => void {
    const address = parseAddress(remote);
    if ('fault' in address) return () => {};
    const text = textOf(address);
    if (!this.#newest.has(text) && !this.#older.has(text)) return () => {};
    const use = this.#inUse.get(text) ?? { address, count: 0 };
    use.count += 1;
    this.#inUse.set(text, use);
    return () => {
      use.count -= 1;
      if (use.count === 0) this.#changed(() => this.#inUse.delete(text));
    };
  }

  /** Where to connect to. Throws where the name has no address, and none is known from before. */
  async find(): Promise<readonly Address[]> {
    const { endpoint, clock } = this.#options;
    if (endpoint.address !== undefined) return [endpoint.address];
    const known = [...this.#newest.values()];
    const asking = this.#ask();
    if (known.length === 0) return asking;
    const late = new AbortController();
    const answer = asking.catch(() => known);
    const inTime = sleep(clock, timeout, late.signal).then(
      () => known,
      () => answer,
    );
    const found = await Promise.race([answer, inTime]);
    late.abort();
    return found;
  }

  /** Asks again now and then, so that a server that moves is found before its old address is gone. */
  async run({ signal }: { readonly signal: AbortSignal }): Promise<void> {
    const { clock, random, endpoint } = this.#options;
    while (!signal.aborted && endpoint.address === undefined) {
      await sleep(clock, askEvery * (0.75 + random() / 2), signal).catch(() => {});
      if (!signal.aborted) await this.#ask().catch(() => {});
    }
  }

  /** Reads what the rules need before anybody is asked: whom the device would ask. */
  begin(): Promise<void> {
    return this.#readResolvers();
  }

  /** One question at a time: a name server that does not answer must not use up what the process has for waiting. */
  #ask(): Promise<readonly Address[]> {
    this.#asking ??= this.#askOnce().finally(() => (this.#asking = undefined));
    return this.#asking;
  }

  async #askOnce(): Promise<readonly Address[]> {
    const { endpoint, resolve, log } = this.#options;
    await this.#readResolvers();
    await this.#rulesFollow();
    let answer: readonly Address[];
    try {
      answer = (await resolve(endpoint.host)).map(asSent).slice(0, mostAddresses);
      if (answer.length === 0) throw new Error(`${endpoint.host} has no address`);
    } catch (error) {
      this.#changed(() => {});
      if (this.#newest.size > 0) log('debug', 'cannot resolve the name of the server; using its last known addresses');
      throw error;
    }
    this.#learn(byText(answer));
    await this.#rulesFollow();
    return answer;
  }

  #learn(answer: ReadonlyMap<string, Address>): void {
    const { monotonic, keep, log } = this.#options;
    const gone = [...this.#newest].filter(([text]) => !answer.has(text));
    const isNew = gone.length > 0 || answer.size !== this.#newest.size;
    this.#changed(() => {
      for (const [text, address] of gone) this.#older.set(text, { address, until: monotonic() + grace });
      for (const text of answer.keys()) this.#older.delete(text);
      this.#newest = answer;
    });
    if (!isNew) return;
    log('info', 'resolved the name of the server', { addresses: [...answer.keys()].join(',') });
    void keep([...answer.values()]).catch((error: unknown) => {
      log('warn', `cannot save the addresses of the server for the next start: ${String(error)}`);
    });
  }

  async #readResolvers(): Promise<void> {
    const { endpoint, resolvers } = this.#options;
    if (endpoint.address !== undefined || isOnThisDevice(endpoint)) return;
    const now = await resolvers();
    this.#changed(() => (this.#resolvers = now));
  }

  #changed(change: () => void): void {
    const before = this.access;
    change();
    const now = this.#options.monotonic();
    for (const [text, { until }] of this.#older) if (until <= now) this.#older.delete(text);
    while (this.#older.size > mostAddresses) this.#older.delete(this.#older.keys().next().value ?? '');
    if (!sameServerAccess(before, this.access)) for (const handler of this.#handlers) handler();
  }

  /** Resolves when the rules know what is open now, or when that takes too long. */
  async #rulesFollow(): Promise<void> {
    const enough = new AbortController();
    const check = (): void => {
      if (sameServerAccess(this.#settled, this.access)) enough.abort();
    };
    this.#waiting.add(check);
    check();
    await sleep(this.#options.clock, rulesTimeout, enough.signal).catch(() => {});
    this.#waiting.delete(check);
  }
}

const byText = (addresses: readonly Address[]): ReadonlyMap<string, Address> =>
  new Map(addresses.map((address) => [textOf(address), address]));

/** What stays on the device itself needs no rule. */
function rangesOf(addresses: readonly Address[]): { readonly v4: RangeSet; readonly v6: RangeSet } {
  const of = (family: Family): RangeSet =>
    mergeRanges(
      addresses
        .filter((address) => address.family === family && !isLoopback(address))
        .map(({ value }) => ({ first: value, last: value })),
    );
  return { v4: of(4), v6: of(6) };
}
