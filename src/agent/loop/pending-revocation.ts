/** Owns pending revocations: the narrowed policies whose connections the agent has not yet checked. */
import type { CanonicalPolicy } from '../../policy/canonical.ts';
import type { FarEnd } from '../host/flow-table.ts';

export interface PendingRevocation {
  /** Policies that were in force, each just before it was narrowed: a connection may stand on any of them. */
  readonly before: readonly CanonicalPolicy[];
  /** The only far ends that may have lost anything since then; absent where it may be anybody. */
  readonly remotes: readonly FarEnd[] | undefined;
}

/** From so many policies on, connections are looked at before anything else is put in force. */
export const mostPolicies = 8;
/** More far ends than this are not worth a list of their own. */
const mostRemotes = 64;

/** Replaces a list of policies that is too long to keep: it admits everything that they admitted. */
export const everything: CanonicalPolicy = { inbound: { kind: 'open' }, outbound: { kind: 'open' } };

/** Whether another narrowing is better not waited for. */
export const isUrgent = (pending: PendingRevocation | undefined): boolean =>
  pending !== undefined && (pending.before.length >= mostPolicies || pending.before.includes(everything));

/** The list with one more policy; never longer than is good for the memory, and never one that forgets what was admitted. */
export function withPolicy(policies: readonly CanonicalPolicy[], policy: CanonicalPolicy): readonly CanonicalPolicy[] {
  if (policies.includes(policy) || policies.includes(everything)) return policies;
  return policies.length < mostPolicies ? [...policies, policy] : [everything];
}

const uniqueFarEnds = (ends: readonly FarEnd[]): readonly FarEnd[] => [
  ...new Map(ends.map((end) => [`${end.direction} ${end.address}`, end])).values(),
];

/** What is to be looked at once this policy was narrowed too, for these far ends. */
export function withNarrowed(
  pending: PendingRevocation | undefined,
  policy: CanonicalPolicy,
  remotes: readonly FarEnd[] | undefined,
): PendingRevocation {
  const waiting = pending === undefined ? [] : pending.remotes;
  const all = waiting && remotes && uniqueFarEnds([...waiting, ...remotes]);
  return {
    before: withPolicy(pending?.before ?? [], policy),
    remotes: all && all.length <= mostRemotes ? all : undefined,
  };
}
