/** Owns the difference of two states of an organization, device by device. */
import type { EffectivePolicy } from '../policy/effective.ts';
import type { DeviceId } from '../policy/ids.ts';
import { isSameObjects, policiesOf, type DevicePolicies, type DevicePolicy } from './device-policies.ts';
import { indexDevices, type NamedSet } from './fleet.ts';
import type { Organization } from './organization.ts';
import type { Direction } from '../policy/rule.ts';
import { isOtherPolicy } from '../policy/difference/admitted.ts';
import { policyDifference } from '../policy/difference/policy-difference.ts';
import type { Traffic } from '../policy/difference/traffic.ts';

/** Packets that the device gains or loses, and whose their far ends are. */
export interface DeviceTraffic extends Traffic {
  readonly direction: Direction;
  /** Worked out when it is asked for: a wide set names a whole fleet. */
  readonly far: () => NamedSet;
}

export interface DeviceDifference {
  readonly gained: readonly DeviceTraffic[];
  readonly lost: readonly DeviceTraffic[];
  /** Entries beyond what one difference tells. */
  readonly more: { readonly gained: number; readonly lost: number };
}

const directions = ['inbound', 'outbound'] as const;
const unknown: DevicePolicy = { missing: [] };

type Steps<T> = Generator<undefined, T, undefined>;

/** By the policies before and after. */
class Pairs<T> {
  readonly #known = new Map<DevicePolicy | undefined, Map<DevicePolicy | undefined, T>>();

  *of(before: DevicePolicy | undefined, after: DevicePolicy | undefined, make: () => Steps<T>): Steps<T> {
    let byAfter = this.#known.get(before);
    if (byAfter === undefined) this.#known.set(before, (byAfter = new Map<DevicePolicy | undefined, T>()));
    let known = byAfter.get(after);
    if (known === undefined) byAfter.set(after, (known = yield* make()));
    return known;
  }
}

/** An unknown policy admits nothing, as far as the difference is concerned. */
const known = (policy: DevicePolicy = unknown): EffectivePolicy | undefined =>
  'missing' in policy ? undefined : policy;

/**
 * Compares two organizations one device at a time and in steps, so that a server can do other work in between. Devices whose policies are the same before and
 * the same after share one difference, as the same object.
 */
export class Comparison {
  readonly #before: Organization;
  readonly #after: Organization;
  readonly #policies: { readonly before: DevicePolicies; readonly after: DevicePolicies };
  readonly #differences = new Pairs<DeviceDifference>();
  readonly #affected = new Pairs<boolean>();

  /** Does in steps what the constructor would otherwise do at once. */
  static *prepare(before: Organization, after: Organization): Generator<void, Comparison> {
    yield* indexDevices(before.devices.below);
    yield* indexDevices(after.devices.below);
    return new Comparison(before, after);
  }

  constructor(before: Organization, after: Organization) {
    this.#before = before;
    this.#after = after;
    this.#policies = { before: policiesOf(before), after: policiesOf(after) };
  }

  /** Every device of either organization, in the order of the ids. */
  get ids(): readonly DeviceId[] {
    return [...new Set([...this.#before.devices.keys(), ...this.#after.devices.keys()])].toSorted();
  }

  /** Whether the policy of the device means another thing before and after. */
  *isAffected(id: DeviceId): Steps<boolean> {
    const [before, after] = this.#of(id);
    if (isSameObjects(before, after)) return false;
    return yield* this.#affected.of(before, after, () => isOtherPolicy(known(before), known(after)));
  }

  /** What the device gains and loses. */
  *of(id: DeviceId): Steps<DeviceDifference> {
    const [before, after] = this.#of(id);
    return yield* this.#differences.of(before, after, () => this.#compare(before, after));
  }

  #of(id: DeviceId): readonly [DevicePolicy | undefined, DevicePolicy | undefined] {
    return [this.#policies.before.of(id), this.#policies.after.of(id)];
  }

  *#compare(before: DevicePolicy | undefined, after: DevicePolicy | undefined): Steps<DeviceDifference> {
    const { inbound, outbound, more } = yield* policyDifference(known(before), known(after));
    const change = { inbound, outbound };
    const traffic = (kind: 'gained' | 'lost', { fleet }: DevicePolicies): readonly DeviceTraffic[] =>
      directions.flatMap((direction) =>
        change[direction][kind].map((each) => ({ direction, ...each, far: () => fleet.nameSet(each) })),
      );
    return { gained: traffic('gained', this.#policies.after), lost: traffic('lost', this.#policies.before), more };
  }
}
