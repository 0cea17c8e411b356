/** Owns the overview of the organization as the page shows it: asked again when something changed, and now and then for what makes no event. */
import { useQuery, useQueryClient, type UseQueryResult } from '@tanstack/react-query';
import { useEffect } from 'react';
import type { Overview } from '../../api/enforcement/overview.ts';
import { useLive, useSnapshot } from './organization.ts';
import { useSession } from './session.ts';

/** A small answer, whatever the fleet; but a large fleet costs the server more. */
const everyMs = (devices: number): number => (devices <= 200 ? 3_000 : 8_000);
/** Changes that come so close together are one question. */
const settleMs = 400;

export function useOverview(hours: number): UseQueryResult<Overview> {
  const { client } = useSession();
  const live = useLive();
  const { devices, groups } = useSnapshot();
  const queries = useQueryClient();
  useEffect(() => {
    const timer = setTimeout(() => void queries.invalidateQueries({ queryKey: ['overview', live.id] }), settleMs);
    return () => clearTimeout(timer);
  }, [devices, groups, queries, live.id]);
  return useQuery({
    queryKey: ['overview', live.id, hours],
    queryFn: async ({ signal }) =>
      (await client.request('readOverview', { params: { org_id: live.id }, query: { hours }, signal })).value,
    refetchInterval: () => everyMs(live.read().devices.length),
    // While another span of time is asked for, the one before stands there.
    placeholderData: (before) => before,
  });
}
