/** Owns the moment of the past that the reachability page shows: how it is chosen, and the organization as it was then. */
import { Button, TextInput } from '@mantine/core';
import { useQuery, type UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { snapshotOf } from '../state/live.ts';
import { useLive, type PastOrganization } from '../state/organization.ts';
import { useSession } from '../state/session.ts';

/** As the page's address has it: local time, `2026-11-09T10:00`. */
const form = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}$/;

/** Milliseconds since 1970; undefined for the present, also where the text is no time. */
export function readPastMoment(text: string | undefined): number | undefined {
  const time = text !== undefined && form.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(time) ? undefined : time;
}

/** The same lists that `ringfence explain --at` reads. */
export function usePastOrganization(at: number | undefined): UseQueryResult<PastOrganization> {
  const { client } = useSession();
  const { id } = useLive();
  return useQuery({
    queryKey: ['past', id, at],
    enabled: at !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
    structuralSharing: false,
    retry: false,
    queryFn: async ({ signal }): Promise<PastOrganization> => {
      const moment = at ?? 0;
      const query = { at: new Date(moment).toISOString(), signal };
      const [devices, groups] = await Promise.all([client.devices.list(id, query), client.groups.list(id, query)]);
      return { at: moment, snapshot: snapshotOf(devices, groups) };
    },
  });
}

export function PastChoice({
  value,
  onChange,
}: {
  readonly value: string | undefined;
  readonly onChange: (text: string | undefined) => void;
}): ReactNode {
  return (
    <>
      <TextInput
        className="filter-time"
        type="datetime-local"
        aria-label="At"
        leftSection={<span className="small">At</span>}
        leftSectionWidth={34}
        value={value ?? ''}
        onChange={(event) => onChange(event.currentTarget.value || undefined)}
      />
      {value === undefined ? null : (
        <Button variant="default" onClick={() => onChange(undefined)}>
          Show now
        </Button>
      )}
    </>
  );
}
