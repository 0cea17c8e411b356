/** Owns the resolution of rules that name devices into rules with addresses, at one moment of the fleet. */
import type { EffectivePolicy } from '../effective.ts';
import { isRefusal } from '../isolation/isolation.ts';
import type { PolicyIsolation } from '../isolation/policy-isolation.ts';
import type { Members, Peer, PolicyGroup, StoredRule } from '../rule.ts';
import type { Fleet } from './fleet.ts';
import { uniteMembers } from './members.ts';
import { peerKey } from './selector.ts';

/** What is asked of the fleet here. */
export type Membership = Pick<Fleet, 'addressesOf'>;

/** The union of what the peers stand for. */
const membersOf = (peers: readonly Peer[], fleet: Membership): Members =>
  uniteMembers(peers.map((peer) => fleet.addressesOf(peer)));

function resolveRules(rules: readonly StoredRule[], fleet: Membership): readonly StoredRule[] {
  if (rules.every(({ peers }) => peers === undefined)) return rules;
  return rules.map((rule) =>
    rule.peers === undefined || isRefusal(rule) ? rule : { ...rule, members: membersOf(rule.peers, fleet) },
  );
}

export function resolveGroup(group: PolicyGroup, fleet: Membership): PolicyGroup {
  const [inbound, outbound] = [resolveRules(group.inbound, fleet), resolveRules(group.outbound, fleet)];
  return inbound === group.inbound && outbound === group.outbound ? group : { ...group, inbound, outbound };
}

/**
 * The same policy with the current addresses of all peers. A rule whose peers have no address admits nothing, but it is
 * still a rule, so outbound stays closed.
 */
export function resolvePolicy(policy: EffectivePolicy, fleet: Membership): EffectivePolicy {
  const resolve = (groups: readonly PolicyGroup[]): readonly PolicyGroup[] =>
    groups.map((group) => resolveGroup(group, fleet));
  const { guardrails, isolation, next } = policy;
  return {
    ...policy,
    groups: resolve(policy.groups),
    ...(guardrails && { guardrails: { forbid: resolve(guardrails.forbid), require: resolve(guardrails.require) } }),
    ...(isolation && { isolation: resolveIsolation(isolation, fleet) }),
    ...(next && { next: { at: next.at, policy: resolvePolicy(next.policy, fleet) } }),
  };
}

/** The same isolation with the addresses of those that it allows, as they are now. */
export const resolveIsolation = (isolation: PolicyIsolation, fleet: Membership): PolicyIsolation =>
  isolation.own === undefined
    ? isolation
    : { ...isolation, own: { ...isolation.own, members: membersOf(isolation.own.allow, fleet) } };

/** Every peer that the policy names, each once: whose devices an enforcer must follow. */
export function peersOf({ groups, guardrails, isolation, next }: EffectivePolicy): readonly Peer[] {
  const peers = new Map<string, Peer>();
  for (const peer of isolation?.own?.allow ?? []) peers.set(peerKey(peer), peer);
  for (const peer of next === undefined ? [] : peersOf(next.policy)) peers.set(peerKey(peer), peer);
  for (const { inbound, outbound } of [...groups, ...(guardrails?.forbid ?? []), ...(guardrails?.require ?? [])]) {
    for (const rule of [...inbound, ...outbound]) {
      for (const peer of rule.peers ?? []) peers.set(peerKey(peer), peer);
    }
  }
  return [...peers.values()];
}
