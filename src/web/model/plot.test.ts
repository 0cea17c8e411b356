/** Proves the drawing of values over time. */
import { describe, expect, it } from 'vitest';
import { areaPath, bridged, footOf, linePath, seriesOf, windowOf } from './plot.ts';

const step = 300_000;
const at = (place: number): string => new Date(place * step).toISOString();
const frame = { width: 100, height: 10, low: 0, high: 10 };

describe('a series', () => {
  it('has a value for each step of its window, and what lies outside is left out', () => {
    const window = windowOf(1, step, 20 * step + 7);
    expect(window).toEqual({ from: 9 * step, to: 21 * step, step });
    const samples = [
      { at: at(8), value: 9 },
      { at: at(9), value: 1 },
      { at: at(20), value: 2 },
    ];
    const series = seriesOf(window, samples, ({ value }) => value, 0);
    expect(series).toEqual([1, ...Array.from({ length: 10 }, () => 0), 2]);
    expect(seriesOf(window, samples, () => undefined)).toEqual(Array.from({ length: 12 }));
  });

  it('is joined over short gaps and stays open over long ones', () => {
    const gap = undefined;
    expect(bridged([1, gap, 3, gap, gap, gap, 4], 2)).toEqual([1, 1, 3, gap, gap, gap, 4]);
  });
});

describe('a path', () => {
  it('goes through every value, highest at the top, and breaks where nothing is known', () => {
    expect(linePath([0, 10, undefined, 5, 5], frame)).toBe('M0 10L25 0M75 5L100 5');
    expect(areaPath([0, 10, undefined, 5, 5], frame)).toBe('M0 10L0 10L25 0L25 10ZM75 10L75 5L100 5L100 10Z');
  });

  it('shows a value that stands alone, and nothing where there is none', () => {
    expect(linePath([undefined, 5, undefined], frame)).toBe('M50 5h2');
    expect(linePath([], frame)).toBe('');
  });

  it('begins at zero, unless a large fleet moves only near its top', () => {
    expect(footOf(9, 12)).toBe(0);
    expect(footOf(100, 2_000)).toBe(0);
    expect(footOf(1_980, 2_000)).toBe(1_840);
  });
});
