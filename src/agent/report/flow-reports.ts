/** Owns the reports of observed traffic: sums of a minute, a bounded queue while the server is away, and how much did not fit. */
import type { FlowReport, FlowTuple } from '../../api/flows/flow-report.ts';
import { flowLimits, mostPackets } from '../../api/limits.ts';
import { Backoff } from '../../client/backoff.ts';
import { sleep, type Clock } from '../../client/clock.ts';
import { RingfenceError } from '../../client/error.ts';
import { keptMinutes } from '../../nft/recording.ts';
import { printAddress } from '../../policy/address.ts';
import type { Log } from '../host/log.ts';
import type { OpenFlows } from '../host/open-flows.ts';
import { tupleKey, type ObservedTraffic, type Recorded } from '../kernel/flow-recorder.ts';
import { judgeTraffic, type JudgedTraffic } from './deciding-rules.ts';

type RecordedTuple = Recorded['tuples'][number];

export interface FlowReportsOptions {
  /** What was recorded since the last call; nothing where no rule in force records. */
  readonly take: () => Promise<ObservedTraffic | undefined>;
  /** What the connections that are open now are with. */
  readonly listOpen: () => Promise<OpenFlows>;
  readonly send: (report: FlowReport, signal: AbortSignal) => Promise<unknown>;
  /** Whether the server can be reached, as far as known. */
  readonly isLive: () => boolean;
  readonly clock: Clock;
  readonly monotonic: () => number;
  readonly random: () => number;
  readonly log: Log;
  /** Reports that wait for the server at most; 60 unless given. */
  readonly mostWaiting?: number;
  /** Tuples in all of them at most; 32,768 unless given, which take some 5 MB. */
  readonly mostTuples?: number;
}

const minute = 60_000;
/** The kernel has kept everything for so long. Less than the time after which it forgets, because a reading takes a while. */
const keptMs = (keptMinutes - 1) * minute;
/** Open connections that a report tells of, beside what was recorded: a fleet lists them all at the same time of the day. */
const openPerReport = 512;
/** Milliseconds between a listing of open connections and the next one for other rules: these may change all the time. */
const betweenListings = 10 * minute;
/** Milliseconds that the last report may take: the agent does not stop before. */
const lastReportMs = 2_000;
const protocolNames: Readonly<Record<number, string>> = { 1: 'icmp', 6: 'tcp', 17: 'udp', 58: 'icmpv6' };

const packetsOf = (tuples: readonly { readonly packets: number }[]): number =>
  tuples.reduce((sum, { packets }) => sum + packets, 0);

const reported = (
  { direction, verdict, family, far, protocol, port, packets }: RecordedTuple,
  decision: number | undefined,
): FlowTuple => ({
  direction: direction === 'inbound' ? 'in' : 'out',
  verdict,
  far: printAddress(family, far),
  protocol: protocolNames[protocol] ?? String(protocol),
  ...(port !== undefined && { port }),
  packets: Math.min(packets, mostPackets),
  ...(decision !== undefined && { decision }),
});

/** For a server of an earlier version, which refuses what it does not know. */
const withoutRules = ({ since, until, observed, tuples, not_recorded }: FlowReport): FlowReport => ({
  since,
  until,
  observed,
  tuples: tuples.map(({ decision: _decision, ...tuple }) => tuple),
  not_recorded,
});

/** The tuples that a report may hold: of each direction and family so many, and half of them for either verdict where both have more. */
export function withinBounds(
  tuples: readonly RecordedTuple[],
  most: number = flowLimits.tuplesPerMinute,
): readonly RecordedTuple[] {
  return (['inbound', 'outbound'] as const).flatMap((direction) =>
    ([4, 6] as const).flatMap((family) => {
      const own = tuples.filter((tuple) => tuple.direction === direction && tuple.family === family);
      if (own.length <= most) return own;
      const [refused, admitted] = [
        own.filter(({ verdict }) => verdict === 'refused'),
        own.filter(({ verdict }) => verdict === 'admitted'),
      ];
      const room = Math.max(most / 2, most - admitted.length);
      const kept = refused.slice(0, room);
      return [...kept, ...admitted.slice(0, most - kept.length)];
    }),
  );
}

export class FlowReports {
  readonly #options: FlowReportsOptions;
  #waiting: FlowReport[] = [];
  /** When the kernel was last read, by the time of day and by the monotonic clock. */
  #since: number;
  #readAt: number;
  /** The day (UTC) and the rules for which open connections were listed last, when by the monotonic clock, and those that are not reported yet. */
  #listed: { readonly day: string; readonly rules: object; readonly at: number } | undefined;
  #open: readonly RecordedTuple[] = [];
  #refused = false;

  constructor(options: FlowReportsOptions) {
    this.#options = options;
    this.#since = options.clock.now();
    this.#readAt = options.monotonic();
  }

  /** Reads once a minute and sends what it can, until the signal is aborted. */
  async run({ signal }: { readonly signal: AbortSignal }): Promise<void> {
    const { clock, random, monotonic } = this.#options;
    // Agents that start together do not report together.
    let due = monotonic() + minute * random();
    const backoff = new Backoff({ random, first: 5_000, longest: minute });
    while (!signal.aborted) {
      if (monotonic() >= due) {
        due = Math.max(due + minute, monotonic() + minute / 2);
        await this.take();
      }
      const isDone = await this.send(signal);
      if (isDone) backoff.reset();
      const wait = isDone ? due - monotonic() : Math.min(backoff.next(undefined), due - monotonic());
      await sleep(clock, Math.max(wait, 1), signal).catch(() => {});
    }
  }

  /** Takes what was recorded, and queues it. Where it cannot be read now, the next call has it. */
  async take(): Promise<void> {
    const { take, clock, monotonic, log } = this.#options;
    try {
      const recorded = await this.#withOpen(await take());
      const [now, readAt] = [clock.now(), monotonic()];
      const elapsed = readAt - this.#readAt;
      if (recorded !== undefined) {
        const kept = withinBounds(recorded.tuples);
        this.#queue(recorded, { kept, judged: await this.#judge(kept, recorded), now, elapsed });
      }
      this.#since = now;
      this.#readAt = readAt;
    } catch (error) {
      log('debug', `the agent cannot read observed traffic: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  /** What was recorded is reported whatever becomes of this: the kernel does not have it any more. */
  async #judge(tuples: readonly RecordedTuple[], { policies }: ObservedTraffic): Promise<JudgedTraffic> {
    try {
      return await judgeTraffic(tuples, policies);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      this.#options.log('warn', `the agent cannot say which rules decided observed traffic: ${why}`);
      return { report: {}, decisionOf: new Map() };
    }
  }

  /** Sends what was recorded since the last report, because a reboot would lose it. Call it after `run`. */
  async finish(): Promise<void> {
    await this.take();
    // The stream of the server has ended already, so whether the server can be reached is not known.
    await this.send(AbortSignal.timeout(lastReportMs), { isLive: () => true });
  }

  /** Sends what waits, oldest first. Answers whether nothing waits any more. */
  async send(signal: AbortSignal, { isLive }: Pick<FlowReportsOptions, 'isLive'> = this.#options): Promise<boolean> {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (!isLive()) return false;
      try {
        await this.#options.send(next, signal);
        this.#refused = false;
      } catch (error) {
        if (signal.aborted || !(error instanceof RingfenceError) || error.retryable) return false;
        if (error.status === 422 && next.groups !== undefined && this.#waiting[0] === next) {
          this.#waiting[0] = withoutRules(next);
          continue;
        }
        // A server of an earlier version, or one that does not take it: it never will.
        this.#complain(error);
      }
      if (this.#waiting[0] === next) this.#waiting.shift();
    }
    return true;
  }

  /**
   * Usage is counted by the day, and only first packets are recorded. So that a rule whose connection is always open is not taken for unused, what is open
   * counts as one packet when recording begins, on each further day, and when rules have changed: to usage, a rule that was edited is a new one.
   */
  async #withOpen(recorded: ObservedTraffic | undefined): Promise<ObservedTraffic | undefined> {
    const { listOpen, monotonic, log } = this.#options;
    if (recorded?.observed !== 'all') {
      [this.#listed, this.#open] = [undefined, []];
      return recorded;
    }
    const { rules } = recorded;
    const day = this.#dayToList(rules);
    let { unrecorded } = recorded;
    try {
      if (rules !== undefined && day !== undefined) {
        const { tuples, beyond } = await listOpen();
        this.#listed = { day, rules, at: monotonic() };
        this.#open = tuples.map((tuple) => ({ ...tuple, verdict: 'admitted', packets: 1 }));
        unrecorded += beyond;
      }
    } catch (error) {
      log('debug', `the agent cannot list open connections: ${error instanceof Error ? error.message : String(error)}`);
    }
    // What began in this minute is recorded.
    const seen = new Set(recorded.tuples.map(tupleKey));
    const told = this.#open.slice(0, openPerReport).filter((tuple) => !seen.has(tupleKey(tuple)));
    this.#open = this.#open.slice(openPerReport);
    return { ...recorded, tuples: [...recorded.tuples, ...told], unrecorded };
  }

  /** The day (UTC), where open connections are to be listed now. All of a listing are reported before the rules make another one due. */
  #dayToList(rules: object | undefined): string | undefined {
    const { clock, monotonic } = this.#options;
    const [listed, day] = [this.#listed, new Date(clock.now()).toISOString().slice(0, 10)];
    if (listed?.day !== day) return day;
    const isSoon = this.#open.length > 0 || monotonic() - listed.at < betweenListings;
    return listed.rules === rules || isSoon ? undefined : day;
  }

  /** `elapsed`: milliseconds since the last reading, without those in which the machine was suspended. */
  #queue(
    { tuples, unrecorded, observed, recordedFor }: ObservedTraffic,
    {
      kept,
      judged: { report, decisionOf },
      now,
      elapsed,
    }: {
      readonly kept: readonly RecordedTuple[];
      readonly judged: JudgedTraffic;
      readonly now: number;
      readonly elapsed: number;
    },
  ): void {
    const not_recorded = unrecorded + packetsOf(tuples) - packetsOf(kept);
    // After a suspend or a step of the clock, the time since the last reading is longer than a report may be of.
    const longest = flowLimits.minutesPerReport * minute;
    // What is of before the rules recorded, or so long ago that the kernel has forgotten some of it, was not observed.
    const observedFor = Math.min(recordedFor, keptMs);
    const since = Math.max(Math.min(this.#since, now), now - (observedFor < elapsed ? observedFor : longest));
    this.#waiting.push({
      since: new Date(since).toISOString(),
      until: new Date(now).toISOString(),
      observed,
      tuples: kept.map((tuple) => reported(tuple, decisionOf.get(tuple))),
      not_recorded: Math.min(not_recorded, mostPackets),
      ...report,
    });
    this.#makeRoom();
  }

  /** The oldest reports go first. The newest one counts what they held. */
  #makeRoom(): void {
    const { mostWaiting = 60, mostTuples = 32_768, log } = this.#options;
    let size = this.#waiting.reduce((sum, { tuples }) => sum + tuples.length, 0);
    let lost = 0;
    while (this.#waiting.length > 1 && (this.#waiting.length > mostWaiting || size > mostTuples)) {
      const oldest = this.#waiting.shift();
      if (oldest === undefined) break;
      size -= oldest.tuples.length;
      lost += packetsOf(oldest.tuples) + oldest.not_recorded;
      log('debug', 'the agent drops a report of observed traffic: the server is away', { since: oldest.since });
    }
    const newest = this.#waiting.at(-1);
    if (lost === 0 || newest === undefined) return;
    const not_recorded = Math.min(newest.not_recorded + lost, mostPackets);
    this.#waiting.splice(-1, 1, { ...newest, not_recorded });
  }

  #complain(error: RingfenceError): void {
    if (this.#refused) return;
    this.#refused = true;
    this.#options.log('warn', `the server does not accept observed traffic of this device: ${error.message}`);
  }
}
