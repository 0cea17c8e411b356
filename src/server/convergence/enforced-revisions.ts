/** Owns up to which revision each device has everything in force: a device is judged again only when it, or what it said last, is another. */
import type { DeviceId } from '../../policy/ids.ts';
import type { TimeSlices } from '../time-slices.ts';
import type { Known, OrganizationState } from './organization-state.ts';
import type { ModelDevice } from './policy-model.ts';
import type { Receipt } from './receipt.ts';

export interface EnforcedRevisionsOptions {
  readonly state: Pick<OrganizationState, 'devices' | 'receiptOf' | 'workOutDigests' | 'inForceUpTo'>;
  readonly slices: TimeSlices;
}

/** What a device was last judged by; no device where that could not be told for certain. */
interface Judged {
  readonly device: ModelDevice | undefined;
  readonly receipt: Receipt | undefined;
  readonly upTo: number;
}

export class EnforcedRevisions {
  readonly #o: EnforcedRevisionsOptions;
  readonly #judged = new Map<DeviceId, Judged>();

  constructor(options: EnforcedRevisionsOptions) {
    this.#o = options;
  }

  /** Up to which revision each device has everything, as far as the state has been refreshed. */
  async look(): Promise<ReadonlyMap<DeviceId, number>> {
    const { state, slices } = this.#o;
    const again: Known[] = [];
    await slices.each(state.devices.values(), (device) => {
      if (this.#isOther(device)) again.push({ device, receipt: state.receiptOf(device.id) });
    });
    const isKnown = await state.workOutDigests(0, again);
    await slices.each(again, (one) => {
      const { id } = one.device;
      const [device, receipt] = [state.devices.get(id), state.receiptOf(id)];
      if (device === undefined) return;
      // For one that is another by now, digests were not worked out: it is judged again the next time.
      const isCertain = isKnown && device === one.device && receipt === one.receipt;
      this.#judged.set(id, { device: isCertain ? device : undefined, receipt, upTo: state.inForceUpTo(device) });
    });
    const enforced = new Map<DeviceId, number>();
    // One that came meanwhile has not been judged.
    for (const id of state.devices.keys()) enforced.set(id, this.#judged.get(id)?.upTo ?? -1);
    for (const id of this.#judged.keys()) if (!enforced.has(id)) this.#judged.delete(id);
    return enforced;
  }

  #isOther(device: ModelDevice): boolean {
    const judged = this.#judged.get(device.id);
    return judged === undefined || device !== judged.device || this.#o.state.receiptOf(device.id) !== judged.receipt;
  }
}
