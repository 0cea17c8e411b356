/** Owns when time alone changes a policy, and how new the records are that say so. */
import type { PolicyIsolation } from '../../policy/isolation/policy-isolation.ts';
import type { GroupContent } from './group-content.ts';

/** Ascending, each once, in milliseconds since the epoch. */
export function momentsOf(effect: readonly GroupContent[], isolation: PolicyIsolation | undefined): readonly number[] {
  const isolations = isolation === undefined ? [] : [...isolation.refused, ...(isolation.own ? [isolation.own] : [])];
  const ends = isolations.flatMap(({ until }) => until ?? []);
  return [...new Set([...effect.flatMap(({ moments }) => moments), ...ends])].toSorted((a, b) => a - b);
}

/** The newest revision of groups whose rules expire, and of isolations; 0 where there is neither. An isolation without an end counts: it may have had one. */
export function timedRevision(effect: readonly GroupContent[], isolations: Iterable<number>): number {
  const expiring = effect.flatMap(({ moments, changedAt }) => (moments.length === 0 ? [] : [changedAt]));
  return Math.max(0, ...expiring, ...isolations);
}
