/** Owns the observed traffic as pages know it: pages of sums that are asked for again now and then, and what was not recorded. */
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import type { FlowCoverage, FlowQuery } from '../../api/flows/flow.ts';
import { useLive } from './organization.ts';
import { useAskedOnChange } from './overview.ts';
import { useSession } from './session.ts';

const pageSize = 200;
/** Agents report once a minute, each at its own time. */
const usualMs = 5_000;
const question = 'flows';

/** Names and rules are those of the present policy, so the sums are asked for again when it changes. */
export function useFlows(
  query: (now: number) => FlowQuery | undefined,
  key: string,
  { limit = pageSize, everyMs = usualMs }: { readonly limit?: number; readonly everyMs?: number } = {},
) {
  const { client } = useSession();
  const { id } = useLive();
  useAskedOnChange(question);
  return useInfiniteQuery({
    queryKey: [question, id, key, limit],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) =>
      client.request('listFlows', {
        params: { org_id: id },
        query: { ...query(Date.now()), limit, ...(pageParam !== undefined && { after: pageParam }) },
        signal,
      }),
    getNextPageParam: ({ next }) => next,
    // A person who looks further back is not disturbed by new traffic.
    refetchInterval: ({ state }) => ((state.data?.pages.length ?? 0) > 1 ? false : everyMs),
    enabled: query(Date.now()) !== undefined,
  });
}

/** How many devices reported since the day of this time, and how many packets they did not record. */
export function useFlowCoverage(since: number, device: string | undefined): FlowCoverage | undefined {
  const { client } = useSession();
  const { id } = useLive();
  const day = new Date(since).toISOString().slice(0, 10);
  return useQuery({
    queryKey: ['flow coverage', id, day, device],
    queryFn: ({ signal }) =>
      client.flows.coverage(id, {
        since: `${day}T00:00:00Z`,
        ...(device !== undefined && { device_id: device }),
        signal,
      }),
    refetchInterval: usualMs,
  }).data;
}
