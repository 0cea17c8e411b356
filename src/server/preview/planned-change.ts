/** Owns the application of a planned change to a snapshot: the records as they would be written, on top of the current organization. */
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { parseGroupId, type DeviceId, type GroupId } from '../../policy/ids.ts';
import { deviceChange, groupChange } from '../../organization/read-records.ts';
import { overlay, type Organization, type OrganizationChange } from '../../organization/organization.ts';

/** A change that was read and found valid. Every record is named at most once. */
export interface PlannedChange {
  readonly groups: readonly PlannedGroup[];
  readonly devices: readonly PlannedDevice[];
  readonly deletes: readonly (
    | { readonly kind: 'security-groups'; readonly id: GroupId }
    | { readonly kind: 'device'; readonly id: DeviceId }
  )[];
}

/** `group` are the fields that are written; the others stay as they are `now`. */
export type PlannedGroup =
  | {
      readonly type: 'create';
      readonly id: GroupId | undefined;
      readonly user_id?: string | undefined;
      readonly group: object;
    }
  | { readonly type: 'update'; readonly id: GroupId; readonly group: object; readonly now: SecurityGroup };

export interface PlannedDevice {
  readonly id: DeviceId;
  readonly patch: object;
  readonly now: Device;
}

/** The id of a new group that the change gives none: its place in the change, as a UUID without a version, which no new group has. */
export const placeholderId = (index: number): GroupId =>
  parseGroupId(`00000000-0000-0000-0000-${index.toString(16).padStart(12, '0')}`);

/** Fields of a record that decide nothing and that the policy core does not know. */
function groupRecord(planned: PlannedGroup, index: number): object {
  if (planned.type === 'update') return { ...planned.now, ...planned.group };
  const { id = placeholderId(index), user_id, group } = planned;
  return { id, ...(user_id !== undefined && { user_id }), ...group };
}

/** Records that are looked at between two pauses. */
const lookedAtOnce = 200;

/** A deleted group leaves the lists of the devices that name it. */
function* withoutGroups(before: Organization, gone: ReadonlySet<GroupId>): Generator<void, OrganizationChange[]> {
  if (gone.size === 0) return [];
  const changes: OrganizationChange[] = [];
  let looked = 0;
  for (const device of before.devices.values()) {
    looked += 1;
    if (looked % lookedAtOnce === 0) yield;
    const list = device.list.filter((id) => !gone.has(id));
    if (list.length < device.list.length) changes.push({ kind: 'device', id: device.id, device: { ...device, list } });
  }
  return changes;
}

/** The organization as it would be. The caller can do other work at each pause. */
export function* plannedSnapshot(
  before: Organization,
  { groups, devices, deletes }: PlannedChange,
): Generator<void, Organization> {
  const written = overlay(before, [
    ...groups.map((group, index) => groupChange(groupRecord(group, index))),
    ...devices.map(({ now, patch }) => deviceChange({ ...now, ...patch })),
  ]);
  const goneGroups = new Set(deletes.flatMap(({ kind, id }) => (kind === 'security-groups' ? [id] : [])));
  return overlay(written, [
    ...(yield* withoutGroups(written, goneGroups)),
    ...deletes.map((deleted): OrganizationChange =>
      deleted.kind === 'device'
        ? { kind: 'device', id: deleted.id, device: undefined }
        : { kind: 'group', id: deleted.id, group: undefined },
    ),
  ]);
}
