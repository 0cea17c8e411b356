/** Owns the packet counts in reports to the server: what each counter gained since the last report that arrived. */
import type { GroupPackets, PacketReport } from '../../api/enforcement/overview.ts';
import { mostCountedGroups, mostPackets } from '../../api/limits.ts';
import type { AgentStatus } from '../loop/status.ts';

type Counts = Pick<AgentStatus, 'counts' | 'inForce'>;

/** What is counted, by what becomes of it and by the counter: a group that leaves takes its counter along. */
interface Readings {
  readonly admitted: ReadonlyMap<string, number>;
  readonly refused: ReadonlyMap<string, number>;
}

function readingsOf({ counts, inForce }: Counts): Readings {
  const forbidding = new Set<string>((inForce?.policy?.guardrails?.forbid ?? []).map(({ id }) => id));
  const [admitted, refused] = [new Map<string, number>(), new Map<string, number>()];
  for (const direction of ['inbound', 'outbound'] as const) {
    const counted = counts[direction];
    if (counted === undefined) continue;
    admitted.set(`${direction} established`, counted.reasons.established.packets);
    refused.set(`${direction} refused`, counted.reasons.refused.packets);
    for (const [group, { packets }] of counted.matched)
      (forbidding.has(group) ? refused : admitted).set(`${direction} ${group}`, packets);
  }
  return { admitted, refused };
}

const gained = (now: ReadonlyMap<string, number>, before: ReadonlyMap<string, number>): number => {
  let sum = 0;
  // A counter that began anew has gained what it shows.
  for (const [name, packets] of now) {
    const last = before.get(name) ?? 0;
    sum += packets >= last ? packets - last : packets;
  }
  return Math.min(sum, mostPackets);
};

/** What the rules of each group have matched so far, the most first where there are too many to tell. */
export function groupPacketsOf({ counts }: Pick<AgentStatus, 'counts'>): readonly GroupPackets[] {
  const groups = new Map<string, { group_id: string; inbound?: number; outbound?: number }>();
  for (const direction of ['inbound', 'outbound'] as const) {
    for (const [group_id, { packets }] of counts[direction]?.matched ?? []) {
      const group = groups.get(group_id) ?? { group_id };
      groups.set(group_id, group);
      group[direction] = Math.min(packets, mostPackets);
    }
  }
  const sum = ({ inbound = 0, outbound = 0 }: GroupPackets): number => inbound + outbound;
  return [...groups.values()].toSorted((a, b) => sum(b) - sum(a)).slice(0, mostCountedGroups);
}

export class PacketReports {
  #told: Readings | undefined;

  /**
   * The packets counted since the last report that arrived. Undefined before the first report, because the start of the
   * interval is unknown.
   */
  since(status: Counts): PacketReport | undefined {
    const now = readingsOf(status);
    const before = this.#told;
    if (before === undefined) return undefined;
    return { admitted: gained(now.admitted, before.admitted), refused: gained(now.refused, before.refused) };
  }

  /** A report with this has arrived. */
  told(status: Counts): void {
    this.#told = readingsOf(status);
  }
}
