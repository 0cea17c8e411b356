/** Owns the desired policy: what the agent should enforce, and where it came from. */
import type { CanonicalPolicy } from '../../policy/canonical.ts';
import { canonicalize, canonicalizeNames } from '../../policy/canonicalize.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';

export interface DesiredPolicy {
  /** The server says so; it is kept from the last run; the kernel enforces it already; nobody has said anything yet. */
  readonly origin: 'server' | 'kept' | 'kernel' | 'first';
  readonly canonical: CanonicalPolicy;
  /** The same by names, where rules name devices. */
  readonly named?: CanonicalPolicy | undefined;
  /** Absent where only the rules are known. */
  readonly policy?: EffectivePolicy;
  readonly revision?: number;
  /** Revision of the device's own record that it reflects. */
  readonly own?: number;
}

export const desiredPolicyFrom = (
  origin: DesiredPolicy['origin'],
  policy: EffectivePolicy,
  revision?: number,
): DesiredPolicy => ({
  origin,
  policy,
  canonical: canonicalize(policy),
  named: canonicalizeNames(policy),
  ...(revision === undefined ? {} : { revision }),
});

/** What holds until the first policy: nothing new comes in over the driver interface, everything goes out. */
export const closedPolicy: DesiredPolicy = desiredPolicyFrom('first', { source: 'list', groups: [] });
