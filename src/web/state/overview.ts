/**
 * Owns the overview data of the organization: requested again after changes, and at intervals for what makes no event.
 */
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useMemo, useRef } from 'react';
import type { Overview } from '../../api/enforcement/overview.ts';
import { withNewest } from '../model/plot.ts';
import { useLive, useSnapshot } from './organization.ts';
import { useSession } from './session.ts';

/** A small answer, whatever the fleet; but a large fleet costs the server more. */
const newestEveryMs = (devices: number): number => (devices <= 200 ? 3_000 : 8_000);
/** Samples of the past hardly change, and are most of the answer. */
const wholeEveryMs = 60_000;
/** Changes that come so close together are one question. */
const settleMs = 400;

interface OverviewAnswer {
  readonly overview: Overview;
  /** When it came. */
  readonly at: number;
}

interface AskedOverview {
  readonly answer: OverviewAnswer | undefined;
  readonly error: Error | null;
  readonly retry: () => void;
}

/** Asks again, a moment after devices or groups changed. What was there when the page opened is no change. */
export function useAskedOnChange(question: string): void {
  const { id } = useLive();
  const { devices, groups } = useSnapshot();
  const queries = useQueryClient();
  const known = useRef({ devices, groups });
  useEffect(() => {
    if (known.current.devices === devices && known.current.groups === groups) return undefined;
    const timer = setTimeout(() => {
      known.current = { devices, groups };
      void queries.invalidateQueries({ queryKey: [question, id] });
    }, settleMs);
    return () => clearTimeout(timer);
  }, [devices, groups, queries, question, id]);
}

export function useOverview(hours: number): AskedOverview {
  const { client } = useSession();
  const live = useLive();
  const queries = useQueryClient();
  const ask = (span: number, signal: AbortSignal): Promise<Overview> =>
    client.statuses.overview(live.id, { hours: span, signal });
  useAskedOnChange('newest overview');
  const whole = useQuery({
    queryKey: ['overview', live.id, hours],
    queryFn: async ({ signal }) => {
      const answer = await ask(hours, signal);
      queries.setQueryData(['newest overview', live.id], answer);
      return answer;
    },
    refetchInterval: wholeEveryMs,
    // While another time span loads, the previous one stays visible.
    placeholderData: (before) => before,
  });
  const newest = useQuery({
    queryKey: ['newest overview', live.id],
    queryFn: ({ signal }) => ask(1, signal),
    // The first answer is whole, and as new.
    enabled: whole.data !== undefined,
    refetchOnMount: 'always',
    refetchInterval: () => newestEveryMs(live.read().devices.length),
  });
  const answer = useMemo((): OverviewAnswer | undefined => {
    if (whole.data === undefined) return undefined;
    if (newest.data === undefined || newest.dataUpdatedAt < whole.dataUpdatedAt)
      return { overview: whole.data, at: whole.dataUpdatedAt };
    return { overview: withNewest(whole.data, newest.data), at: newest.dataUpdatedAt };
  }, [whole.data, whole.dataUpdatedAt, newest.data, newest.dataUpdatedAt]);
  return { answer, error: whole.error, retry: () => void whole.refetch() };
}
