/** Owns the observed traffic as pages know it: pages of sums that are asked for again now and then, and what was not recorded. */
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useEffect } from 'react';
import type { FlowCoverage, FlowQuery } from '../../api/flows/flow.ts';
import { useLive } from './organization.ts';
import { useAskedOnChange } from './overview.ts';
import { useSession } from './session.ts';

const pageSize = 200;
/** Agents report once a minute, each at its own time. */
const usualMs = 5_000;
const question = 'flows';
/** Pages that are looked through by themselves while nothing is found: one request looks at a part of what is stored. */
const mostPages = 20;

/** Names and rules are those of the present policy, so the sums are asked for again when it changes. */
export function useFlows(
  query: (now: number) => FlowQuery | undefined,
  key: string,
  { limit = pageSize, everyMs = usualMs }: { readonly limit?: number; readonly everyMs?: number } = {},
) {
  const { client } = useSession();
  const { id } = useLive();
  useAskedOnChange(question);
  const asked = useInfiniteQuery({
    queryKey: [question, id, key, limit],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) =>
      client.request('listFlows', {
        params: { org_id: id },
        query: { ...query(Date.now()), limit, ...(pageParam !== undefined && { after: pageParam }) },
        signal,
      }),
    getNextPageParam: ({ next }) => next,
    refetchInterval: ({ state }) => {
      const [first, ...further] = state.data?.pages ?? [];
      // A person who looks further back is not disturbed by new traffic. Where little is found, the same pages are asked for less often.
      return further.length > 0 && first !== undefined && first.value.length > 0
        ? false
        : everyMs * (1 + further.length);
    },
    enabled: query(Date.now()) !== undefined,
  });
  const { data, error, hasNextPage, isFetching, fetchNextPage } = asked;
  const isLooking =
    hasNextPage && error === null && data !== undefined && data.pages.length < mostPages && isEmpty(data.pages);
  useEffect(() => {
    if (isLooking && !isFetching) void fetchNextPage();
  }, [isLooking, isFetching, fetchNextPage]);
  return { ...asked, isLooking };
}

const isEmpty = (pages: readonly { readonly value: readonly unknown[] }[]): boolean =>
  pages.every(({ value }) => value.length === 0);

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
