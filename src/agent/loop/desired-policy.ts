/** Owns the desired policy: what the agent should enforce, and its origin. */
import type { CanonicalPolicy } from '../../policy/canonical.ts';
import { canonicalize, canonicalizeNames } from '../../policy/canonicalize.ts';
import type { MembersByKey } from '../../nft/compile/peer-maps.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { peersKey } from '../../policy/fleet/selector.ts';
import { withIsolation } from '../../policy/isolation/isolation.ts';
import type { Members } from '../../policy/rule.ts';
import { policyAt } from '../../policy/time/policy-at.ts';
import type { Membership } from '../kernel/member-update.ts';
import type { PolicyMoment } from './policy-clock.ts';

export interface DesiredPolicy {
  /**
   * The server says so; it is kept from the last run; the kernel enforces it already; no policy was ever known; one was, and cannot be read
   * any more.
   */
  readonly origin: 'server' | 'kept' | 'kernel' | 'first' | 'lost';
  readonly canonical: CanonicalPolicy;
  /** The same by names, where rules name devices. */
  readonly named?: CanonicalPolicy | undefined;
  /** Who is named there. */
  readonly membership?: Membership | undefined;
  /** Absent where only the rules are known. */
  readonly policy?: EffectivePolicy;
  readonly revision?: number;
  /** Revision of the device's own record that it reflects. */
  readonly own?: number;
  /** The moment that it is of, in milliseconds since the epoch; absent where no policy is known. */
  readonly at?: number;
  /** When it changes next by time alone; absent where it never does. */
  readonly changesAt?: number;
}

/** Everybody whom rules of the policy name, by the key of the peers. */
function membersByKey(policy: EffectivePolicy): MembersByKey {
  const { groups, guardrails } = withIsolation(policy);
  const found = new Map<string, Members>();
  for (const { inbound, outbound } of [...groups, ...(guardrails?.forbid ?? []), ...(guardrails?.require ?? [])]) {
    for (const rules of [inbound, outbound]) {
      for (const { peers, members, expired } of rules) {
        if (peers !== undefined && members !== undefined && expired !== true) found.set(peersKey(peers), members);
      }
    }
  }
  return found;
}

/** What is desired of a policy at a moment: what time does to it is part of it. */
export function desiredPolicyAt(
  origin: DesiredPolicy['origin'],
  known: EffectivePolicy,
  { at, isolationsAt, revision }: PolicyMoment & { readonly revision?: number | undefined },
): DesiredPolicy {
  const { policy, changesAt } = policyAt(known, at, isolationsAt);
  return { ...desiredPolicyFrom(origin, policy, revision), at, ...(changesAt !== undefined && { changesAt }) };
}

/** What is desired of a policy of one moment, or of one that time does not change. */
function desiredPolicyFrom(origin: DesiredPolicy['origin'], policy: EffectivePolicy, revision?: number): DesiredPolicy {
  const named = canonicalizeNames(policy);
  return {
    origin,
    policy,
    canonical: canonicalize(policy),
    ...(named && { named, membership: { form: named, members: membersByKey(policy) } }),
    ...(revision === undefined ? {} : { revision }),
  };
}

/** A canonical form that is worked out when somebody looks at it. */
class LazyPolicy implements CanonicalPolicy {
  readonly #make: () => CanonicalPolicy;
  #made: CanonicalPolicy | undefined;

  constructor(make: () => CanonicalPolicy) {
    this.#make = make;
  }

  get inbound(): CanonicalPolicy['inbound'] {
    return (this.#made ??= this.#make()).inbound;
  }
  get outbound(): CanonicalPolicy['outbound'] {
    return (this.#made ??= this.#make()).outbound;
  }
}

/**
 * The desired policy once others are named and nothing else has changed, at the cost of the number of rules: nothing that grows with the
 * number of devices or of ranges is looked at. Nothing where the policy is not enforced by names.
 */
export function withOtherMembers(
  { origin, membership: before, own: ownBefore }: DesiredPolicy,
  policy: EffectivePolicy,
  {
    revision,
    own = ownBefore,
    at,
    changesAt,
  }: { readonly revision: number; readonly own?: number; readonly at: number; readonly changesAt: number | undefined },
): DesiredPolicy | undefined {
  if (before === undefined) return undefined;
  const { form } = before;
  const membership: Membership = { form, members: membersByKey(policy) };
  const canonical = new LazyPolicy(() => canonicalize(policy));
  const named = new LazyPolicy(() => canonicalizeNames(policy) ?? form);
  // Written out: to spread others into it takes longer than all else here.
  const desired: { -readonly [F in keyof DesiredPolicy]: DesiredPolicy[F] } = {
    origin,
    policy,
    canonical,
    named,
    membership,
    revision,
    at,
  };
  if (own !== undefined) desired.own = own;
  if (changesAt !== undefined) desired.changesAt = changesAt;
  return desired;
}

/** What holds until the first policy: nothing new comes in over the driver interface, everything goes out. */
export const closedPolicy: DesiredPolicy = desiredPolicyFrom('first', { source: 'list', groups: [] });

const { inbound: nothing } = closedPolicy.canonical;

/** What holds where a policy was known and cannot be read any more: nothing passes in either direction but the way to the server. */
export const lostPolicy: DesiredPolicy = { origin: 'lost', canonical: { inbound: nothing, outbound: nothing } };
