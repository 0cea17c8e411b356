/**
 * Owns the revision up to which each device has everything in force. It judges a device again only when the device or
 * its last report has changed.
 */
import type { DeviceId } from '../../policy/ids.ts';
import type { TimeSlices } from '../scheduling/time-slices.ts';
import type { DevicePresence } from '../store/devices/presence.ts';
import type { JudgedDevice, OrganizationState } from './organization-state.ts';
import type { EnforcedDevice } from './policy-revisions.ts';
import type { Receipt } from './receipt.ts';

export interface EnforcedRevisionsOptions {
  readonly state: Pick<
    OrganizationState,
    'devices' | 'receiptOf' | 'takeChanged' | 'workOutDigests' | 'inForceUpTo' | 'isUnreported' | 'judgedUntil' | 'now'
  >;
  readonly slices: TimeSlices;
  /** Which devices are online. */
  readonly presence: () => Promise<ReadonlyMap<DeviceId, DevicePresence>>;
}

/** The input of a device's last judgement. */
interface LastJudgement {
  readonly device: EnforcedDevice;
  readonly receipt: Receipt | undefined;
  /** Time alone changes the judgement then, in milliseconds since the epoch. */
  readonly until: number;
}

export class EnforcedRevisions {
  readonly #o: EnforcedRevisionsOptions;
  readonly #judged = new Map<DeviceId, LastJudgement>();
  readonly #upTo = new Map<DeviceId, number>();
  /** Devices whose result was uncertain. The next look judges them again. */
  readonly #uncertain = new Set<DeviceId>();
  /** When time alone changes the first of the judgements. */
  #soonest = Number.POSITIVE_INFINITY;
  /** After a failed look, the next one judges every device. */
  #hasFailed = false;
  #looking: Promise<unknown> = Promise.resolve();

  constructor(options: EnforcedRevisionsOptions) {
    this.#o = options;
  }

  /** Up to which revision each device has everything, as far as the state has been refreshed. Good until something else is awaited. */
  look(): Promise<ReadonlyMap<DeviceId, number>> {
    // Looks run one after the other. Otherwise a look would take for judged what another is still judging.
    const look = this.#looking.catch(() => {}).then(() => this.#look());
    this.#looking = look;
    return look;
  }

  async #look(): Promise<ReadonlyMap<DeviceId, number>> {
    const { state, slices } = this.#o;
    const changed = state.takeChanged();
    const { now } = state;
    const isWhole = changed === undefined || this.#hasFailed || now >= this.#soonest;
    if (isWhole) this.#soonest = Number.POSITIVE_INFINITY;
    this.#hasFailed = true;
    const again: JudgedDevice[] = [];
    await slices.each(isWhole ? state.devices.keys() : new Set([...changed, ...this.#uncertain]), (id) => {
      const device = state.devices.get(id);
      const receipt = state.receiptOf(id);
      if (device === undefined) return;
      const until = this.#sameUntil(device, receipt, now);
      if (until === undefined) again.push({ device, receipt });
      else this.#soonest = Math.min(this.#soonest, until);
    });
    const isKnown = await state.workOutDigests(0, again);
    let isAwayNeeded = false;
    await slices.each(again, ({ device }) => void (isAwayNeeded ||= state.isUnreported(device)));
    const presences = isAwayNeeded ? await this.#o.presence() : undefined;
    await slices.each(again, (one) => {
      const { id } = one.device;
      const [device, receipt] = [state.devices.get(id), state.receiptOf(id)];
      if (device === undefined) return;
      const until = state.judgedUntil(device);
      this.#upTo.set(id, state.inForceUpTo(device, presences?.get(id)));
      this.#judged.set(id, { device, receipt, until });
      this.#soonest = Math.min(this.#soonest, until);
      // For one that is another by now, digests were not worked out; one that is `yes` only while it is away may come back.
      const isSure = isKnown && !state.isUnreported(device);
      if (isSure && device === one.device && receipt === one.receipt) this.#uncertain.delete(id);
      else this.#uncertain.add(id);
    });
    // Devices come and leave by the log alone, after which the look is at everybody; one that came meanwhile has not been judged.
    if (isWhole) this.#takeInOrOut();
    this.#hasFailed = false;
    return this.#upTo;
  }

  #takeInOrOut(): void {
    const { devices } = this.#o.state;
    for (const id of devices.keys()) if (!this.#upTo.has(id)) this.#upTo.set(id, -1);
    if (this.#upTo.size === devices.size) return;
    for (const id of this.#upTo.keys()) {
      if (devices.has(id)) continue;
      this.#upTo.delete(id);
      this.#judged.delete(id);
      this.#uncertain.delete(id);
    }
  }

  /** Until when the last judgement of the device holds; undefined where it does not hold now. */
  #sameUntil(device: EnforcedDevice, receipt: Receipt | undefined, now: number): number | undefined {
    const judged = this.#judged.get(device.id);
    if (this.#uncertain.has(device.id) || device !== judged?.device || receipt !== judged.receipt) return undefined;
    return judged.until > now ? judged.until : undefined;
  }
}
