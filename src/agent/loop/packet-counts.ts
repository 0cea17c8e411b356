/** Owns what the agent tells of its counters: from totals by name to what each group and each fate has counted. */
import { isCounted } from '../../nft/compile.ts';
import { fateCounter, groupCounter, type Fate } from '../../nft/counters.ts';
import type { Direction } from '../../policy/rule.ts';
import type { Charge } from './desired-policy.ts';
import type { AgentStatus, DirectionCounts } from './status.ts';
import type { Tally } from '../kernel/counter-totals.ts';

/** The directions in which this charge counts, with what was counted there so far. */
export function countsOf(tally: Tally, charge: Charge | undefined): AgentStatus['counts'] {
  const of = (direction: Direction): DirectionCounts | undefined => {
    if (charge === undefined || !isCounted(direction, charge.canonical[direction])) return undefined;
    const fate = (what: Fate) => tally.total(fateCounter(direction, what));
    const groups = charge.policy?.groups ?? [];
    return {
      admitted: new Map(groups.map(({ id }) => [id, tally.total(groupCounter(direction, id))])),
      fates: {
        established: fate('established'),
        discovery: fate('discovery'),
        server: fate('server'),
        refused: fate('refused'),
      },
    };
  };
  const [inbound, outbound] = [of('inbound'), of('outbound')];
  return { ...(inbound && { inbound }), ...(outbound && { outbound }) };
}

/** Forgets what groups counted that are not in force any more. Where no group is known, none has left. */
export function forgetOthers(tally: Tally, { policy }: Charge): void {
  if (policy === undefined) return;
  const ids = new Set(policy.groups.map(({ id }) => id));
  tally.keepOnly(({ what }) => typeof what === 'string' || ids.has(what.group));
}
