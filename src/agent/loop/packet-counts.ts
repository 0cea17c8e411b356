/** Owns the packet counts of the status: it turns totals by counter name into counts by group and by reason. */
import { isCounted } from '../../nft/compile/compile.ts';
import { reasonCounter, groupCounter, type PacketReason } from '../../nft/counters.ts';
import type { CanonicalPolicy } from '../../policy/canonical.ts';
import type { Direction, PolicyGroup } from '../../policy/rule.ts';
import type { Count, CounterTotals } from '../kernel/counter-totals.ts';
import type { DesiredPolicy } from './desired-policy.ts';

/** What one direction has counted. */
export interface DirectionCounts {
  /** By the group's id: packets that its rules matched, which are the first of their connections. Guardrails have theirs too. */
  readonly matched: ReadonlyMap<string, Count>;
  readonly reasons: { readonly [F in PacketReason]: Count };
}

export type PacketCounts = { readonly [D in Direction]?: DirectionCounts };

/** The groups that count packets, and the guardrails above them. */
const countingGroups = ({ policy }: Pick<DesiredPolicy, 'policy'>): readonly PolicyGroup[] => [
  ...(policy?.guardrails?.forbid ?? []),
  ...(policy?.guardrails?.require ?? []),
  ...(policy?.groups ?? []),
];

/** The policy form that the rules are made from, independent of the current members. */
const formOf = ({ membership, canonical }: DesiredPolicy): CanonicalPolicy => membership?.form ?? canonical;

/** The directions in which this policy counts, with what was counted there so far. */
export function packetCounts(totals: CounterTotals, desired: DesiredPolicy | undefined): PacketCounts {
  const of = (direction: Direction): DirectionCounts | undefined => {
    if (desired === undefined || !isCounted(direction, formOf(desired)[direction])) return undefined;
    const reason = (what: PacketReason): Count => totals.total(reasonCounter(direction, what));
    return {
      matched: new Map(countingGroups(desired).map(({ id }) => [id, totals.total(groupCounter(direction, id))])),
      reasons: {
        established: reason('established'),
        discovery: reason('discovery'),
        server: reason('server'),
        refused: reason('refused'),
      },
    };
  };
  const [inbound, outbound] = [of('inbound'), of('outbound')];
  return { ...(inbound && { inbound }), ...(outbound && { outbound }) };
}

/** Forgets what groups counted that are not in force any more. Where no group is known, none has left. */
export function forgetOtherGroups(totals: CounterTotals, { policy }: DesiredPolicy): void {
  if (policy === undefined) return;
  const ids = new Set(countingGroups({ policy }).map(({ id }) => id));
  totals.keepOnly(({ what }) => typeof what === 'string' || ids.has(what.group));
}
