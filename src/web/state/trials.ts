/** Owns the open trials as every page shows them: the stream says when one begins, changes and ends; the server says how its devices are. */
import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import type { Trial } from '../../api/trial/trials.ts';
import { hasEnded, trialSignature } from '../trial/trial-words.ts';
import { useLive, useSnapshot } from './organization.ts';
import { useSession } from './session.ts';

/** How devices are makes no event. A trial of a group that the reader does not see makes none here either. */
const everyMs = (isOpen: boolean, devices: number): number => (isOpen ? (devices <= 200 ? 3_000 : 8_000) : 60_000);
/** A clock that differs by less is right. The server tells its time to the second. */
const smallestSkew = 3_000;

export interface OpenTrials {
  /** The first to end first. */
  readonly trials: readonly Trial[];
  /** What to add to this machine's clock for the server's, in milliseconds. */
  readonly skew: number;
}

const none: readonly Trial[] = [];

export function useTrials(): OpenTrials {
  const { client } = useSession();
  const live = useLive();
  const { id } = live;
  const { devices, groups, deviceById, groupById, synced } = useSnapshot();
  const ofGroups = useMemo(() => trialSignature(groups), [groups]);
  const ofDevices = useMemo(() => trialSignature(devices), [devices]);
  const { data } = useQuery({
    queryKey: ['trials', id, ofGroups, ofDevices],
    queryFn: async ({ signal }): Promise<OpenTrials> => {
      const { value, serverTime } = await client.request('listTrials', { params: { org_id: id }, signal });
      const skew = (serverTime ?? Date.now()) - Date.now();
      return {
        trials: value.toSorted((a, b) => Date.parse(a.ends_at) - Date.parse(b.ends_at)),
        skew: Math.abs(skew) < smallestSkew ? 0 : skew,
      };
    },
    enabled: synced,
    refetchInterval: (query) => everyMs((query.state.data?.trials.length ?? 0) > 0, live.read().devices.length),
    placeholderData: (before) => before,
  });
  return useMemo(() => {
    const open = data?.trials.filter(
      (trial) => trial.state === 'pending' && !hasEnded(trial, { groupById, deviceById }),
    );
    return { trials: open ?? none, skew: data?.skew ?? 0 };
  }, [data, groupById, deviceById]);
}
