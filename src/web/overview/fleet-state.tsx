/** Owns the first card of the overview: on how many devices the policy is in force, now and over time. */
import { Button } from '@mantine/core';
import type { ReactNode } from 'react';
import type { Overview } from '../../api/enforcement/overview.ts';
import { grouped } from '../../client/words/number.ts';
import { plural } from '../model/rule-text.ts';
import type { TimeWindow } from '../model/plot.ts';
import { InForcePlot } from './plots.tsx';

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
    <section className={hasPast ? 'card fleet-state' : 'card'} aria-label="In force">
      <div className="fleet-now">
        <p className="figure" role="status">
          <strong className={in_force === devices ? 'figure-good' : ''}>{grouped(in_force)}</strong>{' '}
          <span className="dimmed">of {plural(devices, 'device')} in force</span>
        </p>
        <p className="dimmed">{grouped(online)} connected now</p>
      </div>
      {hasPast ? (
        <div className="fleet-past">
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
