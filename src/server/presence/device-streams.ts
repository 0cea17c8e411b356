/** Owns which devices hold a stream of this process, and the telling of it: one small write an interval, whatever the number of devices. */
import type { DeviceId } from '../../policy/ids.ts';
import type { Presence, PresenceChange } from '../store/contract/presence.ts';

export interface DeviceStreamsOptions {
  readonly presence: Pick<Presence, 'record'>;
  /** Tells this process from all others that ever were. */
  readonly process: string;
  /** Milliseconds that only ever go forward. */
  readonly monotonic: () => number;
  readonly onWarning: (message: string, cause: unknown) => void;
}

/** How often comings and goings are looked at: they are told of that soon. */
export const lookMs = 1_000;
/** How often a process says that it lives, where nothing else is to be told: well within the 20 seconds that a device stays online. */
const sayMs = 5_000;
/** Comings and goings in one write. */
const mostChanges = 5_000;

export class DeviceStreams {
  readonly #o: DeviceStreamsOptions;
  /** How many streams each device holds here. */
  readonly #streams = new Map<DeviceId, number>();
  /** Devices that came or left since the last word. */
  readonly #changed = new Set<DeviceId>();
  #saidAt = Number.NEGATIVE_INFINITY;
  #telling: Promise<void> | undefined;

  constructor(options: DeviceStreamsOptions) {
    this.#o = options;
  }

  /** How many devices hold a stream here. */
  get size(): number {
    return this.#streams.size;
  }

  opened(device: DeviceId): void {
    const count = this.#streams.get(device) ?? 0;
    this.#streams.set(device, count + 1);
    if (count === 0) this.#changed.add(device);
  }

  closed(device: DeviceId): void {
    const count = this.#streams.get(device) ?? 0;
    if (count > 1) this.#streams.set(device, count - 1);
    else if (this.#streams.delete(device)) this.#changed.add(device);
  }

  /** Tells what is due. To be called every `lookMs`; never fails, what could not be told is told the next time. */
  look(): Promise<void> {
    this.#telling ??= this.#tell().finally(() => (this.#telling = undefined));
    return this.#telling;
  }

  /** Tells everything, at the end of the process. */
  async close(): Promise<void> {
    await this.#telling;
    await this.look();
  }

  async #tell(): Promise<void> {
    const due = this.#streams.size > 0 && this.#o.monotonic() - this.#saidAt >= sayMs;
    if (this.#changed.size === 0 && !due) return;
    try {
      do await this.#say();
      while (this.#changed.size > 0);
    } catch (cause) {
      this.#o.onWarning('which devices are connected was not recorded', cause);
    }
  }

  async #say(): Promise<void> {
    const devices = [...this.#changed].slice(0, mostChanges);
    for (const device of devices) this.#changed.delete(device);
    const changes = devices.map((device_id): PresenceChange => ({
      device_id,
      connected: this.#streams.has(device_id),
    }));
    const isFirst = this.#saidAt === Number.NEGATIVE_INFINITY;
    try {
      const unknown = await this.#o.presence.record(this.#o.process, changes);
      this.#saidAt = this.#o.monotonic();
      // Given up by the others after a long silence: what they have forgotten is told again.
      if (unknown && !isFirst) for (const device of this.#streams.keys()) this.#changed.add(device);
    } catch (cause) {
      for (const device of devices) this.#changed.add(device);
      throw cause;
    }
  }
}
