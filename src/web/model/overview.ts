/** Owns how the overview stays current at little cost: the newest hour is requested often, the whole span rarely. */
import type { Overview } from '../../api/enforcement/overview.ts';

/** The state of the newer answer, with the samples of the whole span. Steps of another length cannot be joined: then samples wait for the next whole answer. */
export function withNewest(whole: Overview, newest: Overview): Overview {
  const { sample_seconds, samples } = whole;
  const [first] = newest.samples;
  if (first === undefined || newest.sample_seconds !== sample_seconds) return { ...newest, sample_seconds, samples };
  // Times of one form, so that they stand in the order of their letters.
  return { ...newest, samples: [...samples.filter(({ at }) => at < first.at), ...newest.samples] };
}
