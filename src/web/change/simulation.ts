/** Owns the question what a change would do, asked of the server before it is written and again whenever the organization changes. */
import { useInfiniteQuery } from '@tanstack/react-query';
import type { ChangeSetBody } from '../../api/change/change-set.ts';
import type { Simulation } from '../../api/change/simulation.ts';
import { useLive } from '../state/organization.ts';
import { useAskedOnChange } from '../state/overview.ts';
import { useSession } from '../state/session.ts';

/** Affected devices in one answer. */
const pageSize = 500;

export interface AskedSimulation {
  /** What is known so far; `devices` may be fewer than `affected`. */
  readonly simulation: Simulation | undefined;
  readonly error: Error | null;
  readonly retry: () => void;
  /** Asks for further affected devices; undefined where there are none. */
  readonly loadMore: (() => void) | undefined;
  readonly isLoadingMore: boolean;
}

/** The pages as one answer: warnings and tests are about the whole change on each. */
const joined = (pages: readonly Simulation[]): Simulation | undefined => {
  const [first] = pages;
  const tooMuch = pages.flatMap(({ too_much }) => too_much ?? []);
  return (
    first && {
      ...first,
      devices: pages.flatMap(({ devices }) => devices),
      in_force: Object.assign({}, ...pages.map(({ in_force }) => in_force)) as Simulation['in_force'],
      gained: pages.flatMap(({ gained }) => gained),
      lost: pages.flatMap(({ lost }) => lost),
      ...(tooMuch.length > 0 && {
        too_much: {
          gained: tooMuch.reduce((sum, { gained }) => sum + gained, 0),
          lost: tooMuch.reduce((sum, { lost }) => sum + lost, 0),
        },
      }),
    }
  );
};

const question = 'simulation';

export function useSimulation(change: ChangeSetBody): AskedSimulation {
  const { client } = useSession();
  const { id } = useLive();
  useAskedOnChange(question);
  const query = useInfiniteQuery({
    queryKey: [question, id, JSON.stringify(change)],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) =>
      client.request('simulateChanges', {
        params: { org_id: id },
        body: change,
        query: { limit: pageSize, force: true, ...(pageParam !== undefined && { after: pageParam }) },
        signal,
      }),
    getNextPageParam: ({ next }) => next,
    staleTime: 0,
    gcTime: 0,
  });
  return {
    simulation: joined((query.data?.pages ?? []).map(({ value }) => value)),
    error: query.error,
    retry: () => void query.refetch(),
    loadMore: query.hasNextPage ? () => void query.fetchNextPage() : undefined,
    isLoadingMore: query.isFetchingNextPage,
  };
}

/** The devices that the change would leave with the default group, as far as the answer names them. */
export const openedIn = (simulation: Simulation | undefined): ReadonlySet<string> =>
  new Set<string>(
    (simulation?.warnings ?? []).flatMap(({ code, devices = [] }) => (code === 'would_open' ? devices : [])),
  );
