/**
 * Owns the states of one device in a span of time: what it admitted and whom it could reach, from the history. Each change of another record costs as much as
 * that record concerns.
 */
import { limits } from '../../api/limits.ts';
import type { DeviceId } from '../../policy/ids.ts';
import { DeviceReach, policyIn, type PairReach } from '../../organization/reach/device-reach.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { isSameInEffect } from '../../organization/reach/same-in-effect.ts';
import { policiesOf } from '../../organization/device-policies.ts';
import { loggedChange } from '../../organization/read-records.ts';
import { indexDevices } from '../../organization/fleet.ts';
import {
  overlay,
  type Organization,
  type OrganizationDevice,
  type OrganizationGroup,
} from '../../organization/organization.ts';
import type { SlicedWork } from '../scheduling/time-slices.ts';
import type { WrittenState } from '../store/data/history.ts';
import { TooMuchEvidence } from './file-room.ts';

export interface Pair {
  readonly inbound: PairReach;
  readonly outbound: PairReach;
}

/** One state: the organization then, and what the device could exchange with each other device. */
export interface DeviceState {
  /** Milliseconds since 1970. */
  readonly from: number;
  readonly snapshot: Organization;
  /** The writes that made it; empty where only time passed, and of the first. */
  readonly writes: readonly WrittenState[];
  readonly pairs: ReadonlyMap<DeviceId, Pair>;
  /** Devices whose policy is not known. */
  readonly unknown: ReadonlySet<DeviceId>;
}

/** Writes that took effect together. */
export interface Step {
  readonly at: number;
  readonly writes: readonly WrittenState[];
}

const endOf = (device: OrganizationDevice | undefined): readonly number[] => {
  const until = device?.identity.isolated?.until;
  return until === undefined ? [] : [until];
};

const endsOf = (group: OrganizationGroup | undefined): readonly number[] => group?.selectable.rules.moments ?? [];

/** Characters that the pairs of one state may take as JSON. Devices that share an entry of the file each have a pair. */
const mostOfPairs = 4 * limits.answer;

export class DeviceStates {
  readonly #id: DeviceId;
  readonly #slices: SlicedWork;
  readonly #pairs = new Map<DeviceId, Pair & { readonly key: string }>();
  readonly #unknown = new Set<DeviceId>();
  /** Moments at which something ends by itself. */
  readonly #moments = new Set<number>();
  /** Characters that the pairs take as JSON. */
  #size = 0;
  #snapshot: Organization;
  #own: { readonly device?: OrganizationDevice | undefined; readonly policy?: EffectivePolicy | undefined } = {};

  constructor(id: DeviceId, first: Organization, slices: SlicedWork) {
    this.#id = id;
    this.#slices = slices;
    this.#snapshot = first;
    for (const device of first.devices.values()) this.#note(endOf(device));
    for (const group of first.groups.values()) this.#note(endsOf(group));
  }

  #note(moments: readonly number[]): void {
    for (const moment of moments) this.#moments.add(moment);
  }

  /** The state at the start, then each that differs from the one before. */
  async *walk(steps: readonly Step[], until: number): AsyncGenerator<DeviceState> {
    await this.#lookAt(this.#snapshot.devices.keys());
    await this.#hasOtherPolicy();
    yield this.#state(this.#snapshot.at, []);
    for (const { at, writes } of steps) {
      yield* this.#passTime(at);
      if (await this.#write(at, writes)) yield this.#state(at, writes);
    }
    yield* this.#passTime(until);
  }

  /** What ends by itself before the next write, or with the end of the span. */
  async *#passTime(until: number): AsyncGenerator<DeviceState> {
    const due = [...this.#moments]
      .filter((moment) => moment > this.#snapshot.at && moment <= until)
      .toSorted((a, b) => a - b);
    for (const at of due) {
      this.#snapshot = overlay(this.#snapshot, [], { at });
      const isOther = await this.#lookAt(this.#snapshot.devices.keys());
      if ((await this.#hasOtherPolicy()) || isOther) yield this.#state(at, []);
    }
  }

  async #write(at: number, writes: readonly WrittenState[]): Promise<boolean> {
    const before = this.#snapshot;
    const changes = writes.map(({ kind, id, json }) => loggedChange(kind, id, json));
    const revision = writes.at(-1)?.revision ?? before.revision;
    this.#snapshot = overlay(before, changes, { revision, at: Math.max(at, before.at) });
    let isGroup = false;
    const touched = new Set<DeviceId>();
    for (const change of changes) {
      if (change.kind === 'group') {
        isGroup = true;
        this.#note(endsOf(change.group));
        continue;
      }
      this.#note(endOf(change.device));
      for (const id of this.#sharing(before, change.id)) touched.add(id);
      for (const id of this.#sharing(this.#snapshot, change.id)) touched.add(id);
    }
    const isAll = isGroup || touched.has(this.#id);
    const everyone = new Set([...before.devices.keys(), ...this.#snapshot.devices.keys()]);
    const isOther = await this.#lookAt(isAll ? everyone : touched);
    return (await this.#hasOtherPolicy()) || isOther;
  }

  /** The device, and those that have one of its addresses too. */
  #sharing(snapshot: Organization, id: DeviceId): readonly DeviceId[] {
    const device = snapshot.devices.get(id);
    if (device === undefined) return [id];
    const of = (family: 4 | 6) =>
      device.identity.addresses
        .filter((own) => own.family === family)
        .map(({ value }) => ({ first: value, last: value }))
        .toSorted((a, b) => (a.first < b.first ? -1 : 1));
    const { devices } = policiesOf(snapshot).fleet.nameSet({ v4: of(4), v6: of(6) });
    return [id, ...devices.map((other) => other.id)];
  }

  /** Works out again what these devices and the device may exchange. Says whether anything is other than before. */
  async #lookAt(ids: Iterable<DeviceId>): Promise<boolean> {
    await this.#slices.run(indexDevices(this.#snapshot.devices.below));
    const reach = new DeviceReach(this.#snapshot, this.#id);
    let isOther = false;
    for (const id of ids) if (await this.#slices.run(this.#lookAtOne(id, reach))) isOther = true;
    return isOther;
  }

  *#lookAtOne(id: DeviceId, reach: DeviceReach): Generator<void, boolean> {
    const wasUnknown = this.#unknown.has(id);
    const isUnknown = this.#snapshot.devices.has(id) && policyIn(this.#snapshot, id) === undefined;
    if (isUnknown) this.#unknown.add(id);
    else this.#unknown.delete(id);
    const known = this.#pairs.get(id)?.key;
    const pair = yield* reach.pairOf(id);
    const key = pair && `${this.#snapshot.devices.get(id)?.hostname}${JSON.stringify(pair)}`;
    if (key === known) return isUnknown !== wasUnknown;
    this.#size += (key?.length ?? 0) - (known?.length ?? 0);
    if (this.#size > mostOfPairs) throw new TooMuchEvidence();
    if (pair === undefined || key === undefined) this.#pairs.delete(id);
    else this.#pairs.set(id, { ...pair, key });
    return true;
  }

  async #hasOtherPolicy(): Promise<boolean> {
    const was = this.#own;
    const is = { device: this.#snapshot.devices.get(this.#id), policy: policyIn(this.#snapshot, this.#id) };
    this.#own = is;
    return was.device !== is.device || !(await this.#slices.run(isSameInEffect(was.policy, is.policy)));
  }

  #state(from: number, writes: readonly WrittenState[]): DeviceState {
    return {
      from,
      snapshot: this.#snapshot,
      writes,
      pairs: new Map([...this.#pairs].map(([id, { inbound, outbound }]) => [id, { inbound, outbound }])),
      unknown: new Set(this.#unknown),
    };
  }
}
