/** Owns the names that sentences of the activity need: devices, groups, members, and who has an address. */
import { useMemo } from 'react';
import type { Names } from '../../client/words/sentence.ts';
import { deviceName } from '../state/live.ts';
import { useAddressOwners } from '../state/fleet.ts';
import { useMembers, useSnapshot } from '../state/organization.ts';

export function useSentenceNames(): Names {
  const { deviceById, groupById } = useSnapshot();
  const { data: members } = useMembers();
  const owners = useAddressOwners();
  return useMemo(() => {
    const usernames = new Map<string, string>(members?.map(({ user_id, username }) => [user_id, username]));
    return {
      deviceOf: (id) => {
        const device = deviceById.get(id);
        return device === undefined ? undefined : deviceName(device);
      },
      groupOf: (id) => groupById.get(id)?.group_name,
      otherOf: (id) => usernames.get(id),
      ownerOf: (address) => owners.get(address),
    };
  }, [deviceById, groupById, members, owners]);
}
