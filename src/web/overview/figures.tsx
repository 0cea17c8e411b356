/** Owns the figures of the overview: devices in force now and over time, policy tests, devices that admit everything, and packets, with their plots in a few lines of SVG. */
import { Button } from '@mantine/core';
import { memo, useMemo, type ReactNode } from 'react';
import type { Overview } from '../../api/enforcement/overview.ts';
import { grouped, compactCount, plural } from '../../client/words/number.ts';
import { areaPath, bridged, footOf, linePath, seriesOf, type TimeWindow, type Series } from '../model/plot.ts';
import { Link, type LinkProps } from '@tanstack/react-router';
import { WarnIcon } from '../components/icons.tsx';
import { openDevices } from '../model/device-policy.ts';
import { useSnapshot, useLive } from '../state/organization.ts';
import { usePolicyTests } from '../state/policy-tests.ts';

const spans = [
  [24, '24 h'],
  [168, '7 days'],
  [336, '14 days'],
] as const;

export function FleetState({
  overview,
  window,
  hours,
  setHours,
}: {
  readonly overview: Overview;
  readonly window: TimeWindow;
  readonly hours: number;
  readonly setHours: (hours: number) => void;
}): ReactNode {
  const { in_force, devices, online } = overview;
  // One sample is no curve.
  const hasPast = overview.samples.length >= 2;
  return (
    <section className={hasPast ? 'card fleet-state' : 'card stat'} aria-label="In force">
      <div>
        <p className="figure" role="status">
          <strong className={in_force === devices ? 'figure-good' : ''}>{grouped(in_force)}</strong>{' '}
          <span className="dimmed">of {plural(devices, 'device')} in force</span>
        </p>
        <p className="dimmed">{grouped(online)} connected now</p>
      </div>
      {hasPast ? (
        <div>
          <div className="row between">
            <h2>In force over time</h2>
            <div className="row tight" role="group" aria-label="Span of time">
              {spans.map(([span, label]) => (
                <Button
                  key={span}
                  size="compact-xs"
                  variant={span === hours ? 'light' : 'subtle'}
                  aria-pressed={span === hours}
                  onClick={() => setHours(span)}
                >
                  {label}
                </Button>
              ))}
            </div>
          </div>
          <InForcePlot overview={overview} window={window} />
        </div>
      ) : null}
    </section>
  );
}

const wide = { width: 600, height: 120 } as const;
const small = { width: 240, height: 44 } as const;
/** Steps without a sample that are no gap: reports come every five minutes, on a busy machine a little later. */
const mostMissing = 3;

const known = (series: Series): readonly number[] => series.filter((value) => value !== undefined);

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'] as const;
const twoDigits = (number: number): string => String(number).padStart(2, '0');

/** Time below the plot: when it begins, and now. */
function TimeAxis({ window }: { readonly window: TimeWindow }): ReactNode {
  const isDay = window.to - window.from <= 86_400_000;
  const begin = new Date(window.from);
  return (
    <div className="plot-axis" aria-hidden="true">
      <span>
        {isDay
          ? `${twoDigits(begin.getHours())}:${twoDigits(begin.getMinutes())}`
          : `${begin.getDate()} ${months[begin.getMonth()] ?? ''}`}
      </span>
      <span>now</span>
    </div>
  );
}

const InForcePlot = memo(function InForcePlot({
  overview,
  window,
}: {
  readonly overview: Overview;
  readonly window: TimeWindow;
}): ReactNode {
  const { samples, devices, in_force } = overview;
  /** The last step is of this moment, whatever was sampled in it. */
  const withNow = (series: Series, now: number): Series => [...bridged([...series.slice(0, -1), now], mostMissing)];
  const all = withNow(
    seriesOf(window, samples, (sample) => sample.devices),
    devices,
  );
  const good = withNow(
    seriesOf(window, samples, (sample) => sample.in_force),
    in_force,
  );
  const values = known(good);
  const [lowest, high] = [Math.min(...values), Math.max(1, ...known(all))];
  const frame = { ...wide, low: footOf(lowest, high), high };
  return (
    <figure className="plot">
      <div className="plot-scale" aria-hidden="true">
        <span>{grouped(high)}</span>
        <span>{grouped(frame.low)}</span>
      </div>
      <div className="grow">
        <svg
          viewBox={`0 -4 ${wide.width} ${wide.height + 8}`}
          preserveAspectRatio="none"
          className="plot-wide"
          role="img"
          aria-label={`Devices in force over time: ${values.length < 2 ? `${in_force} now` : `between ${lowest} and ${Math.max(...values)}, ${in_force} now`}, of ${devices}`}
        >
          <path className="plot-missing" d={areaPath(all, frame)} />
          <path className="plot-base" d={areaPath(good, frame)} />
          <path className="plot-good" d={areaPath(good, frame)} />
          <path className="plot-line plot-line-all" d={linePath(all, frame)} />
          <path className="plot-line" d={linePath(good, frame)} />
        </svg>
        <TimeAxis window={window} />
      </div>
    </figure>
  );
});

function Sparkline({
  series,
  tone,
  label,
}: {
  readonly series: Series;
  readonly tone: 'accent' | 'warn';
  readonly label: string;
}): ReactNode {
  const frame = { ...small, low: 0, high: Math.max(1, ...known(series)) };
  return (
    <svg
      viewBox={`0 -2 ${small.width} ${small.height + 3}`}
      preserveAspectRatio="none"
      className={`spark spark-${tone}`}
      role="img"
      aria-label={label}
    >
      <path className="spark-area" d={areaPath(series, frame)} />
      <path className="spark-line" d={linePath(series, frame)} />
    </svg>
  );
}

const mostNamed = 3;

function Names(): ReactNode {
  const names = (usePolicyTests().data?.results ?? [])
    .filter(({ state }) => state === 'failing')
    .map(({ name }) => name);
  const more = names.length - mostNamed;
  return `${names.slice(0, mostNamed).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/** A card with one figure, which leads to more. */
function Stat({
  title,
  label = title,
  tone = '',
  figure,
  about,
  children,
  ...link
}: LinkProps & {
  readonly title: string;
  /** Its name for screen readers, where that is not its heading. */
  readonly label?: string;
  readonly tone?: 'figure-warn' | 'figure-bad' | '';
  readonly figure: ReactNode;
  readonly about: ReactNode;
  readonly children?: ReactNode;
}): ReactNode {
  return (
    <section className="card stat" aria-label={label}>
      <h2>{title}</h2>
      <Link className={`stat-figure plain-link ${tone}`} {...link}>
        {tone === '' ? null : <WarnIcon size={20} />}
        {figure}
      </Link>
      {children}
      <p className="small dimmed">{about}</p>
    </section>
  );
}

export function PolicyTestsCard({ overview }: { readonly overview: Overview }): ReactNode {
  const { id: org } = useLive();
  const { policy_tests } = overview;
  if (policy_tests === undefined) return null;
  const { passing, failing, vacuous, not_judged = 0 } = policy_tests;
  const isGood = failing + vacuous + not_judged === 0;
  return (
    <Stat
      title="Policy tests"
      to="/o/$org/tests"
      params={{ org }}
      tone={isGood ? '' : failing > 0 ? 'figure-bad' : 'figure-warn'}
      figure={
        <strong>
          {not_judged > 0
            ? `${grouped(not_judged)} not judged`
            : failing > 0
              ? `${grouped(failing)} failing`
              : vacuous > 0
                ? `${grouped(vacuous)} vacuous`
                : 'All pass'}
        </strong>
      }
      about={
        <>
          {not_judged > 0 ? 'Judging them takes more work than they may.' : null}
          {failing > 0 ? <Names /> : null}
          {failing === 0 && vacuous > 0
            ? `${plural(vacuous, 'test')} ${vacuous === 1 ? 'matches' : 'match'} no devices and ${vacuous === 1 ? 'checks' : 'check'} nothing.`
            : null}
          {isGood ? `${plural(passing, 'test')} on every change.` : null}
        </>
      }
    />
  );
}

/** A device that admits everything is easily forgotten: nothing about it fails. */
export function OpenDevices(): ReactNode {
  const { id: org } = useLive();
  const { devices, groups } = useSnapshot();
  const open = useMemo(() => openDevices({ devices, groups }), [devices, groups]);
  const isNone = open.length === 0;
  return (
    <Stat
      title="Admit everything"
      label="Devices that admit everything"
      to="/o/$org/devices"
      params={{ org }}
      search={{ admits: 'everything' }}
      tone={isNone ? '' : 'figure-warn'}
      figure={<strong>{isNone ? 'None' : plural(open.length, 'device')}</strong>}
      about={
        isNone
          ? 'Every device has a group that closes it.'
          : 'Any packet from anywhere gets in: they have the default group, or one that is as open.'
      }
    />
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
}: {
  readonly of: keyof typeof words;
  readonly overview: Overview;
  readonly window: TimeWindow;
}): ReactNode {
  const { id: org } = useLive();
  const { title, tone, about } = words[of];
  // The step of now has only begun: its count would look like a fall.
  const series = seriesOf(window, overview.samples, (sample) => sample[of], 0).slice(0, -1);
  const sum = overview.samples.reduce((total, sample) => total + sample[of], 0);
  return (
    <Stat
      title={title}
      label={`${title} packets`}
      to="/o/$org/flows"
      params={{ org }}
      search={{ ...(of === 'admitted' && { verdict: of }) }}
      figure={
        <>
          <strong>{compactCount(sum)}</strong> <span className="small dimmed">packets</span>
        </>
      }
      about={about}
    >
      {sum === 0 || overview.samples.length < 2 ? null : (
        <Sparkline series={series} tone={tone} label={`${title} packets over time, ${grouped(sum)} in all`} />
      )}
    </Stat>
  );
}
