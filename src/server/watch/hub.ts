/** Owns the streams of the process: which organizations are watched, what wakes them, and the clock that all streams share. */
import type { DeviceId, OrganizationId, TokenId } from '../../policy/ids.ts';
import type { Heads, Hint, LogSource } from '../store/data/change-log.ts';
import type { FollowedLog } from '../store/follow/followed-log.ts';
import type { FollowedLogs } from '../store/follow/followed-logs.ts';
import { LocalStreamQuota, type StreamReservation, type StreamQuota } from '../limits/stream-quota.ts';
import { Channel } from './channel.ts';
import { endGradually } from './departures.ts';
import { maskOf, projectionOf } from '../store/follow/frame.ts';
import { ListingMemory } from './listings.ts';
import { isAgent, type Opening, type Refusal } from './opening.ts';
import { isGone, resumedIn, start } from './cursor.ts';
import { ReceiptExchange, type ReceiptExchangeOptions } from './receipts/receipt-exchange.ts';
import { ReceiptRequests } from './receipts/receipt-requests.ts';
import { Rights, type EndedRights } from './rights.ts';
import { defaultWatchSettings, type WatchSettings } from './settings.ts';
import { silenceOf, type SignSource } from './signs.ts';
import { WatchStats } from './stats.ts';
import { StreamIndex } from './stream-index.ts';
import { Stream, type Holder, type StreamEndReason } from './stream.ts';
import { Scheduler } from './scheduler.ts';
import { formatOf } from './wire.ts';

export interface HubOptions {
  readonly source: Pick<LogSource, 'readState' | 'onHint'>;
  readonly logs: FollowedLogs;
  readonly broadcast: ReceiptExchangeOptions['broadcast'];
  readonly settings?: Partial<WatchSettings>;
  readonly clock: { readonly now: () => number };
  /** Between 0 and 1, for the spread of ages. */
  readonly random: () => number;
  /** Runs something after other work that is due; `setImmediate` in a server. */
  readonly defer: (run: () => void) => void;
  /** Runs something after some milliseconds; `setTimeout` in a server. */
  readonly later: (run: () => void, ms: number) => void;
  /** Where streams are counted; by default here, up to the default limits. */
  readonly streamQuota?: StreamQuota | undefined;
  /** Receives the opening and end of device streams, and their signs of life. */
  readonly devices?: DevicePresence | undefined;
  readonly onWarning: (message: string, cause: unknown) => void;
}

/** What keeps the presence of devices. */
export interface DevicePresence {
  /** A device has opened a stream; it counts as gone after this long without a sign. */
  opened(device: DeviceId, signs: SignSource, silenceMs: number): void;
  /** A device has shown a sign of life. `isReport`: the sign is a status report, which is stored elsewhere. */
  heard(device: DeviceId, isReport: boolean): void;
  /** A stream of a device has ended; `silent`: because nothing was heard of it. */
  closed(device: DeviceId, signs: SignSource, silent: boolean): void;
}

/** Sweeps come twice a second. A process that makes none for this long did not run. */
const stalledMs = 5_000;
/** How long a connection may take to take its end before it is closed without. */
const endingMs = 5_000;
/** The time over which many streams are ended, unless another is given. */
const departureMs = 5_000;

export class Hub {
  readonly stats = new WatchStats();
  readonly settings: WatchSettings;
  readonly receipts: ReceiptExchange;
  readonly logs: FollowedLogs;
  readonly #o: HubOptions;
  readonly #channels = new Map<OrganizationId, Channel>();
  readonly #scheduler: Scheduler<Channel>;
  readonly #rights = new Rights();
  readonly #byToken = new StreamIndex<TokenId>();
  readonly #byDevice = new StreamIndex<DeviceId>();
  readonly #streamQuota: StreamQuota;
  readonly #listings = new ListingMemory();
  readonly #stopHints: () => void;
  #streams = 0;
  #draining = false;
  #polling = false;
  #isBlind = false;
  /** Of the ends of rights that other servers tell of. */
  #looking: 'none' | 'running' | 'again' = 'none';
  /** Polls since the database answered last. They are counted instead of time, which also passes while this process is frozen. */
  #unanswered = 0;
  #sweeping: Iterator<readonly [Channel, Stream]> | undefined;
  #sweptAt: number | undefined;
  #drained: (() => void) | undefined;

  constructor(options: HubOptions) {
    this.#o = options;
    this.settings = { ...defaultWatchSettings, ...options.settings };
    this.#streamQuota = options.streamQuota ?? new LocalStreamQuota();
    const { clock, defer, later, logs } = options;
    this.logs = logs;
    const requests = new ReceiptRequests({ now: clock.now, later });
    this.receipts = new ReceiptExchange({
      ...options,
      now: clock.now,
      askOrganization: (org, revision) => {
        const channel = this.#channels.get(org);
        if (channel !== undefined) this.#askUpTo(channel, revision, (upTo) => requests.ask(channel.streams, upTo));
      },
      askDevice: (device, revision) => {
        for (const stream of this.#byDevice.get(device)) {
          const { owner } = stream;
          if (owner instanceof Channel) this.#askUpTo(owner, revision, (upTo) => requests.ask([stream], upTo));
        }
      },
    });
    this.#scheduler = new Scheduler({ slice: this.settings.slice, defer });
    logs.onHeads = (heads) => this.#onHeads(heads);
    this.#stopHints = options.source.onHint((hint) => this.#onHint(hint));
  }

  get streams(): number {
    return this.#streams;
  }

  get organizations(): number {
    return this.#channels.size;
  }

  get memory(): { readonly rings: number; readonly listings: number } {
    return { rings: this.logs.bytes, listings: this.#listings.bytes };
  }

  /** Opens a stream, or says why not. Fails when the database cannot be reached. */
  async open(opening: Opening): Promise<Refusal | undefined> {
    if (this.#draining) return 'draining';
    const { credential, kind } = opening.holder;
    const reservation = await this.#streamQuota.take({ kind, credential, organization: opening.org });
    if (reservation === 'credential') return 'credential_streams';
    if (reservation === 'organization') return 'organization_streams';
    let refused: Refusal | 'failed' | undefined = 'failed';
    try {
      refused = await this.#open(opening, reservation);
      return refused;
    } finally {
      if (refused !== undefined) reservation.release();
    }
  }

  async #open(opening: Opening, reservation: StreamReservation): Promise<Refusal | undefined> {
    // From here on, everything that was written before this request is in the ring or before its tail.
    const current = await this.logs.current(opening.org, { isBatched: true });
    if (this.#draining) return 'draining';
    if (current === undefined) return 'not_found';
    const { log, head } = current;
    const channel = this.#channelOf(log);
    const resumed = resumedIn(opening.items);
    const known = { head: Math.max(head.revision, channel.ring.head), gaps: head.gaps, tokens: channel.ring.tokens };
    if (resumed.some((kind) => isGone(kind, known))) return 'revision_gone';
    if (resumed.length > 0) this.stats.resumes += 1;
    if (resumed.length > 0 && resumed.every(({ from }) => channel.ring.covers(from))) this.stats.ringHits += 1;
    this.#attach(channel, opening, reservation);
    return undefined;
  }

  #attach(channel: Channel, opening: Opening, reservation: StreamReservation): void {
    const {
      items,
      holder,
      chunked,
      preface,
      accept,
      takesReceiptRequests,
      tokens = false,
      complete = false,
      signs = 'unpromised',
      leavesWhenNotReady = false,
    } = opening;
    const now = this.#o.clock.now();
    const { maxAgeMs } = this.settings;
    const sink = accept();
    const projections = items.map(projectionOf);
    const stream = new Stream({
      owner: channel,
      sink,
      reader: {
        user: holder.reader,
        projections,
        mask: maskOf(projections),
        format: formatOf({ withKind: items.length > 1, chunked, tokens, complete, forAgent: isAgent(opening) }),
      },
      holder,
      takesReceiptRequests,
      signs,
      leavesWhenNotReady,
      silenceMs: this.#silenceOf(holder, signs),
      reservation,
      cursor: start(items),
      preface,
      now,
      endsAt: now + maxAgeMs * (0.8 + 0.2 * this.#o.random()),
    });
    sink.connect(stream);
    this.#streams += 1;
    if (holder.token !== undefined) this.#byToken.add(holder.token, stream);
    if (holder.device !== undefined) {
      this.#byDevice.add(holder.device, stream);
      this.#o.devices?.opened(holder.device, signs, silenceOf(signs, this.settings));
    }
    channel.add(stream);
    const ended = this.#rights.since(channel.org, holder, opening.admittedAt);
    if (ended !== undefined) channel.end(stream, ended);
  }

  /** A request may name a revision that is not there, and a report would be waited for in vain: it goes up to the head. */
  #askUpTo(channel: Channel, revision: number, ask: (revision: number) => void): void {
    if (revision <= channel.ring.head) ask(revision);
    else
      this.#follow(
        this.logs.current(channel.org).then((current) => {
          if (current !== undefined) ask(Math.min(revision, current.head.revision));
        }),
      );
  }

  /** How long a stream may be open without a sign of life. Where signs do not come on it, they may reach another process, and its end must be cheap. */
  #silenceOf({ device }: Holder, signs: SignSource): number {
    if (signs === 'stream') return this.settings.silentMs;
    return device === undefined ? Number.POSITIVE_INFINITY : this.settings.unpromisedSilentMs;
  }

  /** A device has shown a sign of life by a request. `isReport`: by one that is kept as its status. */
  heard(device: DeviceId, isReport: boolean): void {
    for (const stream of this.#byDevice.get(device)) stream.owner.heard(stream);
    this.#o.devices?.heard(device, isReport);
  }

  #channelOf(log: FollowedLog): Channel {
    const { org } = log;
    const known = this.#channels.get(org);
    if (known !== undefined) return known;
    const channel = new Channel({
      log,
      source: this.#o.source,
      settings: this.settings,
      stats: this.stats,
      memory: this.#listings,
      now: this.#o.clock.now,
      sync: () => this.logs.current(org).then((current) => current?.head),
      schedule: (one) => this.#scheduler.add(one),
      onWarning: this.#o.onWarning,
      onSign: ({ holder: { device } }) => {
        if (device !== undefined) this.#o.devices?.heard(device, false);
      },
      onClosed: (stream) => this.#onClosed(stream),
    });
    this.#channels.set(org, channel);
    return channel;
  }

  #onClosed(stream: Stream): void {
    const { token, device } = stream.holder;
    if (token !== undefined) this.#byToken.delete(token, stream);
    if (device !== undefined) {
      this.#byDevice.delete(device, stream);
      this.#o.devices?.closed(device, stream.signs, stream.ended === 'silent');
    }
    stream.reservation.release();
    this.#streams -= 1;
    if (this.#streams === 0) this.#drained?.();
  }

  /** Touches the streams of those whose right has ended, and no other. */
  #endThoseOf({ tokens, members }: EndedRights): void {
    for (const token of tokens) for (const stream of this.#byToken.get(token)) stream.owner.end(stream, 'revoked');
    for (const one of members) this.#channels.get(one.organization_id)?.endOf(one.user_id, 'removed');
  }

  // What wakes the hub.

  #onHint(hint: Hint): void {
    const { credentials, removed_members: removed, deleted_organizations: deleted } = hint;
    if (hint.isRumour === true) {
      if (credentials.length + removed.length + deleted.length > 0) void this.#lookForEnds();
      return;
    }
    for (const org of deleted) this.#channels.get(org)?.endAll('organization_gone');
    this.#endThoseOf(this.#rights.fromHint(hint, this.#o.clock.now()));
  }

  /** Reads which rights have ended. However many rumours there are, one read at a time. */
  async #lookForEnds(): Promise<void> {
    if (this.#looking !== 'none') {
      this.#looking = 'again';
      return;
    }
    do {
      this.#looking = 'running';
      // If it fails, the next poll looks.
      await this.#readHeads().catch(() => {});
    } while (this.#hasToLookAgain());
    this.#looking = 'none';
  }

  async #readHeads(): Promise<void> {
    const watched = [...this.#channels.values()].filter((channel) => channel.streams.size > 0);
    await this.logs.heads.immediate.getMany(watched.map((channel) => channel.org));
  }

  #hasToLookAgain(): boolean {
    return this.#looking === 'again';
  }

  #follow(reading: Promise<unknown> | undefined): void {
    // A failure here costs nothing but time: the next tick looks again.
    reading?.catch((cause: unknown) => this.#o.onWarning('cannot read the change log', cause));
  }

  #onHeads(heads: Heads): void {
    this.#unanswered = 0;
    this.#endThoseOf(this.#rights.fromHeads(heads, this.#o.clock.now()));
  }

  // The clock: one interval for the whole process calls these.

  /** Looks whether a hint was lost. To be called every `pollMs`. */
  async poll(): Promise<void> {
    const now = this.#o.clock.now();
    for (const channel of this.#channels.values()) {
      channel.tick();
      if (channel.streams.size === 0 && now - channel.idleSince > this.settings.lingerMs) this.#forget(channel);
    }
    this.logs.tidy();
    this.#listings.keepWithin(this.settings.listingBytes);
    if (this.#streams === 0) return;
    this.#unanswered += 1;
    // The database does not answer: readers that know another server go there.
    if (this.#unanswered === Math.ceil(this.settings.notReadyMs / this.settings.pollMs))
      void this.#endAll('not_ready', (stream) => stream.leavesWhenNotReady);
    if (this.#polling) return;
    this.#polling = true;
    try {
      await this.#readHeads();
      if (this.#isBlind) this.#o.onWarning('the server can check for changes again', undefined);
      this.#isBlind = false;
    } catch (cause) {
      if (!this.#isBlind) this.#o.onWarning('cannot check for changes; the server keeps trying', cause);
      this.#isBlind = true;
    } finally {
      this.#polling = false;
    }
  }

  #endAll(why: StreamEndReason, which: (stream: Stream) => boolean, longestMs = departureMs): Promise<void> {
    const streams = [...this.#channels.values()].flatMap((channel) => [...channel.streams].filter(which));
    return endGradually(streams, why, { ...this.#o, longestMs });
  }

  #forget(channel: Channel): void {
    this.#channels.delete(channel.org);
    this.#scheduler.remove(channel);
    channel.close();
  }

  /** Heartbeats, ages, expiries, stuck readers: looks at a slice of the streams that may be due, and goes on where it stopped. True when through. */
  sweep(): boolean {
    const now = this.#o.clock.now();
    this.#excuse(now);
    this.#sweeping ??= eachOf([...this.#channels.values()].map((channel) => [channel, channel.due(now)]));
    for (let left = this.settings.slice; left > 0; left -= 1) {
      const one = this.#sweeping.next();
      if (one.done === true) {
        this.#sweeping = undefined;
        return true;
      }
      this.#look(one.value[0], one.value[1], now);
    }
    return false;
  }

  /** Time in which this process was frozen, or by which its clock was set, does not count as silence of the readers. */
  #excuse(now: number): void {
    const passed = now - (this.#sweptAt ?? now);
    this.#sweptAt = now;
    if (passed >= 0 && passed < stalledMs) return;
    for (const channel of this.#channels.values()) channel.excuse(passed);
  }

  #look(channel: Channel, stream: Stream, now: number): void {
    const { expiresAt } = stream.holder;
    if (stream.state === 'ending') {
      if (now - stream.blockedAt > endingMs) stream.sink.destroy();
    } else if (expiresAt !== undefined && now >= expiresAt) channel.end(stream, 'expired');
    else if (now >= stream.endsAt) channel.end(stream, 'aged');
    else if (now >= stream.silentAt) channel.end(stream, stream.signs === 'stream' ? 'silent' : 'unheard');
    else if (stream.state === 'blocked') {
      if (now - stream.blockedAt > this.settings.stuckMs) channel.end(stream, 'stuck');
    } else if (now - channel.wroteAt(stream) >= this.settings.heartbeatMs) channel.heartbeat(stream, now);
  }

  /** Ends every stream cleanly, within this time, and takes no more. Resolves when all are closed. */
  async drain(longestMs?: number): Promise<void> {
    this.#draining = true;
    await this.#endAll('drained', () => true, longestMs);
    if (this.#streams > 0) await new Promise<void>((resolve) => (this.#drained = resolve));
  }

  close(): void {
    this.#stopHints();
    this.receipts.close();
    for (const channel of this.#channels.values()) for (const stream of channel.streams) stream.sink.destroy();
    for (const channel of this.#channels.values()) this.#forget(channel);
  }
}

function* eachOf(
  due: readonly (readonly [Channel, readonly Stream[]])[],
): Generator<readonly [Channel, Stream], void, undefined> {
  for (const [channel, streams] of due) for (const stream of streams) yield [channel, stream];
}
