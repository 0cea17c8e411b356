/**
 * Owns the first page of an organization: its first steps, whether the fleet is in force, what needs attention, what was
 * refused, and what happened.
 */
import { useParams } from '@tanstack/react-router';
import { memo, useDeferredValue, useMemo, useState, type ReactNode } from 'react';
import type { Overview } from '../../api/enforcement/overview.ts';
import { Later } from '../components/later.tsx';
import { Loading } from '../components/loading.tsx';
import { Failed } from '../components/placeholders.tsx';
import { PageTitle } from '../components/page.tsx';
import { RecentlyRefused } from '../flows/recently-refused.tsx';
import { windowOf } from '../model/plot.ts';
import { Attention } from '../overview/attention.tsx';
import { EndingSoon } from '../overview/ending-soon.tsx';
import { FirstSteps, useFirstSteps } from '../overview/first-steps.tsx';
import { FleetState } from '../overview/fleet-state.tsx';
import { LastChanges } from '../overview/last-changes.tsx';
import { UnusedRules } from '../overview/unused-rules.tsx';
import { OpenDevices, Packets, PolicyTestsCard } from '../overview/stats.tsx';
import { useSnapshot } from '../state/organization.ts';
import { useOverview } from '../state/overview.ts';

interface OverviewProps {
  readonly overview: Overview;
  readonly org: string;
  readonly hours: number;
  readonly setHours: (hours: number) => void;
  /** When the answer came. */
  readonly at: number;
}

const Cards = memo(function Cards({ overview, org, hours, setHours, at }: OverviewProps): ReactNode {
  const step = overview.sample_seconds * 1_000;
  // The plots are drawn anew when they would look different, not with every answer.
  const now = Math.floor(at / step) * step;
  const window = useMemo(() => windowOf(hours, step, now), [hours, step, now]);
  return (
    <>
      <FleetState overview={overview} window={window} hours={hours} setHours={setHours} />
      <Attention overview={overview} org={org} />
      <div className="stats">
        <PolicyTestsCard overview={overview} org={org} />
        <OpenDevices org={org} />
        <Packets of="refused" overview={overview} window={window} org={org} />
        <Packets of="admitted" overview={overview} window={window} org={org} />
      </div>
      <Later>
        <RecentlyRefused />
        <UnusedRules org={org} />
        <div className="overview-columns">
          <LastChanges org={org} />
          <EndingSoon org={org} />
        </div>
      </Later>
    </>
  );
});

function Fleet({ org }: { readonly org: string }): ReactNode {
  const [hours, setHours] = useState(24);
  const { answer, error, retry } = useOverview(hours);
  // Rendered in slices, so that a new answer does not delay a click.
  const shown = useDeferredValue(answer);
  if (shown !== undefined) return <Cards {...shown} org={org} hours={hours} setHours={setHours} />;
  return error === null ? <Loading what="Loading…" /> : <Failed error={error} retry={retry} />;
}

export function OverviewPage(): ReactNode {
  const { org } = useParams({ from: '/o/$org/overview' });
  const { devices } = useSnapshot();
  const done = useFirstSteps();
  return (
    <div className="page">
      <PageTitle>Overview</PageTitle>
      {done === undefined || done === 4 ? null : <FirstSteps org={org} done={done} />}
      {devices.length === 0 ? null : <Fleet org={org} />}
    </div>
  );
}
