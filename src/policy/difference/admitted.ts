/**
 * Owns which new connections a policy admits at each address, including guardrails, and how two policies differ there.
 */
import type { CanonicalPolicy, DirectionPolicy, MatchSet } from '../canonical.ts';
import { allPorts, noPorts } from '../digest/port-sets.ts';
import { everything, nothing, sweepAddresses, type State } from '../digest/sweep.ts';
import { lastAddress, type Range } from '../range.ts';
import type { Direction, Family } from '../rule.ts';
import type { PortAlgebra } from './port-algebra.ts';

/** Which packets of an address; ports as numbers of sets. */
export interface Packets {
  readonly other: boolean;
  readonly echo: boolean;
  readonly tcp: number;
  readonly udp: number;
}

const everyPacket: Packets = { other: true, echo: true, tcp: allPorts, udp: allPorts };

const isNone = ({ other, echo, tcp, udp }: Packets): boolean => !other && !echo && tcp === noPorts && udp === noPorts;
export const isEvery = ({ other, echo, tcp, udp }: Packets): boolean =>
  other && echo && tcp === allPorts && udp === allPorts;

const packetsOf = ([kind, tcp, udp]: State): Packets =>
  kind === 2 ? everyPacket : { other: false, echo: kind === 1, tcp, udp };

const minus = (a: Packets, b: Packets, ports: PortAlgebra): Packets => ({
  other: a.other && !b.other,
  echo: a.echo && !b.echo,
  tcp: ports.minus(a.tcp, b.tcp),
  udp: ports.minus(a.udp, b.udp),
});

/** From this address on, up to the next step. */
interface Step {
  readonly at: bigint;
  readonly state: State;
}

function stepsOf(part: MatchSet | undefined, family: Family, ports: PortAlgebra): readonly Step[] {
  const steps: Step[] = [];
  if (part !== undefined) sweepAddresses(part, family, ports.sets, (at, state) => steps.push({ at, state }));
  return steps;
}

const isSameSteps = (a: readonly Step[], b: readonly Step[]): boolean =>
  a.length === b.length &&
  a.every(({ at, state }, i) => at === b[i]?.at && state.every((part, place) => part === b[i]?.state[place]));

/** One policy, or no device: then it admits nothing. */
interface Swept {
  readonly admit: readonly Step[];
  readonly forbid: readonly Step[];
}

function sweep(policy: DirectionPolicy | undefined, family: Family, ports: PortAlgebra): Swept {
  const admit = policy?.kind === 'open' ? everything : policy;
  return { admit: stepsOf(admit, family, ports), forbid: stepsOf(policy?.forbid, family, ports) };
}

export interface DifferentRange extends Range {
  readonly gained: Packets;
  readonly lost: Packets;
}

export interface FamilyDifference {
  /** Ascending and disjoint; of each, something is gained or lost. */
  readonly ranges: readonly DifferentRange[];
  /** Whether the rules mean another thing: what is forbidden counts by itself, also where nothing admits it. */
  readonly isOther: boolean;
}

/** How one direction and family of two policies differ. */
export function familyDifference(
  before: CanonicalPolicy | undefined,
  after: CanonicalPolicy | undefined,
  direction: Direction,
  family: Family,
  ports: PortAlgebra,
): FamilyDifference {
  const [old, now] = [sweep(before?.[direction], family, ports), sweep(after?.[direction], family, ports)];
  if (isSameSteps(old.admit, now.admit) && isSameSteps(old.forbid, now.forbid)) return { ranges: [], isOther: false };
  const lists = [old.admit, old.forbid, now.admit, now.forbid] as const;
  const places = [0, 0, 0, 0];
  const states: State[] = [nothing, nothing, nothing, nothing];
  const ranges: DifferentRange[] = [];
  for (let at: bigint | undefined = 0n; at !== undefined;) {
    let next: bigint | undefined;
    for (const [i, steps] of lists.entries()) {
      for (let step = steps[places[i] ?? 0]; step !== undefined; step = steps[places[i] ?? 0]) {
        if (step.at > at) {
          if (next === undefined || step.at < next) next = step.at;
          break;
        }
        states[i] = step.state;
        places[i] = (places[i] ?? 0) + 1;
      }
    }
    const [admitOld, forbidOld, admitNow, forbidNow] = states.map(packetsOf) as [Packets, Packets, Packets, Packets];
    const was = minus(admitOld, forbidOld, ports);
    const is = minus(admitNow, forbidNow, ports);
    const [gained, lost] = [minus(is, was, ports), minus(was, is, ports)];
    if (!isNone(gained) || !isNone(lost)) {
      ranges.push({ first: at, last: (next ?? lastAddress(family) + 1n) - 1n, gained, lost });
    }
    at = next;
  }
  return { ranges, isOther: true };
}
