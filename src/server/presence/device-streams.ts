/**
 * Owns which devices hold a stream of this process and when each was last heard. It records them with one small write
 * per interval, for any number of devices.
 */
import type { DeviceId } from '../../policy/ids.ts';
import type { Presence, PresenceChange } from '../store/devices/presence.ts';
import type { DevicePresence } from '../watch/hub.ts';
import type { SignSource } from '../watch/signs.ts';

export interface DeviceStreamsOptions {
  readonly presence: Pick<Presence, 'record'>;
  /** Identifies this process among all processes, past and present. */
  readonly process: string;
  /** Milliseconds that only ever go forward. */
  readonly monotonic: () => number;
  /** A device that shows itself by requests is recorded at most this often. */
  readonly requestGapMs: number;
  readonly onWarning: (message: string, cause: unknown) => void;
}

/** How often comings and goings are recorded. */
export const lookMs = 1_000;
/** How often a process records that it lives, where nothing else is to be recorded: well within the 20 seconds that a device stays online. */
const aliveMs = 5_000;
/** Changes in one write. */
const mostChanges = 5_000;

/** What this process knows of a device. */
interface DeviceStreamState {
  /** Streams that the device holds here, and how many of them carry signs. */
  streams: number;
  twoWay: number;
  silenceMs: number;
  heardAt: number;
  /** When its last stream here ended, unless it ended because of silence. */
  leftAt?: number;
  /** When a request of the device was last recorded as a sign of life. */
  recordedAt: number;
}

export class DeviceStreams implements DevicePresence {
  readonly #o: DeviceStreamsOptions;
  /** Devices that hold a stream here, or are yet to be recorded. */
  readonly #known = new Map<DeviceId, DeviceStreamState>();
  /** Devices that hold a stream with signs here, by their last sign: the one that was silent for longest comes first. */
  readonly #twoWay = new Map<DeviceId, DeviceStreamState>();
  /** Devices of which something is to be recorded. */
  readonly #changed = new Set<DeviceId>();
  #size = 0;
  #recordedAt = Number.NEGATIVE_INFINITY;
  #recording: Promise<void> | undefined;

  constructor(options: DeviceStreamsOptions) {
    this.#o = options;
  }

  /** How many devices hold a stream here. */
  get size(): number {
    return this.#size;
  }

  opened(device: DeviceId, signs: SignSource, silenceMs: number): void {
    const known = this.#find(device);
    known.streams += 1;
    known.silenceMs = silenceMs;
    known.heardAt = this.#o.monotonic();
    delete known.leftAt;
    if (known.streams === 1) this.#size += 1;
    if (signs === 'stream') known.twoWay += 1;
    if (known.twoWay > 0) this.#moveLast(device, known);
    this.#changed.add(device);
  }

  heard(device: DeviceId, isReport: boolean): void {
    const now = this.#o.monotonic();
    const known = this.#known.get(device);
    if (known !== undefined) known.heardAt = now;
    if (known !== undefined && known.twoWay > 0) this.#moveLast(device, known);
    else if (!isReport) this.#heardByRequest(device, known ?? this.#find(device), now);
  }

  closed(device: DeviceId, signs: SignSource, silent: boolean): void {
    const known = this.#known.get(device);
    if (known === undefined || known.streams === 0) return;
    known.streams -= 1;
    if (signs === 'stream') known.twoWay -= 1;
    if (known.twoWay === 0) this.#twoWay.delete(device);
    if (known.streams === 0) {
      this.#size -= 1;
      if (!silent) known.leftAt = this.#o.monotonic();
    }
    this.#changed.add(device);
  }

  /** Records what is due. To be called every `lookMs`; never fails, what could not be recorded is recorded the next time. */
  look(): Promise<void> {
    this.#recording ??= this.#recordDue().finally(() => (this.#recording = undefined));
    return this.#recording;
  }

  /** Records everything, at the end of the process. */
  async close(): Promise<void> {
    await this.#recording;
    await this.look();
  }

  #find(device: DeviceId): DeviceStreamState {
    let known = this.#known.get(device);
    if (known === undefined) {
      known = {
        streams: 0,
        twoWay: 0,
        silenceMs: 0,
        heardAt: this.#o.monotonic(),
        recordedAt: Number.NEGATIVE_INFINITY,
      };
      this.#known.set(device, known);
    }
    return known;
  }

  #moveLast(device: DeviceId, known: DeviceStreamState): void {
    this.#twoWay.delete(device);
    this.#twoWay.set(device, known);
  }

  #heardByRequest(device: DeviceId, known: DeviceStreamState, now: number): void {
    if (now - known.recordedAt < this.#o.requestGapMs) return;
    known.recordedAt = now;
    this.#changed.add(device);
  }

  async #recordDue(): Promise<void> {
    const due = this.#size > 0 && this.#o.monotonic() - this.#recordedAt >= aliveMs;
    if (this.#changed.size === 0 && !due) {
      this.#forget();
      return;
    }
    try {
      do await this.#record();
      while (this.#changed.size > 0);
      this.#forget();
    } catch (cause) {
      this.#o.onWarning('cannot save which devices are connected', cause);
    }
  }

  async #record(): Promise<void> {
    const devices = [...this.#changed].slice(0, mostChanges);
    for (const device of devices) this.#changed.delete(device);
    const now = this.#o.monotonic();
    const changes = devices.flatMap((device) => this.#changeOf(device, now));
    const isFirst = this.#recordedAt === Number.NEGATIVE_INFINITY;
    try {
      const unknown = await this.#o.presence.record(this.#o.process, this.#heardAgo(now), changes);
      this.#recordedAt = this.#o.monotonic();
      // After a long silence, the others dropped the record of this process: record everything again.
      if (unknown && !isFirst)
        for (const [device, { streams }] of this.#known) if (streams > 0) this.#changed.add(device);
    } catch (cause) {
      for (const device of devices) this.#changed.add(device);
      throw cause;
    }
  }

  #changeOf(device_id: DeviceId, now: number): readonly PresenceChange[] {
    const known = this.#known.get(device_id);
    if (known === undefined) return [];
    const { streams, twoWay, silenceMs, heardAt, leftAt } = known;
    const left = leftAt === undefined ? {} : { leftAgoMs: now - leftAt };
    const change = { device_id, connected: streams > 0, twoWay: twoWay > 0, silenceMs, heardAgoMs: now - heardAt };
    return [{ ...change, ...left }];
  }

  /**
   * The time since which every device with signs of life was heard. Undefined while a departure is not recorded yet:
   * until then the process can say nothing about all devices.
   */
  #heardAgo(now: number): number | undefined {
    if (this.#changed.size > 0) return undefined;
    for (const { heardAt } of this.#twoWay.values()) return now - heardAt;
    return 0;
  }

  /** Lets go of devices that hold no stream here, once all of them are recorded. */
  #forget(): void {
    if (this.#known.size === this.#size) return;
    const now = this.#o.monotonic();
    for (const [device, { streams, recordedAt }] of this.#known) {
      if (streams === 0 && !this.#changed.has(device) && now - recordedAt >= this.#o.requestGapMs)
        this.#known.delete(device);
    }
  }
}
