/**
 * Owns the policy snapshot: everything that decides verdicts in an organization at one moment.
 *
 * A snapshot never changes. `overlay` gives another one that differs from it, at the cost of the difference:
 *
 *     const after = overlay(before, [{ kind: 'device', id, device: undefined }]); // without this device
 *     const policy = policiesOf(after).of(id);
 */
import type { DeviceIdentity } from '../fleet/identity.ts';
import type { DeviceId, GroupId } from '../ids.ts';
import type { ListBefore, PolicyGroup, Trial } from '../rule.ts';
import { LayeredMap } from './layered-map.ts';

/** A device, as far as it decides verdicts and as people call it. */
export interface SnapshotDevice {
  readonly id: DeviceId;
  readonly hostname: string;
  /** The device's own list of groups. */
  readonly list: readonly GroupId[];
  /** The change of the list that is being tried. */
  readonly trial?: Trial<ListBefore> | undefined;
  readonly identity: DeviceIdentity;
}

/** A group of the organization or of a user, a guardrail, or the default group. */
export interface SnapshotGroup {
  readonly group: PolicyGroup;
  readonly isDefault: boolean;
  /** Whose group it is; undefined where it is the organization's. */
  readonly user_id?: string | undefined;
}

export interface PolicySnapshot {
  /** The revision of the organization that the snapshot shows; what is laid over it has none yet. */
  readonly revision: number;
  /** The moment, in milliseconds since 1970: what depends on time is decided by it. */
  readonly at: number;
  readonly devices: LayeredMap<DeviceId, SnapshotDevice>;
  readonly groups: LayeredMap<GroupId, SnapshotGroup>;
  readonly defaultGroup: GroupId | undefined;
}

/** One record in its new state; undefined where it is deleted. */
export type SnapshotChange =
  | { readonly kind: 'device'; readonly id: DeviceId; readonly device: SnapshotDevice | undefined }
  | { readonly kind: 'group'; readonly id: GroupId; readonly group: SnapshotGroup | undefined };

export const emptySnapshot: PolicySnapshot = {
  revision: 0,
  at: 0,
  devices: new LayeredMap(),
  groups: new LayeredMap(),
  defaultGroup: undefined,
};

/** The snapshot with these changes; of changes to one record the last counts. `moment` moves the revision or the time. */
export function overlay(
  snapshot: PolicySnapshot,
  changes: Iterable<SnapshotChange>,
  moment: Partial<Pick<PolicySnapshot, 'revision' | 'at'>> = {},
): PolicySnapshot {
  const devices = new Map<DeviceId, SnapshotDevice | undefined>();
  const groups = new Map<GroupId, SnapshotGroup | undefined>();
  let { defaultGroup } = snapshot;
  for (const change of changes) {
    if (change.kind === 'device') devices.set(change.id, change.device);
    else {
      groups.set(change.id, change.group);
      if (change.group?.isDefault === true) defaultGroup = change.id;
      else if (defaultGroup === change.id) defaultGroup = undefined;
    }
  }
  return {
    ...snapshot,
    ...moment,
    devices: snapshot.devices.with(devices),
    groups: snapshot.groups.with(groups),
    defaultGroup,
  };
}
