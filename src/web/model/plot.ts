/** Owns values over time: samples of the overview, and their drawing as paths in a time window of equal steps, with gaps where a value is unknown. */
import type { Overview } from '../../api/enforcement/overview.ts';

/** One value a step, oldest first; undefined where nothing is known. */
export type Series = readonly (number | undefined)[];

export interface TimeWindow {
  /** Milliseconds since the epoch. */
  readonly from: number;
  readonly to: number;
  /** Milliseconds of one step. */
  readonly step: number;
}

/** The window of so many hours that ends with the step of now. */
export function windowOf(hours: number, step: number, now: number): TimeWindow {
  const to = (Math.floor(now / step) + 1) * step;
  return { from: to - Math.ceil((hours * 3_600_000) / step) * step, to, step };
}

/** The values of the samples by time step. A step without a sample is `missing`. */
export function seriesOf<S extends { readonly at: string }>(
  { from, to, step }: TimeWindow,
  samples: readonly S[],
  valueOf: (sample: S) => number | undefined,
  missing?: number,
): Series {
  const series: (number | undefined)[] = Array.from({ length: Math.round((to - from) / step) }, () => missing);
  for (const sample of samples) {
    const place = Math.floor((Date.parse(sample.at) - from) / step);
    if (place >= 0 && place < series.length) series[place] = valueOf(sample) ?? missing;
  }
  return series;
}

interface Frame {
  readonly width: number;
  readonly height: number;
  /** The values at the foot and at the head. */
  readonly low: number;
  readonly high: number;
}

const short = (value: number): string => String(Math.round(value * 100) / 100);

/** The coordinates of the known values, in unbroken runs. */
function runsOf(
  series: Series,
  { width, height, low, high }: Frame,
): readonly (readonly (readonly [string, string])[])[] {
  const across = series.length > 1 ? width / (series.length - 1) : 0;
  const span = high - low || 1;
  const runs: (readonly [string, string])[][] = [];
  let isOpen = false;
  for (const [place, value] of series.entries()) {
    if (value === undefined) {
      isOpen = false;
      continue;
    }
    if (!isOpen) runs.push([]);
    isOpen = true;
    const inside = Math.min(Math.max((value - low) / span, 0), 1);
    runs.at(-1)?.push([short(place * across), short(height * (1 - inside))]);
  }
  return runs;
}

const joined = (run: readonly (readonly [string, string])[]): string => run.map(([x, y]) => `${x} ${y}`).join('L');

/** A line; a value alone is a short dash, so that it can be seen. */
export const linePath = (series: Series, frame: Frame): string =>
  runsOf(series, frame)
    .map((run) => `M${joined(run)}${run.length === 1 ? 'h2' : ''}`)
    .join('');

/** What lies between the line and the foot. */
export const areaPath = (series: Series, frame: Frame): string =>
  runsOf(series, frame)
    .map((run) => `M${run[0]?.[0]} ${frame.height}L${joined(run)}L${run.at(-1)?.[0]} ${frame.height}Z`)
    .join('');

/** Joins runs across short gaps: the state of a fleet does not change because it was not sampled for a moment. */
export function bridged(series: Series, most: number): Series {
  const filled = [...series];
  let last = -1;
  for (const [place, value] of series.entries()) {
    if (value === undefined) continue;
    if (last !== -1 && place - last <= most + 1) filled.fill(series[last], last + 1, place);
    last = place;
  }
  return filled;
}

/** The lowest value of the plot's foot: zero, unless everything happens near the top. */
export function footOf(lowest: number, highest: number): number {
  if (highest <= 20 || lowest < highest * 0.8) return 0;
  const room = Math.max(highest - lowest, highest * 0.02) * 4;
  return Math.max(0, Math.floor(highest - room));
}

/** The state of the newer answer, with the samples of the whole span. Steps of another length cannot be joined: then samples wait for the next whole answer. */
export function withNewest(whole: Overview, newest: Overview): Overview {
  const { sample_seconds, samples } = whole;
  const [first] = newest.samples;
  if (first === undefined || newest.sample_seconds !== sample_seconds) return { ...newest, sample_seconds, samples };
  // Times of one form, so that they stand in the order of their letters.
  return { ...newest, samples: [...samples.filter(({ at }) => at < first.at), ...newest.samples] };
}
