/**
 * Owns the steps of a policy change: apply it, end the connections that it no longer admits, and save it for the next
 * start.
 */
import type { CanonicalPolicy } from '../../policy/canonical.ts';
import { admits } from '../../policy/canonicalize.ts';
import type { Driver } from '../host/driver-interface.ts';
import type { LastGoodPolicy } from '../state/last-good-policy.ts';
import { beginCheck } from './checked-apply.ts';
import type { DesiredPolicy } from './desired-policy.ts';
import { Intent } from './intent.ts';
import type { Loop } from './loop.ts';
import { jitter } from './policy-clock.ts';
import { remotesOfChange } from './membership-change.ts';
import { everything, withNarrowed, withPolicy } from './pending-revocation.ts';
import { isCheckDue, type InForce, type LoopState } from './state.ts';
import { collectAfter } from './table-steps.ts';

export async function applyPolicy(loop: Loop): Promise<void> {
  const { state, enforcer, ended, options } = loop;
  const { target, desired, driver, inForce: before } = state;
  if (target === undefined || desired === undefined || driver === undefined) return;
  const { state: folder, clock, monotonic, log } = options;
  // What holds before any policy is known is not one for the next start.
  const record = desired.origin === 'first' ? undefined : lastGoodPolicyOf(desired, driver);
  const intent = folder === undefined || record === undefined ? undefined : new Intent(folder, record);
  const changed = await enforcer.apply(target, intent).catch(async (error: unknown) => {
    await intent?.giveUp(before && lastGoodPolicyOf(before.desired, before.driver), error);
    // The kernel may have it all the same, and admit by it until another policy is in force.
    state.attempted = withPolicy(state.attempted, target.policy);
    throw error;
  });
  state.inForce = { desired, driver, target };
  beginCheck(loop, before, state.inForce);
  noteRevocation(state, before, state.inForce);
  state.endedStale ||= ended.size > 0;
  state.applies++;
  state.appliedAt = clock.now();
  state.unverified = true;
  // What an agent before us left has been out of use for long enough.
  if (enforcer.garbage > 0) state.collectAt ??= monotonic() + (before === undefined && !changed ? 0 : collectAfter);
  // Only the agent's way to its server, or whether the device forwards, may have changed: worth no line for everybody.
  const isSame = before?.desired.canonical === desired.canonical && before.target.interface === target.interface;
  log(isSame ? 'debug' : 'info', changed ? 'the agent applied a policy' : 'the policy is already in force', {
    origin: desired.origin,
    revision: desired.revision,
    interface: target.interface,
    groups: desired.policy?.groups.map(({ id }) => id).join(','),
  });
}

/** Marks that connections may stand on the policy before, and on those that were tried in between. */
function noteRevocation(state: LoopState, before: InForce | undefined, { desired, target }: InForce): void {
  const { attempted } = state;
  state.attempted = [];
  for (const policy of attempted) {
    if (policy !== target.policy) state.revocation = withNarrowed(state.revocation, policy, undefined);
  }
  if (before === undefined || before.target.policy === target.policy) return;
  const narrowed = remotesOfChange(before.desired.policy, desired.policy);
  // No far end lost access, so there is nothing to revoke.
  if (narrowed?.length === 0) return;
  state.revocation = withNarrowed(state.revocation, before.target.policy, narrowed);
}

/** Judging all connections again may take this part of the agent's time, and rests so long at least. */
const judgingShare = 50;
const leastRest = 1_000;

/** Whether connections are judged at all: under the policy of a first start they go on, and where all may pass there is nothing to judge. */
export const isJudging = ({ state: { inForce }, options: { revoke } }: Loop): boolean =>
  revoke !== undefined && inForce !== undefined && inForce.desired.origin !== 'first' && !isOpen(inForce.target.policy);
const isOpen = ({ inbound, outbound }: CanonicalPolicy): boolean =>
  [inbound, outbound].every((each) => each.kind === 'open' && each.forbid === undefined);

/** Ends the connections that are not admitted any more, or never were, and lets those go that are admitted again. */
export async function revokeConnections(loop: Loop): Promise<void> {
  const { state, ended, options } = loop;
  const { revoke, log, monotonic } = options;
  const { revocation, unchecked, inForce } = state;
  if (inForce === undefined) return;
  const from = monotonic();
  const { policy: after, interface: name, serverAccess, forwarding } = inForce.target;
  const containers = forwarding === undefined ? 'ignore' : 'guard';
  const place = { interface: name, containers } as const;
  await ended.release((packet) => admits(after, packet, { serverAccess, containers }), place);
  state.endedStale = false;
  const isCheck = isCheckDue(state);
  const isJudged = isCheck || (isJudging(loop) && (state.judgeAt ?? Number.POSITIVE_INFINITY) <= from);
  const looked = isJudged ? { before: [everything], remotes: undefined, untracked: isCheck } : revocation;
  if (looked === undefined || revoke === undefined) return;
  // A change that comes meanwhile asks for another look.
  if (isJudged) state.judgeAt = undefined;
  const { count, trouble } = await revoke({ ...place, ...looked, after, serverAccess }, (flows) =>
    ended.block(flows, place),
  ).catch((error: unknown) => {
    if (isJudged) state.judgeAt ??= from;
    throw error;
  });
  state.revocation = undefined;
  // A mark that came meanwhile asks for another look.
  if (isCheck && state.unchecked === unchecked) state.unchecked = undefined;
  if (isJudged) {
    const now = monotonic();
    state.judgeRest = now + Math.max(leastRest, (now - from) * judgingShare);
    if (state.judgeAt !== undefined) state.judgeAt = state.judgeRest;
  }
  state.revokedConnections += count;
  const why =
    isCheck || revocation === undefined
      ? 'the agent ended connections that the policy does not allow'
      : 'the agent ended connections whose rule was removed';
  if (count > 0) log('info', why, { count });
  if (trouble !== undefined && (isCheck || revocation !== undefined)) log('warn', trouble);
}

export async function savePolicy(loop: Loop): Promise<void> {
  const { state, options } = loop;
  const { inForce, check } = state;
  if (isTimeDue(loop)) await saveTime(loop);
  // Before the policy: a start that finds a new policy finds how to go back.
  if (check !== state.savedCheck) await options.state?.writeCheck(check);
  state.savedCheck = check;
  const record = inForce && lastGoodPolicyOf(inForce.desired, inForce.driver);
  if (inForce === undefined || record === undefined || !isPolicyUnsaved(state)) return;
  await options.state?.writePolicy(record);
  // The record tells its own time.
  state.savedTime = { ...state.savedTime, at: options.monotonic() };
  state.lost = undefined;
  state.saved = { policy: inForce.desired.policy, interface: inForce.driver.name };
}

/** Whether what is in force is not on the disk yet. */
export const isUnsaved = (loop: Loop): boolean => {
  const { state, options } = loop;
  return (
    options.state !== undefined &&
    state.inForce !== undefined &&
    (state.check !== state.savedCheck || isPolicyUnsaved(state) || isTimeDue(loop))
  );
};

/** The time is saved so often while something ends by time alone: the nearer the end, the more often, without wearing out a disk. */
const [leastBetween, mostBetween, savesUntilEnd] = [10_000, 600_000, 60];

/** Whether a clock that is set back now, and a restart, would prolong something by more than a little. */
function isTimeDue({ state, time, options: { monotonic } }: Loop): boolean {
  const { savedTime, desired } = state;
  if (Math.abs(time.saved.offset - savedTime.offset) > jitter) return true;
  if (desired?.changesAt === undefined) return false;
  const between = Math.max(leastBetween, Math.min((desired.changesAt - time.now()) / savesUntilEnd, mostBetween));
  return monotonic() - savedTime.at >= between;
}

export async function saveTime({ state, time, options }: Loop): Promise<void> {
  const { saved } = time;
  await options.state?.writeTime(saved);
  state.savedTime = { at: options.monotonic(), offset: saved.offset };
}

function isPolicyUnsaved({ inForce, saved }: LoopState): boolean {
  if (inForce === undefined) return false;
  const { desired, driver } = inForce;
  if (desired.policy === undefined || desired.origin === 'first') return false;
  // A newer revision alone is not worth a write: in a large organization there is one all the time.
  return desired.policy !== saved?.policy || driver.name !== saved?.interface;
}

const lastGoodPolicyOf = (
  { policy, revision, at }: DesiredPolicy,
  { name, neighbourDiscovery }: Driver,
): LastGoodPolicy | undefined =>
  policy && {
    policy,
    revision: revision ?? 0,
    interface: name,
    neighbourDiscovery,
    ...(at !== undefined && { at }),
  };
