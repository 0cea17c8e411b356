/** Owns what the agent is charged with: a policy, where it came from, and what it starts with before anybody is asked. */
import type { Decompiled } from '../../nft/decompile.ts';
import type { CanonicalPolicy } from '../../policy/canonical.ts';
import { canonicalize } from '../../policy/canonicalize.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { samePolicy } from '../../policy/same.ts';
import type { Driver } from '../host/driver-interface.ts';
import type { KeptPolicy } from '../state/last-good-policy.ts';
import type { Read } from '../state/state-folder.ts';

export interface Charge {
  /** The server says so; it is kept from the last time; the kernel enforces it already; nobody has said anything yet. */
  readonly origin: 'server' | 'kept' | 'kernel' | 'first';
  readonly canonical: CanonicalPolicy;
  /** Absent where only the rules are known. */
  readonly policy?: EffectivePolicy;
  readonly revision?: number;
  /** Revision of the device's own record that it reflects. */
  readonly own?: number;
}

export const chargeOf = (origin: Charge['origin'], policy: EffectivePolicy, revision?: number): Charge => ({
  origin,
  policy,
  canonical: canonicalize(policy),
  ...(revision === undefined ? {} : { revision }),
});

/** What holds until the first policy: nothing new comes in over the driver interface, everything goes out. */
export const closedCharge: Charge = chargeOf('first', { source: 'list', groups: [] });

export type UntilFirstPolicy = 'closed' | 'open';

export interface Found {
  readonly kept: Read;
  readonly intent: Read;
  /** What the kernel enforces; absent where our table is not there. */
  readonly kernel: Decompiled | undefined;
  readonly driver: Driver | undefined;
  readonly untilFirstPolicy: UntilFirstPolicy;
}

export interface Beginning {
  readonly charge: Charge | undefined;
  /** The kernel's rules are newer than what is kept, and connections may stand on the older policy still. */
  readonly unrevoked?: CanonicalPolicy;
  /** For the log. */
  readonly notes: readonly string[];
}

const isEnforced = (kernel: Decompiled | undefined, { policy, interface: name }: KeptPolicy): boolean => {
  const enforced = kernel?.enforced;
  if (enforced === undefined) return false;
  return (
    (enforced.interface === undefined || enforced.interface === name) &&
    samePolicy(enforced.policy, canonicalize(policy))
  );
};

/**
 * What to enforce before the server is asked. The last good policy, unless the kernel shows that the next one was put in
 * force just before the end. A damaged file counts as absent, and then what the kernel has stays.
 */
export function beginning({ kept, intent, kernel, driver, untilFirstPolicy }: Found): Beginning {
  const notes = Object.entries({ policy: kept, intent }).flatMap(([name, read]) =>
    read.kind === 'bad' ? [`the kept ${name} is damaged and ignored: ${read.why}`] : [],
  );
  if (intent.kind === 'kept' && isEnforced(kernel, intent.kept)) {
    const charge = chargeOf('kept', intent.kept.policy, intent.kept.revision);
    if (kept.kind !== 'kept') return { charge, notes };
    return { charge, unrevoked: canonicalize(kept.kept.policy), notes };
  }
  if (kept.kind === 'kept') return { charge: chargeOf('kept', kept.kept.policy, kept.kept.revision), notes };
  const enforced = kernel?.enforced;
  // A table that binds no interface, or another one, protects nothing here. One that admits everything names none.
  if (enforced !== undefined && enforced.interface !== undefined && enforced.interface === driver?.name) {
    const note = 'no policy is kept: what the kernel enforces stays in force';
    return { charge: { origin: 'kernel', canonical: enforced.policy }, notes: [...notes, note] };
  }
  if (untilFirstPolicy === 'open') return { charge: undefined, notes: [...notes, 'no policy is known yet: open'] };
  return { charge: closedCharge, notes: [...notes, 'no policy is known yet: inbound is closed'] };
}
