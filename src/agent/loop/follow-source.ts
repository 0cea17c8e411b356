/** Owns the step from what the policy source knows to the desired policy. */
import { samePolicy } from '../../policy/same-policy.ts';
import { lastEnd, policyAt } from '../../policy/time/policy-at.ts';
import { sameServerAccess, type ServerAccess } from '../../policy/server-access.ts';
import type { Target } from '../kernel/enforcer.ts';
import { madeOfSameGroups } from '../source/peer-devices.ts';
import type { Knowledge } from '../source/policy-source.ts';
import { isRefused } from './checked-apply.ts';
import { desiredPolicyAt, withOtherMembers, type DesiredPolicy } from './desired-policy.ts';
import type { Loop } from './loop.ts';
import { onlyMembersDiffer } from './membership-change.ts';
import { jitter, type PolicyMoment } from './policy-clock.ts';
import type { LoopState } from './state.ts';

type SourceLoop = Pick<Loop, 'state' | 'options' | 'time'>;

/**
 * Takes in what the source knows. While it does not know the policy, the one in force stays. So it does where a fault of the agent itself keeps the
 * policy from being worked out: the device is then failed, and the next change is tried again.
 */
export function followSource(loop: SourceLoop): void {
  const { state, options } = loop;
  const { held } = state;
  try {
    takeIn(loop);
  } catch (fault) {
    const why = `a fault of the agent: ${fault instanceof Error ? fault.message : String(fault)}`;
    const stack = fault instanceof Error ? (fault.stack ?? '') : '';
    if (held?.why !== why) options.log('error', `the current rules stay in force: ${why}`, { stack });
    state.held = { why };
  }
}

function takeIn({ state, time, options: { source, log } }: SourceLoop): void {
  const knowledge = source.read();
  if (knowledge.kind === 'known') {
    state.held = undefined;
    if (isRefused(state, knowledge.policy, knowledge.revision)) return;
    desire(state, desiredFrom(knowledge, state.desired, time.moment));
    return;
  }
  const { why, code, revision, early } = knowledge;
  if (state.held?.why !== why)
    log(early === true ? 'debug' : 'warn', `the current rules stay in force: ${why}`, { code });
  state.held =
    early === true
      ? undefined
      : { why, ...(code !== undefined && { code }), ...(revision !== undefined && { revision }) };
}

function desire(state: LoopState, desired: DesiredPolicy): void {
  state.desired = desired;
  const { inForce } = state;
  if (inForce?.desired.canonical === desired.canonical) state.inForce = { ...inForce, desired };
}

/**
 * Applies what time does to the policy, whether or not the server can be reached: expired rules match nothing any more,
 * and an unconfirmed trial is undone.
 */
export function followTime({ state, time, options: { log } }: Pick<Loop, 'state' | 'options' | 'time'>): void {
  const { desired: old } = state;
  const { moment } = time;
  const now = moment.at;
  if (old?.policy === undefined || old.changesAt === undefined) return;
  const { origin, policy, own, revision } = old;
  // Isolations end by a time of their own, and the two move apart where a clock is set.
  if (now < old.changesAt && policy.isolation === undefined) return;
  const later = policyAt(policy, now, moment.isolationsAt);
  if (later.policy === policy) return keepWaiting(state, old, now, later.changesAt);
  const endedAt = lastEnd(policy, now);
  if (endedAt !== undefined) time.passed(endedAt);
  const desired = desiredPolicyAt(origin, policy, { ...moment, revision });
  const canonical = samePolicy(old.canonical, desired.canonical) ? old.canonical : desired.canonical;
  const ended = policy.next !== undefined && policy.next.at <= now;
  log('info', ended ? 'a change that was being tried has ended' : 'a rule has expired or an isolation is over', {
    at: new Date(old.changesAt).toISOString(),
  });
  desire(state, { ...desired, canonical, ...(own !== undefined && { own }) });
}

/** Nothing has ended; by a clock that was set, the next end is at another moment than it seemed. */
function keepWaiting(state: LoopState, old: DesiredPolicy, now: number, changesAt: number | undefined): void {
  const { changesAt: before = now } = old;
  if (changesAt === undefined || (now < before && Math.abs(changesAt - before) < jitter)) return;
  desire(state, { ...old, changesAt });
}

/** The policy that is known now. What means the same as before keeps its rules, so that nothing is put in force again. */
export function desiredFrom(
  { policy: known, revision, own }: Extract<Knowledge, { kind: 'known' }>,
  old: DesiredPolicy | undefined,
  moment: PolicyMoment,
): DesiredPolicy {
  const { at } = moment;
  const { policy, changesAt } = policyAt(known, at, moment.isolationsAt);
  const seen = own === undefined ? { revision } : { revision, own };
  const time = { at, changesAt };
  const before = old?.policy;
  const same = before !== undefined && madeOfSameGroups(before, policy);
  if (old !== undefined && same && old.origin === 'server') return { ...old, ...seen };
  const others =
    old !== undefined && old.origin === 'server' && onlyMembersDiffer(before, policy)
      ? withOtherMembers(old, policy, { ...seen, ...time })
      : undefined;
  if (others !== undefined) return others;
  const desired = desiredPolicyAt('server', policy, { ...moment, revision });
  // Groups written otherwise that mean the same change no rule.
  const canonical =
    old !== undefined && samePolicy(old.canonical, desired.canonical) ? old.canonical : desired.canonical;
  return { ...desired, ...seen, canonical };
}

/** Works out what should be in force, and where. A new target is tried at once, whatever happened to the one before. */
export function refreshTarget(state: LoopState, serverAccess: ServerAccess | undefined): void {
  const target = targetOf(state, serverAccess);
  if (target === undefined || target === state.target) return;
  state.target = target;
  state.failures.delete('apply');
}

function targetOf(state: LoopState, serverAccess: ServerAccess | undefined): Target | undefined {
  const { desired, driver, forwarding, settings, target: old } = state;
  if (desired === undefined || driver === undefined) return undefined;
  const { name, neighbourDiscovery } = driver;
  const same =
    old?.policy === desired.canonical &&
    old.interface === name &&
    old.neighbourDiscovery === neighbourDiscovery &&
    old.forwarding === forwarding &&
    old.observe === settings.observe &&
    old.refuseWith === settings.refuseWith &&
    sameServerAccess(old.serverAccess, serverAccess);
  if (same) return old;
  const { canonical: policy, named, membership } = desired;
  return { policy, named, membership, interface: name, neighbourDiscovery, forwarding, serverAccess, ...settings };
}
