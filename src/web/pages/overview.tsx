/** * Owns the first page of an organization: its first steps, whether the fleet is in force, what needs attention, what was
 * refused, and what happened. */
import { Link } from '@tanstack/react-router';
import { memo, useDeferredValue, useMemo, useState, lazy, Suspense, type ReactNode } from 'react';
import type { Overview } from '../../api/enforcement/overview.ts';
import { Later, Loading, PageTitle, Step, Card, type StepState } from '../components/page.tsx';
import { Failed } from '../components/placeholders.tsx';
import { RecentlyRefused } from '../flows/recently-refused.tsx';
import { windowOf } from '../model/plot.ts';
import { Attention, EndingSoon, LastChanges } from '../overview/lists.tsx';
import { FleetState, OpenDevices, Packets, PolicyTestsCard } from '../overview/figures.tsx';
import { useSnapshot, useOrganization, useRights, useStatuses, useLive } from '../state/organization.ts';
import { useOverview } from '../state/overview.ts';
import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { plural } from '../../client/words/number.ts';
import { onDemand } from '../state/load-ahead.ts';
import { useSession } from '../state/session.ts';
import { isEnforced } from '../../policy/effective.ts';
import { countUses } from '../model/device-policy.ts';
import { stateOf } from '../model/device-state.ts';

interface OverviewProps {
  readonly overview: Overview;
  readonly hours: number;
  readonly setHours: (hours: number) => void;
  /** When the answer came. */
  readonly at: number;
}

const Cards = memo(function Cards({ overview, hours, setHours, at }: OverviewProps): ReactNode {
  const step = overview.sample_seconds * 1_000;
  // The plots are drawn anew when they would look different, not with every answer.
  const now = Math.floor(at / step) * step;
  const window = useMemo(() => windowOf(hours, step, now), [hours, step, now]);
  return (
    <>
      <FleetState overview={overview} window={window} hours={hours} setHours={setHours} />
      <Attention overview={overview} />
      <div className="stats">
        <PolicyTestsCard overview={overview} />
        <OpenDevices />
        <Packets of="refused" overview={overview} window={window} />
        <Packets of="admitted" overview={overview} window={window} />
      </div>
      <Later>
        <RecentlyRefused />
        <UnusedRules />
        <div className="overview-columns">
          <LastChanges />
          <EndingSoon />
        </div>
      </Later>
    </>
  );
});

function Fleet(): ReactNode {
  const [hours, setHours] = useState(24);
  const { answer, error, retry } = useOverview(hours);
  // Rendered in slices, so that a new answer does not delay a click.
  const shown = useDeferredValue(answer);
  if (shown !== undefined) return <Cards {...shown} hours={hours} setHours={setHours} />;
  return error === null ? <Loading what="Loading…" /> : <Failed error={error} retry={retry} />;
}

export function OverviewPage(): ReactNode {
  const { devices } = useSnapshot();
  const done = useFirstSteps();
  return (
    <div className="page">
      <PageTitle>Overview</PageTitle>
      {done === undefined || done === 4 ? null : <FirstSteps done={done} />}
      {devices.length === 0 ? null : <Fleet />}
    </div>
  );
}

const RemoveUnused = lazy(
  onDemand(async () => ({ default: (await import('../overview/remove-unused.tsx')).RemoveUnused })),
);

const dayMs = 86_400_000;
/** The answer looks through the traffic of days; minutes do not change it. */
const freshMs = 600_000;

/** For owners, where all traffic is recorded; nothing where no rule is known to be unused. */
function UnusedRules(): ReactNode {
  const { id: org } = useLive();
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
          <RemoveUnused unused={data.rules} close={() => setOpen(false)} />
        </Suspense>
      ) : null}
    </section>
  );
}

/** How many of the steps are done; undefined while that is not known. */
function useFirstSteps(): number | undefined {
  const { devices, groups } = useSnapshot();
  const statuses = useStatuses();
  return useMemo(() => {
    if (devices.length === 0) return 0;
    const rules = groups.filter(
      ({ is_default, inbound_rules = [], outbound_rules = [], mode }) =>
        is_default !== true && isEnforced({ mode }) && inbound_rules.length + outbound_rules.length > 0,
    );
    if (rules.length === 0) return 1;
    const uses = countUses({ devices, groups }, ({ id }) => stateOf(statuses.get(id)) === 'yes');
    const used = rules.flatMap(({ id }) => uses.get(id) ?? []);
    if (used.length === 0) return 2;
    if (statuses.size === 0) return undefined;
    return used.some(({ inForce }) => inForce > 0) ? 4 : 3;
  }, [devices, groups, statuses]);
}

function FirstSteps({ done }: { readonly done: number }): ReactNode {
  const { id: org } = useLive();
  const { devices } = useSnapshot();
  const { mayWrite } = useRights();
  const stateOfStep = (step: number): StepState => (step < done ? 'done' : step === done ? 'now' : 'later');
  const groupsLink = (words: string): ReactNode => (
    <Link className="link" to="/o/$org/groups" params={{ org }}>
      {words}
    </Link>
  );
  return (
    <Card title="First steps" dense about={<span className="small dimmed">{done} of 4 done</span>}>
      <ol className="rows path-steps">
        <Step
          title="Add a device"
          state={stateOfStep(0)}
          action={
            done === 0 && mayWrite ? (
              <Link className="link" to="/o/$org/devices" params={{ org }}>
                Add devices
              </Link>
            ) : undefined
          }
        >
          {devices.length > 0
            ? `${plural(devices.length, 'device')} joined.`
            : 'Run the agent on a Linux machine with an enrollment key. The default group, which admits everything, applies to it.'}
        </Step>
        <Step
          title="Write a group with a rule"
          state={stateOfStep(1)}
          action={
            done === 1 && mayWrite ? (
              <Link className="link" to="/o/$org/groups/new" params={{ org }}>
                New group
              </Link>
            ) : undefined
          }
        >
          Say who may connect, such as PostgreSQL from app.
        </Step>
        <Step
          title="Let it apply to a device"
          state={stateOfStep(2)}
          action={done === 2 ? groupsLink('Open the groups') : undefined}
        >
          Name a label in “Applies to”, or attach the group to devices.
        </Step>
        <Step
          title="See it in force"
          state={stateOfStep(3)}
          action={done === 3 ? groupsLink('Where is it in force?') : undefined}
        >
          The agent reads the rules back from the kernel and says so, usually within a second.
        </Step>
      </ol>
    </Card>
  );
}
