/**
 * Owns the first page after signing in: it leads to the organization last seen, or to the creation of the first one.
 */
import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Navigate } from '@tanstack/react-router';
import { useState, type ReactNode } from 'react';
import type { Organization } from '../../api/organization.ts';
import { Logo, PlusIcon } from '../components/icons.tsx';
import { Loading } from '../components/page.tsx';
import { Empty, Failed } from '../components/placeholders.tsx';
import { lastOrganization } from '../shell/layout.tsx';
import { NewOrganization } from '../shell/organization-switcher.tsx';
import { useOrganizations } from '../state/organization.ts';
import { useMayWrite, useSession } from '../state/session.ts';

/** With more, the first of them has to do. */
const comparedOrganizations = 20;

/** The organization with the most devices, once that is known: a new visitor starts there. */
function useFullest(organizations: readonly Organization[] = []): string | undefined {
  const { client } = useSession();
  const compared = organizations.slice(0, comparedOrganizations);
  const { data } = useQuery({
    queryKey: ['fullest', compared.map(({ id }) => id)],
    enabled: compared.length > 1 && localStorage.getItem(lastOrganization) === null,
    queryFn: async ({ signal }) => {
      const sizes = await Promise.all(
        compared.map(({ id }) =>
          client.statuses.convergence(id, { limit: 1, signal }).then(
            ({ devices }) => ({ id, devices }),
            () => ({ id, devices: 0 }),
          ),
        ),
      );
      return sizes.reduce((most, one) => (one.devices > most.devices ? one : most)).id;
    },
  });
  return data ?? (localStorage.getItem(lastOrganization) === null ? undefined : compared[0]?.id);
}

export function Landing(): ReactNode {
  const { data, error, refetch } = useOrganizations();
  const { end, me } = useSession();
  const mayWrite = useMayWrite();
  const [making, setMaking] = useState(false);
  const fullest = useFullest(data);
  if (error !== null) {
    return (
      <main className="page">
        <Failed error={error} retry={() => void refetch()} />
      </main>
    );
  }
  if (data === undefined) {
    return (
      <main className="page">
        <Loading what="Loading your organizations…" />
      </main>
    );
  }
  const last = localStorage.getItem(lastOrganization);
  const known = data.find(({ id }) => id === last);
  if (known === undefined && data.length > 1 && fullest === undefined) {
    return (
      <main className="page">
        <Loading what="Loading your organizations…" />
      </main>
    );
  }
  const next = known ?? data.find(({ id }) => id === fullest) ?? data[0];
  if (next !== undefined) return <Navigate to="/o/$org/overview" params={{ org: next.id }} replace />;
  return (
    <main className="page">
      <Empty
        whole
        icon={<Logo size={48} />}
        title={`Welcome, ${me.username}`}
        action={
          <>
            {mayWrite ? (
              <Button leftSection={<PlusIcon />} onClick={() => setMaking(true)}>
                New organization
              </Button>
            ) : null}
            <Button variant="default" onClick={() => end()}>
              Sign out
            </Button>
          </>
        }
      >
        You are in no organization yet. Make one, which holds devices, groups and the people who manage them, or ask the
        owner of one to add you as <strong>{me.username}</strong>.
      </Empty>
      {making ? <NewOrganization close={() => setMaking(false)} /> : null}
    </main>
  );
}
