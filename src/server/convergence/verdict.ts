/** Owns the definition of "in force": it compares a receipt with the policy changes that affected its device. No effects. */
import type { InForce } from '../../api/enforcement/in-force.ts';
import { digestForm } from '../../policy/digest/digest-form.ts';
import { phasesAround, type TimedPolicy } from './phases.ts';
import type { Receipt } from './receipt.ts';

/** A change that touched a device's effective policy, and what that policy was made of from then on. */
export interface PolicyChange extends TimedPolicy {
  readonly revision: number;
  /** It may have been earlier: the server has not seen it happen. */
  readonly atLatest?: boolean;
}

export interface VerdictInput {
  /** Whether the device has this revision in force. */
  readonly revision: number;
  /** The newest revision that there is: a receipt for a later one is of another history. */
  readonly head: number;
  /** Ascending, at least one; earlier ones may have been forgotten. */
  readonly policyChanges: readonly PolicyChange[];
  readonly receipt: Receipt | undefined;
  /** Undefined: it never held a stream. */
  readonly online: boolean | undefined;
  /** The digest that a policy should have in this phase; undefined where it is no longer known. */
  readonly digestOf: (phase: string) => string | undefined;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

export interface Verdict {
  readonly in_force: InForce;
  readonly code?: string;
  readonly detail?: string;
}

const differs: Verdict = {
  in_force: 'failed',
  code: 'digest_differs',
  detail: 'the rules in its kernel do not match its policy',
};

const unreported: Omit<Verdict, 'in_force'> = {
  code: 'expiry_unreported',
  detail: 'a rule has expired, and its agent has not reported since',
};

/** Why the digest proves nothing about any policy: the agent sends none, or one in another form. */
function unprovenReason({ digest, digestForm: form }: Receipt): Omit<Verdict, 'in_force'> | undefined {
  if (digest === undefined) {
    return { code: 'no_digest', detail: 'its agent does not report a digest of its rules: update the agent' };
  }
  if (form === digestForm) return undefined;
  const program = form < digestForm ? 'the agent' : 'the server';
  const detail = `its agent reports digests of form ${form}, this server needs form ${digestForm}: update ${program}`;
  return { code: 'digest_form', detail };
}

const optional = ({ code, detail }: Pick<Receipt, 'code' | 'detail'>): Omit<Verdict, 'in_force'> => ({
  ...(code !== undefined && { code }),
  ...(detail !== undefined && { detail }),
});

/** The change that the device must have: the newest one that touched it up to the revision. */
const neededChange = (policyChanges: readonly PolicyChange[], revision: number): PolicyChange | undefined =>
  policyChanges.findLast((change) => change.revision <= revision) ?? policyChanges[0];

/** The change that its rules reflect, as the receipt says: only where that is the needed one or a later one. */
export function reflectedChange({
  policyChanges,
  revision,
  head,
  receipt,
}: Omit<VerdictInput, 'digestOf' | 'online' | 'now'>): PolicyChange | undefined {
  const needed = neededChange(policyChanges, revision);
  const reflected = receipt?.revision;
  if (needed === undefined || reflected === undefined || reflected > head) return undefined;
  // The server did not see the exact change. Only the digest shows whether the device has the policy, so that every
  // server gives the same answer.
  if (reflected < needed.revision) return needed.atLatest === true ? needed : undefined;
  return policyChanges.findLast((change) => change.revision <= reflected);
}

export function verdictOf(input: VerdictInput): Verdict {
  const { receipt, online, digestOf } = input;
  if (receipt?.state === 'failed') {
    return { in_force: receipt.code === 'not_understood' ? 'not_understood' : 'failed', ...optional(receipt) };
  }
  if (receipt?.state === 'reverted') return { in_force: 'reverted', ...optional(receipt) };
  if (receipt === undefined && online === undefined) return { in_force: 'never_seen' };
  const missing: Verdict = { in_force: online === true ? 'behind' : 'offline' };
  if (receipt?.state !== 'applied') return missing;
  const reflected = reflectedChange(input);
  if (reflected === undefined) return missing;
  const unproven = unprovenReason(receipt);
  if (unproven !== undefined) return { ...missing, ...unproven };
  const [then, now] = [matchAround(reflected, Date.parse(receipt.reported_at)), matchAround(reflected, input.now)];
  if (then === 'unknown') return missing;
  // Different rules are not a fault while the device has not yet reported this change.
  if (then === 'differs') return (receipt.revision ?? 0) < reflected.revision ? missing : differs;
  // The report was right at the time. Since then a rule has expired: the agent ends the rule without the server and
  // reports it once it is connected.
  if (now !== 'matches' && online === true) return { ...missing, ...unreported };
  // A digest shows rules, and not when they end: a device that is away may not know that.
  if (online !== true && (receipt.revision ?? 0) < (reflected.timedAt ?? 0)) return missing;
  return { in_force: 'yes', ...(receipt.code === 'clock_off' && optional(receipt)) };

  /** Whether the digest is one that the device may have at this time. */
  function matchAround(policy: TimedPolicy, time: number): 'matches' | 'differs' | 'unknown' {
    const digests = new Set(phasesAround(policy, time).map(({ key }) => digestOf(key)));
    if (digests.has(receipt?.digest)) return 'matches';
    return digests.has(undefined) ? 'unknown' : 'differs';
  }
}

/** Whether the verdict is `yes` only while the device is offline: a rule has expired, and the device has not reported it yet. */
export const isUnreported = (input: Omit<VerdictInput, 'online'>): boolean =>
  verdictOf({ ...input, online: undefined }).in_force === 'yes' &&
  verdictOf({ ...input, online: true }).in_force !== 'yes';

/**
 * The highest known revision up to which the device has everything in force; -1 when there is none or it is unknown.
 * The verdict is `yes` for exactly these revisions.
 */
export function inForceUpTo(input: Omit<VerdictInput, 'revision'>): number {
  const { policyChanges, receipt } = input;
  if (verdictOf({ ...input, revision: 0 }).in_force !== 'yes') return -1;
  const reflected = Math.max(receipt?.revision ?? -1, policyChanges[0]?.revision ?? -1);
  const next = policyChanges.find((change) => change.revision > reflected);
  return next === undefined ? Number.POSITIVE_INFINITY : next.revision - 1;
}
