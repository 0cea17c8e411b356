/** Owns the choice of the policy to enforce at the start, before the server answers. */
import type { Decompiled } from '../../nft/read/decompile.ts';
import type { CanonicalPolicy } from '../../policy/canonical.ts';
import { canonicalize } from '../../policy/canonicalize.ts';
import { sameDigest } from '../../policy/digest/digest.ts';
import { policyAt, type PolicyAtMoment } from '../../policy/time/policy-at.ts';
import type { LastGoodPolicy } from '../state/last-good-policy.ts';
import type { StoredPolicy } from '../state/state-folder.ts';
import { closedPolicy, desiredPolicyAt, lostPolicy, type DesiredPolicy } from './desired-policy.ts';
import type { PolicyMoment } from './policy-clock.ts';

export type UntilFirstPolicy = 'closed' | 'open';

/** What the last run left behind. */
export interface Leftovers {
  readonly lastGood: StoredPolicy;
  readonly intent: StoredPolicy;
  /** Why the state directory cannot be written, where it cannot: then what it holds may be older than it seems. */
  readonly unwritable?: string | undefined;
  /** What the kernel enforces; absent where our table is not there. */
  readonly kernel: Decompiled | undefined;
  readonly untilFirstPolicy: UntilFirstPolicy;
  readonly moment: PolicyMoment;
}

/** Why a policy that this device had is not known any more. */
export interface LostPolicy {
  readonly code: 'state_damaged' | 'state_unwritable';
  readonly message: string;
}

export interface StartingPolicy {
  readonly desired: DesiredPolicy | undefined;
  /** The saved policy that `desired` is, where it is one. */
  readonly record?: LastGoodPolicy;
  readonly lost?: LostPolicy;
  /** For the log. */
  readonly notes: readonly string[];
}

const fromDisk = (record: LastGoodPolicy, moment: PolicyMoment): Pick<StartingPolicy, 'desired' | 'record'> => ({
  desired: desiredPolicyAt('kept', record.policy, { ...moment, revision: record.revision }),
  record,
});

/** More moments than these have hardly passed between two saves. */
const mostMoments = 16;

/** Whether the kernel holds the saved policy, as it was when it was saved or at a moment since then. */
function isHeld(
  held: CanonicalPolicy,
  { policy, at: savedAt }: LastGoodPolicy,
  { at: now, isolationsAt }: PolicyMoment,
): boolean {
  const policyOf = (moment: number): PolicyAtMoment => policyAt(policy, moment, moment + isolationsAt - now);
  const from = savedAt ?? now;
  const moments = [now, from];
  for (let { changesAt } = policyOf(from); changesAt !== undefined && changesAt < now;) {
    moments.push(changesAt);
    if (moments.length === mostMoments) break;
    ({ changesAt } = policyOf(changesAt));
  }
  return moments.some((moment) => sameDigest(held, canonicalize(policyOf(moment).policy)));
}

const recordOf = (stored: StoredPolicy): LastGoodPolicy | undefined =>
  stored.kind === 'found' ? stored.record : undefined;

/**
 * The policy that the kernel enforces, if the rules are as an agent left them. No policy leaves the inbound chain
 * empty. If the outbound chain is empty beside chains that nothing refers to, either another program emptied it or the
 * last run was interrupted at its very end: then the saved policy decides.
 */
function policyInKernel({ enforced, findings }: Decompiled): CanonicalPolicy | undefined {
  if (enforced === undefined) return undefined;
  const { inbound, outbound } = enforced.policy;
  const isBare = ({ kind, forbid }: CanonicalPolicy['inbound']): boolean => kind === 'open' && forbid === undefined;
  if (isBare(inbound)) return undefined;
  const isEmptied = isBare(outbound) && findings.some(({ code }) => code === 'unused_chain');
  return isEmptied ? undefined : enforced.policy;
}

/**
 * The policy that the kernel holds, because nothing on the disk is newer: a policy is saved after the kernel has taken
 * it. Where the kernel holds no rules of ours, the newest saved policy. Where neither is readable and this device had a
 * policy, only the connection to the server is admitted (reference 10 (21)).
 */
export function startingPolicy(leftovers: Leftovers): StartingPolicy {
  const { lastGood, intent, kernel, unwritable, untilFirstPolicy, moment } = leftovers;
  const [saved, intended] = [recordOf(lastGood), recordOf(intent)];
  const notes = Object.entries({ policy: lastGood, intent }).flatMap(([name, read]) =>
    read.kind === 'damaged' ? [`the saved ${name} is damaged; the agent ignores it: ${read.why}`] : [],
  );
  const newestFirst = (intended?.revision ?? -1) > (saved?.revision ?? -1) ? [intended, saved] : [saved, intended];
  const [newest] = newestFirst;
  const held = kernel?.enforced?.policy;
  const matching = newestFirst.find(
    (record) => record !== undefined && held !== undefined && isHeld(held, record, moment),
  );
  const enforced = matching === undefined ? kernel && policyInKernel(kernel) : held;
  if (enforced !== undefined) {
    if (matching !== undefined) return { ...fromDisk(matching, moment), notes };
    if (sameDigest(enforced, lostPolicy.canonical)) return { desired: lostPolicy, lost: whyLost(leftovers), notes };
    const note = 'no policy is saved, but the kernel holds rules; these rules stay in force';
    return { desired: { origin: 'kernel', canonical: enforced }, notes: [...notes, note] };
  }
  if (newest !== undefined && unwritable === undefined) return { ...fromDisk(newest, moment), notes };
  // Files, or a table of ours that others changed: this device had a policy.
  if (kernel !== undefined || lastGood.kind !== 'absent' || intent.kind !== 'absent') {
    return { desired: lostPolicy, lost: whyLost(leftovers), notes };
  }
  if (untilFirstPolicy === 'open') return { desired: undefined, notes: [...notes, 'no policy yet: inbound is open'] };
  return { desired: closedPolicy, notes: [...notes, 'no policy yet: inbound is closed'] };
}

const closing = 'both directions are closed, except for traffic to the server, until the server sends the policy';

function whyLost({ lastGood, intent, unwritable }: Leftovers): LostPolicy {
  const isReadable = lastGood.kind === 'found' || intent.kind === 'found';
  if (unwritable !== undefined && isReadable) {
    const message = `cannot write to the state directory (${unwritable}), so the saved policy may be out of date; ${closing}`;
    return { code: 'state_unwritable', message };
  }
  return { code: 'state_damaged', message: `cannot read the saved policy; ${closing}` };
}
