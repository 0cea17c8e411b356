/** Owns the indicator that the page is live, and above all that it is not, since when, and what follows its return. */
import { Button } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState, type ReactNode } from 'react';
import { WarnIcon } from '../components/icons.tsx';
import { clockTime } from '../components/time.tsx';
import type { Snapshot } from '../state/live.ts';
import { useLive, useSnapshot } from '../state/organization.ts';

/** A stream that is resumed at once is no news; only a gap that a person would notice is. */
const showAfter = 1_500;

const isGone = ({ connection, synced }: Snapshot): boolean =>
  synced ? connection.phase !== 'live' : connection.failures > 0 || connection.phase === 'waiting';

/** Since when the stream is lost, in milliseconds since the epoch; undefined while it is not. */
function useLostSince(gone: boolean): number | undefined {
  const [since, setSince] = useState<number>();
  useEffect(() => {
    if (!gone) {
      setSince(undefined);
      return undefined;
    }
    const began = Date.now();
    const timer = setTimeout(() => setSince(began), showAfter);
    return () => clearTimeout(timer);
  }, [gone]);
  return since;
}

/** What the stream does not bring is asked again after a gap: it may have failed, or have changed meanwhile. */
function useFreshAfter(gone: boolean): void {
  const queries = useQueryClient();
  const wasGone = useRef(false);
  useEffect(() => {
    if (wasGone.current && !gone) void queries.invalidateQueries();
    wasGone.current = gone;
  }, [queries, gone]);
}

export function ConnectionDot(): ReactNode {
  const snapshot = useSnapshot();
  const lost = useLostSince(isGone(snapshot)) !== undefined;
  const word = lost ? 'Disconnected' : snapshot.synced ? 'Live' : 'Connecting';
  return (
    <span className={`dot ${lost ? 'dot-lost' : snapshot.synced ? 'dot-live' : 'dot-wait'}`} role="status">
      {word}
    </span>
  );
}

export function DisconnectedBanner(): ReactNode {
  const live = useLive();
  const snapshot = useSnapshot();
  const gone = isGone(snapshot);
  const since = useLostSince(gone);
  useFreshAfter(gone);
  if (since === undefined || snapshot.failure !== undefined) return null;
  return (
    <div className="banner" role="alert">
      <WarnIcon />
      <span className="grow">
        <strong>Disconnected since {clockTime(since, Date.now())}.</strong>{' '}
        {snapshot.synced ? 'What you see may be out of date.' : 'The server does not answer.'} The page reconnects by
        itself.
      </span>
      <Button size="compact-sm" variant="default" onClick={() => live.retryNow()}>
        Try now
      </Button>
    </div>
  );
}
