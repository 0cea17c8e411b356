/** Owns whom somebody still waits for: a device is judged again only when it, or what it said last, is another. */
import type { DeviceId } from '../../policy/ids.ts';
import type { Seen } from '../store/contract/presence.ts';
import type { OrganizationState } from './organization-state.ts';
import type { ModelDevice } from './policy-model.ts';
import type { Receipt } from './receipt.ts';

export interface PendingDevicesOptions {
  readonly state: OrganizationState;
  readonly revision: number;
  readonly readPresence: () => Promise<ReadonlyMap<DeviceId, Seen>>;
}

/** What a device was last judged by; undefined where that could not be told for certain. */
interface Judged {
  readonly device: ModelDevice;
  readonly receipt: Receipt | undefined;
}

export class PendingDevices {
  readonly #o: PendingDevicesOptions;
  /** Undefined: nobody was judged yet. */
  #pending: Map<DeviceId, Judged | undefined> | undefined;

  constructor(options: PendingDevicesOptions) {
    this.#o = options;
  }

  /**
   * Who lacks the revision now, as far as the state has been refreshed. Nobody, only when every device has just been judged. `all`
   * judges everybody who is pending, with who is connected: a device that is away may have it by an older word.
   */
  async look(all: boolean): Promise<ReadonlySet<DeviceId>> {
    const { state } = this.#o;
    if (this.#pending !== undefined) {
      const left = await this.#judge(this.#pending, this.#known(this.#pending, all), all);
      if (left.size > 0) return new Set(left.keys());
    }
    // Whoever had it once may have failed since: the end is told only by all of them.
    this.#pending = new Map();
    const left = await this.#judge(this.#pending, [...state.devices.values()], all);
    return new Set(left.keys());
  }

  /** Those of the pending that are to be judged again. */
  #known(pending: Map<DeviceId, Judged | undefined>, all: boolean): readonly ModelDevice[] {
    const { state } = this.#o;
    const again: ModelDevice[] = [];
    for (const [id, judged] of pending) {
      const device = state.devices.get(id);
      if (device === undefined) pending.delete(id);
      else if (all || device !== judged?.device || state.receiptOf(id) !== judged.receipt) again.push(device);
    }
    return again;
  }

  async #judge(
    pending: Map<DeviceId, Judged | undefined>,
    devices: readonly ModelDevice[],
    all: boolean,
  ): Promise<ReadonlyMap<DeviceId, Judged | undefined>> {
    const { state, revision, readPresence } = this.#o;
    const seen = all ? await readPresence() : undefined;
    const known = await state.workOutDigests(revision, devices, seen);
    for (const device of devices) {
      const { in_force } = state.judge(revision, device, seen);
      if (in_force === 'yes') pending.delete(device.id);
      else pending.set(device.id, known ? { device, receipt: state.receiptOf(device.id) } : undefined);
    }
    return pending;
  }
}
