/** Owns the packets of the fleet: how many were refused and admitted in the span of time, and when. */
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Overview } from '../../api/enforcement/overview.ts';
import { compactCount, grouped } from '../../client/words/number.ts';
import { seriesOf, type TimeWindow } from '../model/plot.ts';
import { Sparkline } from './plots.tsx';

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
