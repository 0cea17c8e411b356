/** Owns the one rule of what in force means: a receipt held against the changes that touched its device. No effects. */
import type { InForce } from '../../api/enforcement/in-force.ts';
import { digestForm } from '../../policy/digest/digest-form.ts';
import type { Receipt } from './receipt.ts';

/** A change that touched a device's effective policy, and what that policy was made of from then on. */
export interface PolicyChange {
  readonly revision: number;
  readonly key: string;
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
  /** The digest that a policy made of this should have; undefined where it is no longer known. */
  readonly digestOf: (key: string) => string | undefined;
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

/** Why a digest says nothing about the policy, whatever it is: it is not made as this server makes it. */
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
}: Omit<VerdictInput, 'digestOf' | 'online'>): PolicyChange | undefined {
  const needed = neededChange(policyChanges, revision);
  const reflected = receipt?.revision;
  if (needed === undefined || reflected === undefined || reflected > head) return undefined;
  // Where the server did not see the change happen, the digest alone tells whether the rules are the policy's: every server says the same then.
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
  const expected = digestOf(reflected.key);
  if (expected === undefined) return missing;
  if (expected === receipt.digest) return { in_force: 'yes' };
  // Other rules are no fault of a device that has not said that they are for this change.
  return (receipt.revision ?? 0) < reflected.revision ? missing : differs;
}

/** Up to which revision the device has everything in force, of all that are known; -1: nothing, or nobody knows. It is `yes` for these and for no other. */
export function inForceUpTo(input: Omit<VerdictInput, 'revision' | 'online'>): number {
  const { head, policyChanges, receipt, digestOf } = input;
  // Whether it is connected tells apart what a device lacks, never what it has.
  if (verdictOf({ revision: 0, head, policyChanges, receipt, online: undefined, digestOf }).in_force !== 'yes')
    return -1;
  const reflected = Math.max(receipt?.revision ?? -1, policyChanges[0]?.revision ?? -1);
  const next = policyChanges.find((change) => change.revision > reflected);
  return next === undefined ? Number.POSITIVE_INFINITY : next.revision - 1;
}
