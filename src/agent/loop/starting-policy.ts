/** Owns the choice of what to enforce at the start, before the server is asked. */
import type { Decompiled } from '../../nft/decompile.ts';
import type { CanonicalPolicy } from '../../policy/canonical.ts';
import { canonicalize } from '../../policy/canonicalize.ts';
import { sameDigest } from '../../policy/digest/digest.ts';
import type { Driver } from '../host/driver-interface.ts';
import type { LastGoodPolicy } from '../state/last-good-policy.ts';
import type { StoredPolicy } from '../state/state-folder.ts';
import { closedPolicy, desiredPolicyFrom, type DesiredPolicy } from './desired-policy.ts';

export type UntilFirstPolicy = 'closed' | 'open';

/** What the last run left behind. */
export interface Leftovers {
  readonly lastGood: StoredPolicy;
  readonly intent: StoredPolicy;
  /** What the kernel enforces; absent where our table is not there. */
  readonly kernel: Decompiled | undefined;
  readonly driver: Driver | undefined;
  readonly untilFirstPolicy: UntilFirstPolicy;
}

export interface StartingPolicy {
  readonly desired: DesiredPolicy | undefined;
  /** The kernel's rules are newer than the saved policy, and connections may still stand on this older one. */
  readonly revokeFrom?: CanonicalPolicy;
  /** The kernel's rules are neither of the saved ones: members may have come since. Connections may stand on these rules. */
  readonly unsaved?: CanonicalPolicy;
  /** For the log. */
  readonly notes: readonly string[];
}

const isEnforced = (kernel: Decompiled | undefined, { policy, interface: name }: LastGoodPolicy): boolean => {
  const enforced = kernel?.enforced;
  if (enforced === undefined) return false;
  return (
    (enforced.interface === undefined || enforced.interface === name) &&
    sameDigest(enforced.policy, canonicalize(policy))
  );
};

const fromDisk = ({ policy, revision }: LastGoodPolicy): DesiredPolicy => desiredPolicyFrom('kept', policy, revision);

/**
 * The last good policy, unless the kernel shows that the next one was put in force just before the end. A damaged file
 * counts as absent, and then what the kernel has stays.
 */
export function startingPolicy({ lastGood, intent, kernel, driver, untilFirstPolicy }: Leftovers): StartingPolicy {
  const notes = Object.entries({ policy: lastGood, intent }).flatMap(([name, read]) =>
    read.kind === 'damaged' ? [`the saved ${name} is damaged and ignored: ${read.why}`] : [],
  );
  if (intent.kind === 'found' && isEnforced(kernel, intent.record)) {
    const desired = fromDisk(intent.record);
    if (lastGood.kind !== 'found') return { desired, notes };
    return { desired, revokeFrom: canonicalize(lastGood.record.policy), notes };
  }
  const enforced = kernel?.enforced;
  if (lastGood.kind === 'found') {
    const { record } = lastGood;
    const isUnsaved = enforced?.interface === record.interface && !isEnforced(kernel, record);
    return { desired: fromDisk(record), ...(isUnsaved && { unsaved: enforced.policy }), notes };
  }
  // A table that binds no interface, or another one, protects nothing here. One that admits everything names none.
  if (enforced !== undefined && enforced.interface !== undefined && enforced.interface === driver?.name) {
    const note = 'no policy is saved: what the kernel enforces stays in force';
    return { desired: { origin: 'kernel', canonical: enforced.policy }, notes: [...notes, note] };
  }
  if (untilFirstPolicy === 'open') return { desired: undefined, notes: [...notes, 'no policy is known yet: open'] };
  return { desired: closedPolicy, notes: [...notes, 'no policy is known yet: inbound is closed'] };
}
