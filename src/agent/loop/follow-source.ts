/** Owns the way from what the source knows to what should be in force. */
import { samePolicy } from '../../policy/same-policy.ts';
import { sameServerAccess, type ServerAccess } from '../../policy/server-access.ts';
import type { Target } from '../kernel/enforcer.ts';
import { madeOfSameGroups } from '../source/peer-devices.ts';
import type { Knowledge } from '../source/policy-source.ts';
import { desiredPolicyFrom, withOtherMembers, type DesiredPolicy } from './desired-policy.ts';
import type { Loop } from './loop.ts';
import { onlyMembersDiffer } from './membership-change.ts';
import type { LoopState } from './state.ts';

/** Takes in what the source knows. While it does not know the policy, the one in force stays. */
export function followSource({ state, options: { source, log } }: Pick<Loop, 'state' | 'options'>): void {
  const knowledge = source.read();
  if (knowledge.kind === 'known') {
    state.held = undefined;
    state.desired = desiredFrom(knowledge, state.desired);
    const { inForce } = state;
    if (inForce?.desired.canonical === state.desired.canonical) state.inForce = { ...inForce, desired: state.desired };
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

/** The policy that is known now. What means the same as before keeps its rules, so that nothing is put in force again. */
export function desiredFrom(
  { policy, revision, own }: Extract<Knowledge, { kind: 'known' }>,
  old: DesiredPolicy | undefined,
): DesiredPolicy {
  const seen = own === undefined ? { revision } : { revision, own };
  const before = old?.policy;
  const same = before !== undefined && madeOfSameGroups(before, policy);
  if (old !== undefined && same && old.origin === 'server') return { ...old, ...seen };
  const others =
    old !== undefined && old.origin === 'server' && onlyMembersDiffer(before, policy)
      ? withOtherMembers(old, policy, seen)
      : undefined;
  if (others !== undefined) return others;
  const desired = desiredPolicyFrom('server', policy, revision);
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
  const { desired, driver, forwarding, target: old } = state;
  if (desired === undefined || driver === undefined) return undefined;
  const { name, neighbourDiscovery } = driver;
  const same =
    old?.policy === desired.canonical &&
    old.interface === name &&
    old.neighbourDiscovery === neighbourDiscovery &&
    old.forwarding === forwarding &&
    sameServerAccess(old.serverAccess, serverAccess);
  if (same) return old;
  const { canonical: policy, named, membership } = desired;
  return { policy, named, membership, interface: name, neighbourDiscovery, forwarding, serverAccess };
}
