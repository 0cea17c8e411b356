/** Owns the history of a device: each state of what decides its policy. */
import type { ReactNode } from 'react';
import type { Device } from '../../api/device.ts';
import type { DevicePolicy, DevicePolicyState } from '../../api/history/states.ts';
import { deviceChanges, type Line } from '../../client/words/changes.ts';
import { unseenGroup } from '../../client/words/sentence.ts';
import { History } from '../components/history.tsx';
import { useNames, useSnapshot } from '../state/organization.ts';
import { useSession } from '../state/session.ts';

const recordOf = (state: DevicePolicyState | undefined): DevicePolicy | undefined =>
  state === undefined || state.type === 'delete' ? undefined : state.record;

export function DeviceHistory({ device }: { readonly device: Device }): ReactNode {
  const { client } = useSession();
  const { groupById } = useSnapshot();
  const userOf = useNames();
  const { organization_id: org_id, id, revision } = device;
  const nameOf = (group: string): string => groupById.get(group)?.group_name ?? unseenGroup;
  const linesOf = (before: DevicePolicy | undefined, after: DevicePolicy | undefined): readonly Line[] => [
    ...(after === undefined || before?.user_id === after.user_id
      ? []
      : before === undefined
        ? [['+', `user ${userOf(after.user_id)}`] as const]
        : [['~', `user ${userOf(before.user_id)} → ${userOf(after.user_id)}`] as const]),
    // What a new device does not have yet says nothing: its labels may give it groups though its own list is empty.
    ...deviceChanges(before, after, nameOf, ['user_id']).filter(
      ([sign, text]) => sign !== '+' || (!text.endsWith(' ""') && text !== 'groups default'),
    ),
  ];
  return (
    <History<DevicePolicyState>
      title="History"
      about="Addresses, labels, groups, user and isolation, with their authors."
      of={{ org_id, id, revision }}
      load={(query, signal) =>
        client.request('listDeviceHistory', { params: { org_id, device_id: id }, query, signal })
      }
      linesOf={(before, state) => linesOf(recordOf(before), recordOf(state))}
      verb="added it"
    />
  );
}
