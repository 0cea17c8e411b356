/** Proves that the newest hour goes over the whole span without a gap or a double. */
import { describe, expect, it } from 'vitest';
import type { FleetSample, Overview } from '../../api/enforcement/overview.ts';
import { withNewest } from './plot.ts';

const sample = (minute: number, refused: number): FleetSample => ({
  at: new Date(minute * 60_000).toISOString(),
  admitted: 0,
  refused,
});
const answer = (in_force: number, seconds: number, samples: readonly FleetSample[]): Overview => ({
  revision: 1,
  devices: 3,
  in_force,
  behind: 0,
  failed: 0,
  reverted: 0,
  offline: 0,
  never_seen: 0,
  not_understood: 0,
  online: 0,
  urgent: [],
  sample_seconds: seconds,
  samples: [...samples],
});

describe('the newest hour', () => {
  it('takes the place of what the whole span knew of it, and what lies before stays', () => {
    const whole = answer(1, 300, [sample(0, 1), sample(5, 2), sample(10, 3)]);
    const newest = answer(2, 300, [sample(10, 7), sample(15, 8)]);
    expect(withNewest(whole, newest)).toEqual(
      answer(2, 300, [sample(0, 1), sample(5, 2), sample(10, 7), sample(15, 8)]),
    );
  });

  it('leaves the samples alone where it has none, or has them in other steps', () => {
    const samples = [sample(0, 1), sample(35, 2)];
    const whole = answer(1, 2_100, samples);
    expect(withNewest(whole, answer(2, 300, [sample(35, 9)]))).toEqual(answer(2, 2_100, samples));
    expect(withNewest(answer(1, 300, samples), answer(2, 300, []))).toEqual(answer(2, 300, samples));
  });
});
