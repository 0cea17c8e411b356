/** Owns the first page after signing in: on to the organization last seen, or to the making of the first one. */
import { Button } from '@mantine/core';
import { Navigate } from '@tanstack/react-router';
import { useState, type ReactNode } from 'react';
import { Logo, PlusIcon } from '../components/icons.tsx';
import { Empty, Failed, Loading } from '../components/placeholders.tsx';
import { lastOrganization } from '../shell/layout.tsx';
import { NewOrganization } from '../shell/organization-switcher.tsx';
import { useOrganizations } from '../state/organization.ts';
import { useMayWrite, useSession } from '../state/session.ts';

export function Landing(): ReactNode {
  const { data, error, refetch } = useOrganizations();
  const { end, me } = useSession();
  const mayWrite = useMayWrite();
  const [making, setMaking] = useState(false);
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
  const next = data.find(({ id }) => id === last) ?? data[0];
  if (next !== undefined) return <Navigate to="/o/$org/devices" params={{ org: next.id }} replace />;
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
        You are in no organization yet. Make your own, or ask the owner of one to add you as{' '}
        <strong>{me.username}</strong>.
      </Empty>
      <NewOrganization opened={making} close={() => setMaking(false)} />
    </main>
  );
}
