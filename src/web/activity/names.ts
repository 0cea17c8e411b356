/**
 * Owns the names for the sentences of the activity feed: devices, groups, members, keys, the organization, and the
 * owner of an address.
 */
import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import type { Names } from '../../client/words/sentence.ts';
import { deviceName } from '../state/live.ts';
import { useAddressOwners } from '../state/fleet.ts';
import { useLive, useMembers, useOrganizations, useSnapshot } from '../state/organization.ts';
import { useSession } from '../state/session.ts';

export function useSentenceNames(): Names {
  const { deviceById, groupById } = useSnapshot();
  const { client } = useSession();
  const { id: org } = useLive();
  const { data: members } = useMembers();
  const { data: organizations } = useOrganizations();
  const { data: keys } = useQuery({
    queryKey: ['keys', org],
    queryFn: ({ signal }) => client.enrollmentKeys.list(org, { signal }),
  });
  const owners = useAddressOwners();
  return useMemo(() => {
    const others = new Map<string, string>([
      ...(members ?? []).map(({ user_id, username }) => [user_id, username] as const),
      ...[...(organizations ?? []), ...(keys ?? [])].map(({ id, name }) => [id, name] as const),
    ]);
    return {
      deviceOf: (id) => {
        const device = deviceById.get(id);
        return device === undefined ? undefined : deviceName(device);
      },
      groupOf: (id) => groupById.get(id)?.group_name,
      otherOf: (id) => others.get(id) || undefined,
      ownerOf: (address) => owners.get(address),
    };
  }, [deviceById, groupById, members, organizations, keys, owners]);
}
