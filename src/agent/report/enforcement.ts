/** Owns which enforcement states (reference 2.11) an agent reports for itself. */
import type { InForce } from '../../api/enforcement/in-force.ts';

export type Exception = Exclude<InForce, 'yes'>;

/** What the words are read from: parts of the status document. */
export interface EnforcementFacts {
  readonly policy: {
    readonly origin: 'server' | 'kept' | 'kernel' | 'first' | 'lost' | 'none';
    readonly digest?: string;
    readonly pending: boolean;
  };
  readonly stream: { readonly phase: string };
  readonly held?: string;
  readonly reverted?: object;
  readonly held_code?: string;
  readonly troubles: readonly object[];
}

/**
 * Everything that keeps an agent from reporting `yes`: failures first, then what is only missing. The first entry is
 * the state that the server shows for the device. A lost connection is reported beside a failure, never instead of it.
 */
export function exceptionsOf(facts: EnforcementFacts): readonly Exception[] {
  const { held, held_code, troubles, reverted } = facts;
  const notUnderstood = held_code === 'not_understood';
  const wrong: readonly Exception[] = [
    ...(notUnderstood ? (['not_understood'] as const) : []),
    ...(troubles.length > 0 || (held !== undefined && !notUnderstood) ? (['failed'] as const) : []),
    ...(reverted === undefined ? [] : (['reverted'] as const)),
  ];
  const missing = missingOf(facts);
  const isImplied = missing === 'behind' && wrong.length > 0;
  return missing === undefined || isImplied ? wrong : [...wrong, missing];
}

/** The one word; `yes` is said only of rules that were read back from the kernel, while changes come as they happen. */
export const inForceOf = (facts: EnforcementFacts): InForce => exceptionsOf(facts)[0] ?? 'yes';

function missingOf({
  policy: { origin, pending, digest },
  stream: { phase },
}: EnforcementFacts): Exception | undefined {
  if (phase !== 'live' && phase !== 'listing')
    return origin === 'first' || origin === 'none' ? 'never_seen' : 'offline';
  const isSettled = phase === 'live' && origin === 'server' && !pending && digest !== undefined;
  return isSettled ? undefined : 'behind';
}
