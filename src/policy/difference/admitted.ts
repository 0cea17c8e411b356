/**
 * Owns which new connections a policy admits at each address, including guardrails, and how two policies differ there.
 */
import type { EffectivePolicy } from '../effective.ts';
import { allPorts, noPorts } from '../digest/port-sets.ts';
import { isSameState, nothing, type State } from '../digest/sweep.ts';
import { lastAddress, type Range } from '../range.ts';
import type { Direction, Family } from '../rule.ts';
import { PortAlgebra } from './port-algebra.ts';
import { partsOf, stateAt, sweepRules, type LookAt, type Paused, type Step } from './rule-sweep.ts';

/** Which packets of an address; ports as numbers of sets. */
export interface Packets {
  readonly other: boolean;
  readonly echo: boolean;
  readonly tcp: number;
  readonly udp: number;
}

const everyPacket: Packets = { other: true, echo: true, tcp: allPorts, udp: allPorts };
export const noPacket: Packets = { other: false, echo: false, tcp: noPorts, udp: noPorts };

export const isNone = ({ other, echo, tcp, udp }: Packets): boolean =>
  !other && !echo && tcp === noPorts && udp === noPorts;
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

/** Addresses for which neither of the two policies changes what it admits. */
interface Stretch extends Range {
  readonly was: Packets;
  readonly is: Packets;
  /** Whether the rules mean another thing: what is forbidden counts by itself, also where nothing admits it. */
  readonly isOther: boolean;
}

function* nextOf(steps: Paused<Step>): Generator<undefined, Step | undefined, undefined> {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return undefined;
    if (value !== undefined) return value;
    yield;
  }
}

/** All addresses of a family, ascending. */
function* stretchesOf(
  before: EffectivePolicy | undefined,
  after: EffectivePolicy | undefined,
  direction: Direction,
  family: Family,
  ports: PortAlgebra,
): Paused<Stretch> {
  const [old, now] = [partsOf(before, direction), partsOf(after, direction)];
  const parts = [old.admit, old.forbid, now.admit, now.forbid];
  const sweeps = parts.map((part) => sweepRules(part, direction, family, ports));
  const coming: (Step | undefined)[] = [];
  for (const sweep of sweeps) coming.push(yield* nextOf(sweep));
  const states: State[] = [nothing, nothing, nothing, nothing];
  for (let at: bigint | undefined = 0n; at !== undefined;) {
    let next: bigint | undefined;
    for (const [i, sweep] of sweeps.entries()) {
      let step = coming[i];
      if (step?.at === at) {
        states[i] = step.state;
        coming[i] = step = yield* nextOf(sweep);
      }
      if (step !== undefined && (next === undefined || step.at < next)) next = step.at;
    }
    const [admitOld, forbidOld, admitNow, forbidNow] = states as [State, State, State, State];
    const isOther = !isSameState(admitOld, admitNow) || !isSameState(forbidOld, forbidNow);
    const was = minus(packetsOf(admitOld), packetsOf(forbidOld), ports);
    const is = isOther ? minus(packetsOf(admitNow), packetsOf(forbidNow), ports) : was;
    yield { first: at, last: (next ?? lastAddress(family) + 1n) - 1n, was, is, isOther };
    at = next;
  }
}

export interface DifferentRange extends Range {
  readonly gained: Packets;
  readonly lost: Packets;
}

export interface FamilyDifference {
  /** Ascending and disjoint; of each, something is gained or lost. */
  readonly ranges: readonly DifferentRange[];
  readonly isOther: boolean;
}

/** How one direction and family of two policies differ. */
export function* familyDifference(
  before: EffectivePolicy | undefined,
  after: EffectivePolicy | undefined,
  direction: Direction,
  family: Family,
  ports: PortAlgebra,
): Generator<undefined, FamilyDifference, undefined> {
  const ranges: DifferentRange[] = [];
  let isOther = false;
  for (const stretch of stretchesOf(before, after, direction, family, ports)) {
    if (stretch === undefined) {
      yield;
      continue;
    }
    if (!stretch.isOther) continue;
    isOther = true;
    const { first, last, was, is } = stretch;
    const [gained, lost] = [minus(is, was, ports), minus(was, is, ports)];
    if (!isNone(gained) || !isNone(lost)) ranges.push({ first, last, gained, lost });
  }
  return { ranges, isOther };
}

/** Whether the two differ anywhere, as their digests would. */
export function* isOtherPolicy(
  before: EffectivePolicy | undefined,
  after: EffectivePolicy | undefined,
): Generator<undefined, boolean, undefined> {
  const ports = new PortAlgebra();
  for (const direction of ['inbound', 'outbound'] as const) {
    for (const family of [4, 6] as const) {
      for (const stretch of stretchesOf(before, after, direction, family, ports)) {
        if (stretch === undefined) yield;
        else if (stretch.isOther) return true;
      }
    }
  }
  return false;
}

/** What the policy admits from or to one address. `look` is told of the rules that admit something of it, as long as no guardrail forbids that. */
export function* packetsAt(
  policy: EffectivePolicy,
  at: { readonly direction: Direction; readonly family: Family; readonly value: bigint },
  ports: PortAlgebra,
  look: LookAt = {},
): Generator<undefined, Packets, undefined> {
  const { admit, forbid } = partsOf(policy, at.direction);
  const admitted = packetsOf(yield* stateAt(admit, at, ports, look));
  const forbidden = packetsOf(yield* stateAt(forbid, at, ports, look.read && { read: look.read }));
  return minus(admitted, forbidden, ports);
}

export const both = (a: Packets, b: Packets, ports: PortAlgebra): Packets => ({
  other: a.other && b.other,
  echo: a.echo && b.echo,
  tcp: ports.intersection(a.tcp, b.tcp),
  udp: ports.intersection(a.udp, b.udp),
});

export const either = (a: Packets, b: Packets, ports: PortAlgebra): Packets => ({
  other: a.other || b.other,
  echo: a.echo || b.echo,
  tcp: ports.union(a.tcp, b.tcp),
  udp: ports.union(a.udp, b.udp),
});
