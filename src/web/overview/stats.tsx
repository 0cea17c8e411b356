/** Owns the small cards of the overview: policy tests, devices that admit everything, and the packets of the fleet. */
import { Link } from '@tanstack/react-router';
import { useMemo, type ReactNode } from 'react';
import type { Overview } from '../../api/enforcement/overview.ts';
import { compactCount, grouped } from '../../client/words/number.ts';
import { WarnIcon } from '../components/icons.tsx';
import { openDevices } from '../model/open-devices.ts';
import { seriesOf, type TimeWindow } from '../model/plot.ts';
import { plural } from '../model/rule-text.ts';
import { useSnapshot } from '../state/organization.ts';
import { usePolicyTests } from '../state/policy-tests.ts';
import { Sparkline } from './plots.tsx';

const mostNamed = 3;

function Names(): ReactNode {
  const names = (usePolicyTests().data?.results ?? [])
    .filter(({ state }) => state === 'failing')
    .map(({ name }) => name);
  const more = names.length - mostNamed;
  return `${names.slice(0, mostNamed).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

export function PolicyTestsCard({ overview, org }: { readonly overview: Overview; readonly org: string }): ReactNode {
  const { policy_tests } = overview;
  if (policy_tests === undefined) return null;
  const { passing, failing, vacuous, not_judged = 0 } = policy_tests;
  const isGood = failing + vacuous + not_judged === 0;
  return (
    <section className="card stat" aria-label="Policy tests">
      <h2>Policy tests</h2>
      <Link
        className={`stat-figure plain-link ${isGood ? '' : failing > 0 ? 'figure-bad' : 'figure-warn'}`}
        to="/o/$org/tests"
        params={{ org }}
      >
        {isGood ? null : <WarnIcon size={20} />}
        <strong>
          {not_judged > 0
            ? `${grouped(not_judged)} not judged`
            : failing > 0
              ? `${grouped(failing)} failing`
              : vacuous > 0
                ? `${grouped(vacuous)} vacuous`
                : 'All pass'}
        </strong>
      </Link>
      <p className="small dimmed">
        {not_judged > 0 ? 'Judging them takes more work than they may.' : null}
        {failing > 0 ? <Names /> : null}
        {failing === 0 && vacuous > 0
          ? `${plural(vacuous, 'test')} ${vacuous === 1 ? 'matches' : 'match'} no devices and ${vacuous === 1 ? 'checks' : 'check'} nothing.`
          : null}
        {isGood ? `${plural(passing, 'test')} on every change.` : null}
      </p>
    </section>
  );
}

/** A device that admits everything is easily forgotten: nothing about it fails. */
export function OpenDevices({ org }: { readonly org: string }): ReactNode {
  const { devices, groups } = useSnapshot();
  const open = useMemo(() => openDevices({ devices, groups }), [devices, groups]);
  return (
    <section className="card stat" aria-label="Devices that admit everything">
      <h2>Admit everything</h2>
      {open.length === 0 ? (
        <p className="stat-figure">
          <strong>None</strong>
        </p>
      ) : (
        <Link
          className="stat-figure plain-link figure-warn"
          to="/o/$org/devices"
          params={{ org }}
          search={{ admits: 'everything' }}
        >
          <WarnIcon size={20} /> <strong>{plural(open.length, 'device')}</strong>
        </Link>
      )}
      <p className="small dimmed">
        {open.length === 0
          ? 'Every device has a group that closes it.'
          : 'Any packet from anywhere gets in: they have the default group, or one that is as open.'}
      </p>
    </section>
  );
}

const words = {
  refused: { title: 'Refused', tone: 'warn', about: 'Packets that no rule admitted.' },
  admitted: { title: 'Admitted', tone: 'accent', about: 'Packets that passed the rules of a group.' },
} as const;

export function Packets({
  of,
  overview,
  window,
  org,
}: {
  readonly of: keyof typeof words;
  readonly overview: Overview;
  readonly window: TimeWindow;
  readonly org: string;
}): ReactNode {
  const { title, tone, about } = words[of];
  // The step of now has only begun: its count would look like a fall.
  const series = seriesOf(window, overview.samples, (sample) => sample[of], 0).slice(0, -1);
  const sum = overview.samples.reduce((total, sample) => total + sample[of], 0);
  return (
    <section className="card stat" aria-label={`${title} packets`}>
      <h2>{title}</h2>
      <Link
        className="stat-figure plain-link"
        to="/o/$org/flows"
        params={{ org }}
        search={{ ...(of === 'admitted' && { verdict: of }) }}
        title={`${grouped(sum)}: show the flows`}
      >
        <strong>{compactCount(sum)}</strong> <span className="small dimmed">packets</span>
      </Link>
      {sum === 0 || overview.samples.length < 2 ? null : (
        <Sparkline series={series} tone={tone} label={`${title} packets over time, ${grouped(sum)} in all`} />
      )}
      <p className="small dimmed">{about}</p>
    </section>
  );
}
