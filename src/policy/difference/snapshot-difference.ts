/** Owns the difference of two snapshots of an organization, device by device. */
import { canonicalize } from '../canonicalize.ts';
import type { CanonicalPolicy } from '../canonical.ts';
import type { DeviceId } from '../ids.ts';
import { isSameObjects, policiesOf, type DevicePolicies, type DevicePolicy } from '../snapshot/device-policies.ts';
import { indexDevices, type NamedSet } from '../snapshot/snapshot-fleet.ts';
import type { PolicySnapshot } from '../snapshot/snapshot.ts';
import type { Direction } from '../rule.ts';
import { policyDifference } from './policy-difference.ts';
import type { Traffic } from './traffic.ts';

/** Packets that the device gains or loses, and whose their far ends are. */
export interface DeviceTraffic extends Traffic {
  readonly direction: Direction;
  readonly far: NamedSet;
}

export interface DeviceDifference {
  readonly gained: readonly DeviceTraffic[];
  readonly lost: readonly DeviceTraffic[];
}

const directions = ['inbound', 'outbound'] as const;
const unknown: DevicePolicy = { missing: [] };

/**
 * Compares two snapshots one device at a time, so that a server can do other work in between. Devices whose policies are the same before and the
 * same after share one difference, as the same object.
 */
export class SnapshotComparison {
  readonly #before: PolicySnapshot;
  readonly #after: PolicySnapshot;
  readonly #policies: { readonly before: DevicePolicies; readonly after: DevicePolicies };
  readonly #differences = new Map<DevicePolicy | undefined, Map<DevicePolicy | undefined, DeviceDifference | null>>();
  readonly #canonical = new WeakMap<DevicePolicy, CanonicalPolicy>();

  /** Does in steps what the constructor would otherwise do at once. */
  static *prepare(before: PolicySnapshot, after: PolicySnapshot): Generator<void, SnapshotComparison> {
    yield* indexDevices(before.devices.below);
    yield* indexDevices(after.devices.below);
    return new SnapshotComparison(before, after);
  }

  constructor(before: PolicySnapshot, after: PolicySnapshot) {
    this.#before = before;
    this.#after = after;
    this.#policies = { before: policiesOf(before), after: policiesOf(after) };
  }

  /** Every device of either snapshot, in the order of the ids. */
  get ids(): readonly DeviceId[] {
    return [...new Set([...this.#before.devices.keys(), ...this.#after.devices.keys()])].toSorted();
  }

  /** What the device gains and loses; undefined where its policy means the same before and after. */
  of(id: DeviceId): DeviceDifference | undefined {
    const [before, after] = [this.#policies.before.of(id), this.#policies.after.of(id)];
    if (isSameObjects(before, after)) return undefined;
    let byAfter = this.#differences.get(before);
    if (byAfter === undefined) this.#differences.set(before, (byAfter = new Map()));
    let difference = byAfter.get(after);
    if (difference === undefined) byAfter.set(after, (difference = this.#compare(before, after) ?? null));
    return difference ?? undefined;
  }

  #compare(before: DevicePolicy | undefined, after: DevicePolicy | undefined): DeviceDifference | undefined {
    const { inbound, outbound, isSame } = policyDifference(this.#canonicalOf(before), this.#canonicalOf(after));
    if (isSame) return undefined;
    const change = { inbound, outbound };
    const traffic = (kind: 'gained' | 'lost', { fleet }: DevicePolicies): readonly DeviceTraffic[] =>
      directions.flatMap((direction) =>
        change[direction][kind].map((each) => ({ direction, ...each, far: fleet.nameSet(each) })),
      );
    return { gained: traffic('gained', this.#policies.after), lost: traffic('lost', this.#policies.before) };
  }

  /** An unknown policy has no canonical form, so the difference treats it as admitting nothing. */
  #canonicalOf(policy: DevicePolicy = unknown): CanonicalPolicy | undefined {
    if ('missing' in policy) return undefined;
    let canonical = this.#canonical.get(policy);
    if (canonical === undefined) this.#canonical.set(policy, (canonical = canonicalize(policy)));
    return canonical;
  }
}
