/** Owns the indicator that the page is live, and above all that it is not. */
import { Button } from '@mantine/core';
import { useEffect, useState, type ReactNode } from 'react';
import type { ConnectionState } from '../../client/state.ts';
import { WarnIcon } from '../components/icons.tsx';
import { useLive, useSnapshot } from '../state/organization.ts';

/** A stream that is resumed at once is no news; only a gap that a person would notice is. */
const showAfter = 1_500;

function useLost(connection: ConnectionState, synced: boolean): boolean {
  const [lost, setLost] = useState(false);
  const gone = synced ? connection.phase !== 'live' : connection.failures > 0 || connection.phase === 'waiting';
  useEffect(() => {
    if (!gone) {
      setLost(false);
      return undefined;
    }
    const timer = setTimeout(() => setLost(true), showAfter);
    return () => clearTimeout(timer);
  }, [gone]);
  return lost;
}

export function ConnectionDot(): ReactNode {
  const { connection, synced } = useSnapshot();
  const lost = useLost(connection, synced);
  const word = lost ? 'Disconnected' : synced ? 'Live' : 'Connecting';
  return (
    <span className={`dot ${lost ? 'dot-lost' : synced ? 'dot-live' : 'dot-wait'}`} role="status">
      {word}
    </span>
  );
}

export function DisconnectedBanner(): ReactNode {
  const live = useLive();
  const { connection, synced, failure } = useSnapshot();
  const lost = useLost(connection, synced);
  if (!lost || failure !== undefined) return null;
  return (
    <div className="banner" role="alert">
      <WarnIcon />
      <span className="grow">
        <strong>Disconnected.</strong> {synced ? 'What you see may be out of date.' : 'The server does not answer.'}{' '}
        Trying again by itself.
      </span>
      <Button size="compact-sm" variant="default" onClick={() => live.retryNow()}>
        Try now
      </Button>
    </div>
  );
}
