/** Owns what the agent tells about itself: one record, for the operator, for metrics and for the server. */
import type { Fate } from '../../nft/counters.ts';
import type { Direction } from '../../policy/rule.ts';
import type { Charge } from './desired-policy.ts';
import type { Driver } from '../host/driver-interface.ts';
import type { Connection } from '../source/policy-source.ts';
import type { StepKind } from './step.ts';
import type { Count } from '../kernel/counter-totals.ts';

export interface Trouble {
  readonly step: StepKind;
  readonly message: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

export interface Drift {
  readonly at: number;
  /** Who did it, as far as the kernel tells. */
  readonly by: string;
  readonly what: readonly string[];
}

/** What one direction has counted. */
export interface DirectionCounts {
  /** By the group's id: packets that its rules admitted, which are the first of their connections. */
  readonly admitted: ReadonlyMap<string, Count>;
  readonly fates: { readonly [F in Fate]: Count };
}

export interface AgentStatus {
  readonly startedAt: number;
  readonly selector: string;
  readonly driver: Driver | undefined;
  /** What is in force; absent until something is. */
  readonly inForce: Omit<Charge, 'canonical'> | undefined;
  readonly appliedAt: number | undefined;
  readonly verifiedAt: number | undefined;
  /** Something else should be in force, or nobody knows what. */
  readonly pending: boolean;
  /** Why the source's word is not followed. */
  readonly held: string | undefined;
  readonly applies: number;
  readonly driftRepairs: number;
  readonly lastDrift: Drift | undefined;
  readonly revokedConnections: number;
  /** As the counters were last read. A direction is absent where everything passes, because nothing is counted there. */
  readonly counts: { readonly [D in Direction]?: DirectionCounts };
  /** What does not work at the moment. */
  readonly troubles: readonly Trouble[];
  readonly lastError: Trouble | undefined;
  readonly connection: Connection;
}
