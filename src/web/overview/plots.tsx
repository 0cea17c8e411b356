/** Owns the two plots of the overview: devices in force over time, and packets as a small curve. A few lines of SVG, no library. */
import { memo, type ReactNode } from 'react';
import type { Overview } from '../../api/enforcement/overview.ts';
import { grouped } from '../../client/words/number.ts';
import { areaPath, bridged, footOf, linePath, seriesOf, type Series, type TimeWindow } from '../model/plot.ts';

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

export const InForcePlot = memo(function InForcePlot({
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

export function Sparkline({
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
