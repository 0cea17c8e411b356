/** Owns the unused rules on the overview: how many there are, for how long, and the way to the draft that removes them. */
import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { lazy, Suspense, useState, type ReactNode } from 'react';
import { plural } from '../model/rule-text.ts';
import { onDemand } from '../state/load-ahead.ts';
import { useOrganization, useRights } from '../state/organization.ts';
import { useSession } from '../state/session.ts';

const RemoveUnused = lazy(onDemand(async () => ({ default: (await import('./remove-unused.tsx')).RemoveUnused })));

const dayMs = 86_400_000;
/** The answer looks through the traffic of days; minutes do not change it. */
const freshMs = 600_000;

/** For owners, where all traffic is recorded; nothing where no rule is known to be unused. */
export function UnusedRules({ org }: { readonly org: string }): ReactNode {
  const { client } = useSession();
  const { governs } = useRights();
  const observe = useOrganization()?.observe;
  const [isOpen, setOpen] = useState(false);
  const { data } = useQuery({
    queryKey: ['unused rules', org],
    queryFn: ({ signal }) => client.groups.unused(org, { signal }),
    enabled: governs && observe === 'all',
    staleTime: freshMs,
    retry: false,
  });
  if (data === undefined || data.count === 0) return null;
  const days = Math.round((Date.parse(data.until) - Date.parse(data.since)) / dayMs);
  // A day without traffic says little about a rule.
  if (days < 1) return null;
  return (
    <section className="card card-body row between" aria-label="Unused rules">
      <span>
        <strong>{plural(data.count, 'rule')}</strong> unused for {plural(days, 'day')}{' '}
        <span className="small dimmed">No recorded connection needed {data.count === 1 ? 'it' : 'them'}.</span>
      </span>
      <Button variant="default" onClick={() => setOpen(true)}>
        Remove {data.count === 1 ? 'it' : 'them'}…
      </Button>
      {isOpen ? (
        <Suspense>
          <RemoveUnused org={org} unused={data.rules} close={() => setOpen(false)} />
        </Suspense>
      ) : null}
    </section>
  );
}
