/** Owns the agent's status: one record, for the operator, for metrics and for the server. */
import type { Forwarding } from '../../nft/compile/base.ts';
import type { ServerAccess } from '../../policy/server-access.ts';
import { printSelector, type Driver, type Selector } from '../host/driver-interface.ts';
import type { Connection } from '../source/policy-source.ts';
import type { DesiredPolicy } from './desired-policy.ts';
import { packetCounts, type PacketCounts } from './packet-counts.ts';
import {
  isCheckDue,
  isPending,
  observedRevision,
  type Drift,
  type PolicyHold,
  type LoopState,
  type Trouble,
} from './state.ts';

export interface AgentStatus {
  readonly startedAt: number;
  readonly selector: string;
  readonly driver: Driver | undefined;
  /** Whether the device forwards packets; absent where connections that it translates for others are left alone. */
  readonly forwarding: Forwarding | undefined;
  /** The agent's way to its server, as the rules keep it open; absent where they do not. */
  readonly serverAccess: ServerAccess | undefined;
  /** What is in force; absent until something is. */
  readonly inForce: Omit<DesiredPolicy, 'canonical'> | undefined;
  /** Of the policy in force, as read back from the kernel; absent until it was. */
  readonly policyDigest: string | undefined;
  readonly appliedAt: number | undefined;
  readonly verifiedAt: number | undefined;
  /** The desired policy is not in force, or the policy in force is unknown. */
  readonly pending: boolean;
  /** The newest revision that was dealt with, in force or in vain; absent while that is under way. */
  readonly observedRevision: number | undefined;
  readonly held: PolicyHold | undefined;
  /** The policy under which the server could not be reached, while the one before is in force again. */
  readonly reverted: { readonly revision: number | undefined; readonly at: number } | undefined;
  readonly applies: number;
  readonly driftRepairs: number;
  readonly lastDrift: Drift | undefined;
  readonly revokedConnections: number;
  /** Of these, those whose packets are dropped until both sides are silent. */
  readonly endedConnections: number;
  /** As the counters were last read. A direction is absent where everything passes, because nothing is counted there. */
  readonly counts: PacketCounts;
  /** What does not work at the moment. */
  readonly troubles: readonly Trouble[];
  readonly lastError: Trouble | undefined;
  readonly connection: Connection;
  /** Milliseconds by which the device's clock is ahead of the server's, or behind it; absent where that is a minute at most, or not known. */
  readonly clockOff: number | undefined;
}

export interface StatusSurroundings {
  readonly selector: Selector;
  readonly connection: Connection;
  readonly serverAccess: ServerAccess | undefined;
  readonly endedConnections: number;
  readonly clockOff: number | undefined;
  /** Whether nobody was seen at our tables since they were compared with what is in force. */
  readonly isTrusted: boolean;
}

export function statusOf(state: LoopState, surroundings: StatusSurroundings): AgentStatus {
  const { selector, connection, serverAccess, endedConnections, clockOff, isTrusted } = surroundings;
  const desired = state.inForce?.desired;
  const { startedAt, driver, appliedAt, verifiedAt, held, applies, driftRepairs, lastDrift } = state;
  return {
    startedAt,
    selector: printSelector(selector),
    driver,
    forwarding: state.forwarding,
    serverAccess,
    inForce: desired && withoutRules(desired),
    policyDigest: state.readBack?.target === state.inForce?.target ? state.readBack?.digest : undefined,
    appliedAt,
    verifiedAt,
    pending: !isTrusted || state.target === undefined || isPending(state) || isCheckDue(state),
    observedRevision: observedRevision(state),
    held,
    reverted: state.check?.kind === 'reverted' ? state.check.refused : undefined,
    applies,
    driftRepairs,
    lastDrift,
    revokedConnections: state.revokedConnections,
    endedConnections,
    counts: packetCounts(state.totals, desired),
    troubles: [
      ...[state.enslaved, state.lost].filter((trouble) => trouble !== undefined),
      ...[...state.failures.values()].map(({ trouble }) => trouble),
    ],
    lastError: state.lastError,
    connection,
    clockOff,
  };
}

const withoutRules = ({ origin, policy, revision, own }: DesiredPolicy): Omit<DesiredPolicy, 'canonical'> => ({
  origin,
  ...(policy && { policy }),
  ...(revision !== undefined && { revision }),
  ...(own !== undefined && { own }),
});
