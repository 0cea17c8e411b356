/** Owns one change to many devices: what it means for each device, and the change sets that write it. */
import type { ChangeSetBody } from '../../api/change/change-set.ts';
import type { Device } from '../../api/device.ts';
import { limits } from '../../api/limits.ts';
import type { GroupId } from '../../policy/ids.ts';

export type BulkAction =
  | { readonly kind: 'add-group' | 'remove-group'; readonly group: GroupId }
  | { readonly kind: 'add-labels' | 'remove-labels'; readonly labels: readonly string[] }
  | { readonly kind: 'delete' };

type DevicePatch = { readonly security_groups: GroupId[] } | { readonly labels: string[] };

/** What has to be written to the device; undefined where it is as wished already. */
export function patchFor(action: Exclude<BulkAction, { kind: 'delete' }>, device: Device): DevicePatch | undefined {
  const { security_groups: groups = [], labels = [] } = device;
  switch (action.kind) {
    case 'add-group':
      return groups.includes(action.group) ? undefined : { security_groups: [...groups, action.group] };
    case 'remove-group': {
      const rest = groups.filter((id) => id !== action.group);
      return rest.length === groups.length ? undefined : { security_groups: rest };
    }
    case 'add-labels': {
      const all = [...new Set([...labels, ...action.labels])].toSorted();
      return all.length === labels.length ? undefined : { labels: all };
    }
    case 'remove-labels': {
      const rest = labels.filter((label) => !action.labels.includes(label));
      return rest.length === labels.length ? undefined : { labels: rest };
    }
    default:
      return action satisfies never;
  }
}

function inSets<T>(entries: readonly T[], bodyOf: (some: T[]) => ChangeSetBody): readonly ChangeSetBody[] {
  const most = limits.changeSetRecords;
  return Array.from({ length: Math.ceil(entries.length / most) }, (_, index) =>
    bodyOf(entries.slice(index * most, (index + 1) * most)),
  );
}

/** As few change sets as the server takes; each is written whole or not at all, and only to devices that are still as they are here. */
export function changesFor(action: BulkAction, devices: readonly Device[]): readonly ChangeSetBody[] {
  if (action.kind === 'delete')
    return inSets(
      devices.map(({ id }) => id),
      (ids) => ({ delete: ids }),
    );
  const entries = devices.flatMap((device) => {
    const patch = patchFor(action, device);
    return patch === undefined ? [] : [{ id: device.id, revision: device.revision, ...patch }];
  });
  return inSets(entries, (some) => ({ devices: some }));
}
