/** Owns the reports to the server about this device: after each change, spread over the fleet, and rarely otherwise. */
import type { DeviceReport } from '../../api/device.ts';
import type { GroupPackets } from '../../api/enforcement/overview.ts';
import { Backoff } from '../../client/backoff.ts';
import { sleep, type Clock } from '../../client/clock.ts';
import { RingfenceError } from '../../client/error.ts';
import { digestForm } from '../../policy/digest/digest-form.ts';
import type { Log } from '../host/log.ts';
import type { AgentStatus } from '../loop/status.ts';
import { accessDocument, clockWords, revertedWords } from './status-document.ts';
import { stepWords } from '../loop/step.ts';
import { groupPacketsOf, PacketReports } from './packet-reports.ts';

export interface ReporterOptions {
  readonly send: (report: DeviceReport, signal: AbortSignal) => Promise<unknown>;
  /** How things stand with counters of this moment. */
  readonly count?: () => Promise<AgentStatus>;
  readonly version: string;
  readonly clock: Clock;
  /** Milliseconds that only ever go forward, whatever happens to the time of day. */
  readonly monotonic: () => number;
  readonly random: () => number;
  readonly log: Log;
  /** Devices of the organization, as far as known: one change may make all of them report. */
  readonly devices: () => number;
}

/** The server shows a device as silent after ten minutes. */
const heartbeat = 5 * 60_000;
/** Repairs by a hostile loop are worth one report a minute. */
const driftGap = 60_000;
/** At least so long between two reports; between two that somebody waits for. */
const shortestGap = 1_000;
const shortestAwaitedGap = 100;
/** For so long a wait is taken for granted: the server asks again while it lasts. */
const awaitedFor = 15_000;
/** Milliseconds that each device of the organization adds to the time over which reports are spread: 500 a second. */
const spreadPerDevice = 2;
const widestSpread = 60_000;
const longestDetail = 1_000;

/** What is worth a report of its own; the newest revision alone is not, in a large organization it grows all the time. */
interface ReportableState {
  readonly report: DeviceReport;
  readonly policy: unknown;
  /** Revision of the device's own record: who changed it waits to see that it has arrived. */
  readonly own: number | undefined;
}

export class Reporter {
  readonly #options: ReporterOptions;
  #seen: ReportableState | undefined;
  #sent: ReportableState | undefined;
  #sentAt = Number.NEGATIVE_INFINITY;
  #live = false;
  /** Which stream is live, counted: an answer from before its begin says nothing about what changed since. */
  #stream = 0;
  #refused = false;
  /** Somebody waits until the rules reflect this revision. */
  #awaited: { readonly revision: number; readonly until: number } | undefined;
  /** When the report that is due goes out. */
  #spreadUntil: number | undefined;
  /** Fields of a report that this server does not know. */
  readonly #unknown = new Set<string>();
  readonly #packets = new PacketReports();
  /** As last counted: a report that does not count says them again. */
  #groupPackets: readonly GroupPackets[] = [];
  #wake: (() => void) | undefined;

  constructor(options: ReporterOptions) {
    this.#options = options;
  }

  /** Takes in how things stand; never waits. */
  see(status: AgentStatus): void {
    // A stream that is too large to be taken never becomes live, but its server answers.
    const live = status.connection.phase === 'live' || status.held?.code === 'too_large';
    // After a break it may be a server of another version, or one that knows nothing of what was said before.
    if (live && !this.#live) {
      this.#unknown.clear();
      this.#sent = undefined;
      this.#stream += 1;
    }
    this.#live = live;
    const report = reportOf(status, this.#options.version);
    if (report !== undefined) this.#seen = { report, policy: status.inForce?.policy, own: status.inForce?.own };
    this.#wake?.();
  }

  /**
   * A caller waits until the rules in force reflect the revision. The reporter then reports that at once, and also what
   * prevents it. Revision 0 asks for any report, also for one that says nothing new: its answer may ask for another token.
   */
  expect(revision: number): void {
    if (revision === 0) this.#sent = undefined;
    this.#awaited = { revision, until: this.#options.monotonic() + awaitedFor };
    this.#wake?.();
  }

  /** Reports until the signal is aborted. */
  async run({ signal }: { readonly signal: AbortSignal }): Promise<void> {
    const { clock, random, monotonic } = this.#options;
    const backoff = new Backoff({ random, first: 5_000, longest: heartbeat });
    while (!signal.aborted) {
      const due = this.#due();
      if (due > monotonic()) {
        await this.#waitUntil(due, signal);
        continue;
      }
      // All devices receive a change at once. Their reports are spread over time, unless a caller waits for them.
      this.#spreadUntil ??= monotonic() + Math.min(this.#options.devices() * spreadPerDevice, widestSpread) * random();
      if (this.#spreadUntil > monotonic() && !this.#isAwaited) {
        await this.#waitUntil(this.#spreadUntil, signal);
        continue;
      }
      this.#spreadUntil = undefined;
      const [seen, stream] = [this.#seen, this.#stream];
      if (seen === undefined || !this.#live) continue;
      try {
        // A report that a caller waits for does not wait for the counters.
        const counted = this.#isAwaited ? undefined : await this.#options.count?.();
        const packets = counted && this.#packets.since(counted);
        if (counted) this.#groupPackets = groupPacketsOf(counted);
        const group_packets = this.#groupPackets;
        await this.#send(
          { ...seen.report, ...(packets && { packets }), ...(group_packets.length > 0 && { group_packets }) },
          signal,
        );
        if (counted) this.#packets.told(counted);
        if (this.#stream === stream) this.#sent = seen;
        this.#sentAt = monotonic();
        this.#refused = false;
        backoff.reset();
      } catch (error) {
        if (signal.aborted) return;
        this.#complain(error);
        await sleep(clock, backoff.next(undefined), signal).catch(() => {});
      }
    }
  }

  /** Somebody waits for a revision that was not reported yet. */
  get #isAwaited(): boolean {
    const awaited = this.#awaited;
    if (awaited === undefined || awaited.until < this.#options.monotonic()) return false;
    return this.#sent === undefined || reachOf(this.#sent) < awaited.revision;
  }

  /** The rules reflect the revision that somebody waits for, or it was tried in vain. */
  get #isReached(): boolean {
    return this.#seen !== undefined && reachOf(this.#seen) >= (this.#awaited?.revision ?? 0);
  }

  /** When the next report is due. */
  #due(): number {
    const [seen, sent] = [this.#seen, this.#sent];
    if (seen === undefined || !this.#live) return Number.POSITIVE_INFINITY;
    if (this.#isAwaited && (sent === undefined || isNew(seen, sent) || this.#isReached)) {
      return this.#sentAt + shortestAwaitedGap;
    }
    if (sent === undefined || isNew(seen, sent)) return this.#sentAt + shortestGap;
    const drifted = seen.report.drift_repairs !== sent.report.drift_repairs;
    return this.#sentAt + (drifted ? driftGap : heartbeat);
  }

  /** A server of an earlier version refuses fields that it does not know: it gets the report without them. */
  async #send(report: DeviceReport, signal: AbortSignal): Promise<void> {
    const { send } = this.#options;
    try {
      await send(without(report, this.#unknown), signal);
    } catch (error) {
      const unknown = unknownFields(error);
      if (unknown.length === 0) throw error;
      for (const name of unknown) this.#unknown.add(name);
      await send(without(report, this.#unknown), signal);
    }
  }

  #complain(error: unknown): void {
    // A server that is away shows by its stream.
    if (!(error instanceof RingfenceError) || error.retryable || this.#refused) return;
    this.#refused = true;
    this.#options.log('warn', `the server does not accept the status of this device: ${error.message}`);
  }

  async #waitUntil(due: number, signal: AbortSignal): Promise<void> {
    const { clock, monotonic } = this.#options;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        cancel();
        signal.removeEventListener('abort', done);
        this.#wake = undefined;
        resolve();
      };
      const cancel = clock.after(Math.min(due - monotonic(), heartbeat), done);
      signal.addEventListener('abort', done, { once: true });
      this.#wake = done;
      if (signal.aborted) done();
    });
  }
}

/** The newest revision that the report says something about. */
const reachOf = ({ report: { revision = -1, observed_revision = -1 } }: ReportableState): number =>
  Math.max(revision, observed_revision);

/** A server that does not know forms of digests takes each digest for the oldest: it gets none, and calls the device behind, not failed. */
const without = (report: DeviceReport, names: ReadonlySet<string>): DeviceReport => {
  const isLeftOut = (name: string): boolean =>
    names.has(name) || (name === 'policy_digest' && names.has('policy_digest_form'));
  return Object.fromEntries(Object.entries(report).filter(([name]) => !isLeftOut(name))) as DeviceReport;
};

/** Those at the top of the report, where it names nothing else that is wrong. */
function unknownFields(error: unknown): readonly string[] {
  if (!(error instanceof RingfenceError) || error.errors.some(({ code }) => code !== 'unknown_field')) return [];
  return error.errors.map(({ pointer }) => pointer.slice(1)).filter((name) => !name.includes('/'));
}

const isNew = (a: ReportableState, b: ReportableState): boolean =>
  a.policy !== b.policy ||
  a.own !== b.own ||
  a.report.state !== b.report.state ||
  a.report.code !== b.report.code ||
  a.report.policy_digest !== b.report.policy_digest ||
  a.report.detail !== b.report.detail ||
  a.report.interface !== b.report.interface ||
  JSON.stringify(a.report.server_access) !== JSON.stringify(b.report.server_access);

/** How things stand in the words of the wire; nothing while a change is only under way. */
export function reportOf(status: AgentStatus, version: string): DeviceReport | undefined {
  const { inForce, troubles, held, driver, pending, driftRepairs, policyDigest, observedRevision } = status;
  const complaints = [
    ...troubles.map(
      ({ step, message, advice }) => `${stepWords[step]}: ${message}${advice === undefined ? '' : ` (${advice})`}`,
    ),
    ...(held === undefined ? [] : [held.why]),
  ];
  const notes = [...complaints];
  if (driver !== undefined && driver.index === undefined) notes.push(`the interface ${driver.name} does not exist`);
  const isOwn = inForce !== undefined && inForce.origin !== 'first' && inForce.origin !== 'lost';
  // What was put in force counts once it was read back.
  const isUnderWay = pending || policyDigest === undefined;
  if (isUnderWay && isOwn && complaints.length === 0) return undefined;
  if (status.clockOff !== undefined) notes.push(clockWords(status.clockOff));
  if (status.reverted !== undefined) notes.push(revertedWords(status.reverted));
  const failure = held?.code ?? troubles.find((each) => each.code !== undefined)?.code;
  const reverted = status.reverted === undefined ? undefined : 'server_unreachable';
  const code = failure ?? reverted ?? (status.clockOff === undefined ? undefined : 'clock_off');
  const hasFailed = complaints.length > 0;
  return {
    state: hasFailed ? 'failed' : reverted !== undefined ? 'reverted' : isOwn && !pending ? 'applied' : 'starting',
    ...(inForce?.revision !== undefined && { revision: inForce.revision }),
    ...((hasFailed || reverted !== undefined) &&
      observedRevision !== undefined && { observed_revision: observedRevision }),
    ...(policyDigest !== undefined && { policy_digest: policyDigest, policy_digest_form: digestForm }),
    ...(code !== undefined && { code }),
    ...(notes.length > 0 && { detail: notes.join('; ').slice(0, longestDetail) }),
    agent_version: version,
    ...(driver !== undefined && { interface: driver.name }),
    drift_repairs: driftRepairs,
    ...(status.serverAccess && { server_access: accessDocument(status.serverAccess) }),
    containers: status.forwarding === undefined ? 'ignore' : 'guard',
  };
}
