/** Owns the loop's state: one record of everything that the agent remembers between two steps. */
import type { Forwarding } from '../../nft/compile/base.ts';
import type { RecorderOptions } from '../../nft/compile/recorder.ts';
import type { InterfaceName } from '../../nft/names.ts';
import type { CanonicalPolicy } from '../../policy/canonical.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import type { Driver } from '../host/driver-interface.ts';
import { CounterTotals } from '../kernel/counter-totals.ts';
import type { TableChange } from '../kernel/drift.ts';
import type { Target } from '../kernel/enforcer.ts';
import type { ApplyCheck } from '../state/apply-check.ts';
import type { DesiredPolicy } from './desired-policy.ts';
import type { PendingRevocation } from './pending-revocation.ts';
import type { StepKind } from './step.ts';

/** Why the server's policy is not followed. */
export interface PolicyHold {
  readonly why: string;
  /** The same for the same kind of reason. */
  readonly code?: string;
  /** Newest revision of the organization that this is true of. */
  readonly revision?: number;
}

/** A step that does not work at the moment. */
export interface Trouble {
  readonly step: StepKind;
  readonly message: string;
  /** The same for the same kind of failure. */
  readonly code?: string;
  /** What an operator can do about it. */
  readonly advice?: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

export interface Failure {
  readonly count: number;
  /** The step waits until then. */
  readonly notBefore: number;
  readonly trouble: Trouble;
}

export interface Drift {
  readonly at: number;
  /** The author of the change, as far as the kernel reports it. */
  readonly by: string;
  readonly what: readonly string[];
}

export interface InForce {
  readonly desired: DesiredPolicy;
  readonly driver: Driver;
  readonly target: Target;
}

/** Times are milliseconds of the monotonic clock, unless they are for people: those are since the epoch. */
export interface LoopState {
  readonly startedAt: number;

  // What should be in force, and what is.
  desired: DesiredPolicy | undefined;
  driver: Driver | undefined;
  /** Whether the device forwards packets; absent where that makes no difference. */
  forwarding: Forwarding | undefined;
  /** What rules record, and what refused packets get. Settings that make no difference to rules are left out. */
  settings: RecorderOptions;
  target: Target | undefined;
  inForce: InForce | undefined;
  /** The digest of what the kernel held when the rules of this target were read back. */
  readBack: { readonly target: Target; readonly digest: string } | undefined;
  /** What the state folder holds for the next start. */
  saved: { readonly policy: EffectivePolicy | undefined; readonly interface: InterfaceName } | undefined;
  /** Policies that could not be put in force since; the kernel may have had them all the same. */
  attempted: readonly CanonicalPolicy[];
  /** What connections may still stand on. */
  revocation: PendingRevocation | undefined;
  /** Why the policy that this device had could not be taken up at the start; absent once another one is saved. */
  lost: Trouble | undefined;
  /** Connections may be there that no rule of ours has judged. */
  unchecked: object | undefined;
  /** When the tracked connections are judged again because they may have moved; absent where they have not. Until `judgeRest` that waits. */
  judgeAt: number | undefined;
  judgeRest: number;
  /** Ended connections have not been held against what is in force yet. */
  endedStale: boolean;
  held: PolicyHold | undefined;
  /**
   * The check whether the server can still be reached under the policy in force. Absent where it can, or where no check
   * is configured.
   */
  check: ApplyCheck | undefined;
  /** The check that the state folder holds for the next start. */
  savedCheck: ApplyCheck | undefined;
  /** When the time was saved last, by the monotonic clock, and the difference to the server's clock that was saved. */
  savedTime: { readonly at: number; readonly offset: number };
  /** A policy that is not checked, because the network was at fault. */
  acceptedUnchecked: CanonicalPolicy | undefined;
  /** When the last attempt to connect began that succeeded, and when the next one is due. */
  reachedAt: number | undefined;
  probeAt: number;
  probing: boolean;
  /** The driver interface is a member of another one, so that its traffic passes our rules by. */
  enslaved: Trouble | undefined;

  // Marks: what handlers and finished steps leave for the next step.
  started: boolean;
  linksChanged: boolean;
  sourceChanged: boolean;
  /** What others changed in our table, and has not been repaired yet. */
  tableChange: TableChange | undefined;
  /** Others changed the table for ended connections. */
  endedChanged: boolean;
  /** Who made these changes. */
  changes: readonly { readonly by: string; readonly what: readonly string[] }[];
  unverified: boolean;
  /** Until when saving and verifying rest. */
  saveAt: number;
  verifyAt: number;
  inspectAt: number;
  collectAt: number | undefined;
  lastStep: StepKind | undefined;
  readonly failures: Map<StepKind, Failure>;
  /** The kernel has named a process of ours as an author: so its numbers are ours, and a stranger is a stranger. */
  authorsAreKnown: boolean;

  // For people.
  applies: number;
  appliedAt: number | undefined;
  verifiedAt: number | undefined;
  driftRepairs: number;
  lastDrift: Drift | undefined;
  revokedConnections: number;
  totals: CounterTotals;
  lastError: Trouble | undefined;
}

export const initialState = (startedAt: number, inspectAt: number): LoopState => ({
  startedAt,
  desired: undefined,
  driver: undefined,
  forwarding: undefined,
  settings: {},
  target: undefined,
  inForce: undefined,
  readBack: undefined,
  saved: undefined,
  attempted: [],
  revocation: undefined,
  lost: undefined,
  unchecked: undefined,
  judgeAt: undefined,
  judgeRest: Number.NEGATIVE_INFINITY,
  endedStale: true,
  held: undefined,
  check: undefined,
  savedCheck: undefined,
  savedTime: { at: Number.NEGATIVE_INFINITY, offset: 0 },
  acceptedUnchecked: undefined,
  reachedAt: undefined,
  probeAt: 0,
  probing: false,
  enslaved: undefined,
  started: false,
  linksChanged: true,
  sourceChanged: false,
  tableChange: undefined,
  endedChanged: false,
  changes: [],
  unverified: false,
  saveAt: Number.NEGATIVE_INFINITY,
  verifyAt: Number.NEGATIVE_INFINITY,
  inspectAt,
  collectAt: undefined,
  lastStep: undefined,
  failures: new Map(),
  authorsAreKnown: false,
  applies: 0,
  appliedAt: undefined,
  verifiedAt: undefined,
  driftRepairs: 0,
  lastDrift: undefined,
  revokedConnections: 0,
  totals: new CounterTotals(),
  lastError: undefined,
});

/** The newest revision that was dealt with: it is in force, or putting it in force was tried in vain. Absent while that is under way. */
export function observedRevision({
  held,
  desired,
  target,
  started,
  failures,
  ...state
}: LoopState): number | undefined {
  if (held !== undefined) return held.revision;
  if (state.check?.kind === 'reverted') return state.check.refused.revision;
  const isStuck = target === undefined || failures.has('apply') || (!started && failures.has('start'));
  return isStuck || target === state.inForce?.target ? desired?.revision : undefined;
}

/** What should be in force is not. */
export const isPending = ({ target, inForce }: LoopState): boolean => target !== inForce?.target;

/** Whether connections are to be looked at that no rule of ours has judged. Before any policy is known, the ones that there are go on. */
export const isCheckDue = (state: LoopState): boolean => {
  const { unchecked, inForce } = state;
  return unchecked !== undefined && inForce !== undefined && !isPending(state) && inForce.desired.origin !== 'first';
};
