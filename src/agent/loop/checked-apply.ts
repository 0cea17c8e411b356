/**
 * Owns the check of a policy after it was applied: if the server can no longer be reached, the previous policy is
 * restored.
 */
import type { EffectivePolicy } from '../../policy/effective.ts';
import type { ApplyCheck, RestorablePolicy } from '../state/apply-check.ts';
import { policyFingerprint } from '../state/last-good-policy.ts';
import { desiredPolicyAt, type DesiredPolicy } from './desired-policy.ts';
import type { CheckedApplyOptions, Loop } from './loop.ts';
import { onlyMembersDiffer } from './membership-change.ts';
import type { PolicyMoment } from './policy-clock.ts';
import { isPending, type InForce, type LoopState } from './state.ts';

const defaults = { patience: 90_000, restoredFor: 30_000, every: 5_000 } as const;
/** Milliseconds that each device of the organization adds to the time over which first attempts are spread: 500 a second. */
const spreadPerDevice = 2;
const widestSpread = 30_000;

/** Begins the check of a policy that is in force now. The policy before must have been the server's or the disk's, and the server reachable. */
export function beginCheck({ state, options }: Loop, before: InForce | undefined, now: InForce): void {
  const { checkedApply, source, monotonic, random } = options;
  const accepted = state.acceptedUnchecked;
  state.acceptedUnchecked = undefined;
  if (checkedApply === undefined || before?.desired.policy === undefined || now.desired.policy === undefined) return;
  // What time, the agent's way to its server or another interface changes is no new policy, and who joins or leaves changes no rule.
  if (before.target.policy === now.target.policy || before.desired.revision === now.desired.revision) return;
  if (now.target.policy === accepted || onlyMembersDiffer(before.desired.policy, now.desired.policy)) return;
  if (state.check?.kind === 'restoring') return;
  // An isolated device stays isolated, whatever happens to its network.
  if (now.desired.policy.isolation !== undefined) return void (state.check = undefined);
  const isProven = state.check?.kind !== 'checking';
  if (isProven && source.connection.phase !== 'live') return;
  const { policy, revision } = before.desired;
  const known = state.check?.kind === 'checking' ? state.check.before : { policy, revision };
  const since = monotonic();
  state.check = { kind: 'checking', before: known, checked: policyFingerprint(now.desired.policy), since };
  state.probeAt = since + random() * Math.min((checkedApply.devices?.() ?? 0) * spreadPerDevice, widestSpread);
}

/** Takes in what attempts to connect have shown, and the time that has passed. */
export function followCheck(loop: Loop): void {
  const { state, options } = loop;
  const { check } = state;
  if (options.checkedApply === undefined || check === undefined || check.kind === 'reverted') return;
  const now = options.monotonic();
  if (check.since === undefined) {
    if (state.inForce === undefined || isPending(state)) return;
    const begun = { ...check, since: now };
    // Since when is not saved.
    if (state.savedCheck === check) state.savedCheck = begun;
    state.check = begun;
    state.probeAt = now;
    return followCheck(loop);
  }
  if ((state.reachedAt ?? Number.NEGATIVE_INFINITY) >= check.since) return noteReached(loop, check);
  if (now >= deadlineOf(check, options.checkedApply)) return noteUnreached(loop, check);
  if (now >= state.probeAt && !state.probing) startProbe(loop, options.checkedApply);
}

/** Milliseconds until the check has something to do; never, where there is no answer. */
export function untilCheck({ state, options }: Loop): number {
  const { check, probing, probeAt } = state;
  if (options.checkedApply === undefined || check === undefined || check.kind === 'reverted')
    return Number.POSITIVE_INFINITY;
  const deadline = deadlineOf(check, options.checkedApply);
  return Math.max(0, Math.min(deadline, probing ? Number.POSITIVE_INFINITY : probeAt) - options.monotonic());
}

function deadlineOf(check: Exclude<ApplyCheck, { kind: 'reverted' }>, options: CheckedApplyOptions): number {
  const { patience = defaults.patience, restoredFor = defaults.restoredFor } = options;
  return (check.since ?? Number.POSITIVE_INFINITY) + (check.kind === 'checking' ? patience : restoredFor);
}

function startProbe({ state, options, wake }: Loop, { probe, every = defaults.every }: CheckedApplyOptions): void {
  const { monotonic } = options;
  // Only a connection that began under the policy counts for it.
  const began = monotonic();
  state.probing = true;
  void probe()
    .catch(() => false)
    .then((isReached) => {
      if (isReached) state.reachedAt = began;
      state.probing = false;
      state.probeAt = began + every;
      wake();
    });
}

/** The server can be reached: the policy in force is good. */
function noteReached({ state, options: { log } }: Loop, check: ApplyCheck): void {
  state.check = check.kind === 'restoring' ? { kind: 'reverted', refused: check.refused } : undefined;
  if (check.kind !== 'restoring') return;
  log(
    'error',
    'the server is reachable under the policy before: the agent refuses the new policy until the next change',
    {
      code: 'server_unreachable',
      revision: check.refused.revision,
    },
  );
}

/** The server cannot be reached: the other policy is tried, and in the end the new one stays. */
function noteUnreached({ state, time, options: { log, clock } }: Loop, check: ApplyCheck): void {
  if (check.kind === 'checking') {
    const { policy, revision } = state.desired ?? {};
    if (policy === undefined) return void (state.check = undefined);
    log('warn', 'no new connection to the server under the new policy: the agent restores the policy before', {
      code: 'server_unreachable',
      revision,
    });
    const refused = { policy, revision, at: clock.now() };
    state.check = { kind: 'restoring', before: check.before, refused, since: undefined };
    state.desired = desiredOf(check.before, time.moment);
  } else if (check.kind === 'restoring') {
    log('warn', 'no connection to the server under the policy before either: the agent applies the new policy again');
    state.check = undefined;
    state.desired = desiredOf(check.refused, time.moment);
    state.acceptedUnchecked = state.desired.canonical;
  }
}

/** Rules that have expired since stay so. */
const desiredOf = ({ policy, revision }: RestorablePolicy, moment: PolicyMoment): DesiredPolicy =>
  desiredPolicyAt('server', policy, { ...moment, revision });

/** Whether the policy is the one that the agent refuses. Another one ends the refusal. */
export function isRefused(state: LoopState, policy: EffectivePolicy, revision: number): boolean {
  const { check } = state;
  if (check === undefined || check.kind === 'checking') return false;
  const { refused } = check;
  const fingerprint = policyFingerprint(policy);
  if (policyFingerprint(refused.policy) !== fingerprint) {
    // While the server has not been reached, the policy to go back to is the one that was good.
    state.check =
      check.kind === 'restoring'
        ? { kind: 'checking', before: check.before, checked: fingerprint, since: undefined }
        : undefined;
    return false;
  }
  if (refused.revision !== revision) state.check = { ...check, refused: { ...refused, revision } };
  return true;
}

/** Goes on with a check that the last run left, where it is about the policy that this one starts with. */
export function resumeCheck(state: LoopState, saved: ApplyCheck, moment: PolicyMoment): void {
  const { desired } = state;
  if (desired?.policy === undefined) return;
  const current = policyFingerprint(desired.policy);
  if (saved.kind === 'checking') {
    if (current === saved.checked) state.check = saved;
    return;
  }
  const isNew = current === policyFingerprint(saved.refused.policy);
  if (saved.kind === 'restoring' && isNew) state.desired = desiredOf(saved.before, moment);
  if (saved.kind === 'restoring' || !isNew) state.check = saved;
}
