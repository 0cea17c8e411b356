/**
 * Owns the first card of the overview: on how many devices the policy is in force, now and over time, and links to the
 * others.
 */
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { inForceMeanings, mostUrgentFirst, type InForce } from '../../api/enforcement/in-force.ts';
import type { Overview } from '../../api/enforcement/overview.ts';
import { Segmented } from '../components/segmented.tsx';
import { stateTitle, stateTones } from '../device/device-state.tsx';
import { grouped } from '../../client/words/number.ts';
import type { TimeWindow } from '../model/plot.ts';
import { InForcePlot } from './plots.tsx';

const spans = [
  { value: '24', label: '24 h' },
  { value: '168', label: '7 days' },
  { value: '336', label: '14 days' },
];

const countOf = (overview: Overview, word: InForce): number => (word === 'yes' ? overview.in_force : overview[word]);

/** The exceptions that there are, the worst first; each leads to the devices it counts. */
function Exceptions({ overview, org }: { readonly overview: Overview; readonly org: string }): ReactNode {
  const words = mostUrgentFirst.filter((word) => word !== 'yes' && countOf(overview, word) > 0);
  if (words.length === 0) return <p className="dimmed">Every device enforces its policy as it should.</p>;
  return (
    <ul className="exceptions" aria-label="Exceptions">
      {words.map((word) => (
        <li key={word}>
          <Link
            className={`exception tag-${stateTones[word]}`}
            to="/o/$org/devices"
            params={{ org }}
            search={{ state: word }}
            title={`The device ${inForceMeanings[word]}`}
          >
            <strong>{grouped(countOf(overview, word))}</strong> {stateTitle(word)}
          </Link>
        </li>
      ))}
    </ul>
  );
}

export function FleetState({
  overview,
  window,
  org,
  hours,
  setHours,
}: {
  readonly overview: Overview;
  readonly window: TimeWindow;
  readonly org: string;
  readonly hours: number;
  readonly setHours: (hours: number) => void;
}): ReactNode {
  const { in_force, devices } = overview;
  return (
    <section className="card fleet-state" aria-label="In force">
      <div className="fleet-now">
        <p className="figure" role="status">
          <strong className={in_force === devices ? 'figure-good' : ''}>{grouped(in_force)}</strong>{' '}
          <span className="dimmed">of {grouped(devices)} in force</span>
        </p>
        <Exceptions overview={overview} org={org} />
      </div>
      {overview.samples.length < 2 ? (
        <div className="fleet-past">
          <p className="small dimmed">
            The curve over time begins with the second sample, about {Math.ceil(overview.sample_seconds / 60)} minutes
            after the first.
          </p>
        </div>
      ) : (
        <div className="fleet-past">
          <div className="row between">
            <h2>In force over time</h2>
            <Segmented
              look="small"
              aria-label="Span of time"
              data={spans}
              value={String(hours)}
              onChange={(value) => setHours(Number(value))}
            />
          </div>
          <InForcePlot overview={overview} window={window} />
        </div>
      )}
    </section>
  );
}
