/**
 * Owns the computation of one digest: from group records as text, and the devices that rules may name, to 64 hex
 * digits. It has no side effects and runs in any thread.
 */
import { stateWithHash } from '../../organization/group-rules.ts';
import { canonicalize } from '../../policy/canonicalize.ts';
import { policyDigest } from '../../policy/digest/digest.ts';
import { readGroupRecord } from '../../policy/fleet/group-record.ts';
import { resolvePolicy, type Membership } from '../../policy/fleet/resolve.ts';
import type { PolicyIsolation } from '../../policy/isolation/policy-isolation.ts';
import type { PolicyGroup } from '../../policy/rule.ts';
import { policyAt } from '../../policy/time/policy-at.ts';

/** A record, and the hash that its rules must have. */
export interface DigestGroup {
  readonly json: string;
  readonly hash: string;
}

/** A policy at a moment. */
export interface WantedPolicy {
  readonly groups: readonly DigestGroup[];
  /** The isolation that concerns the device. */
  readonly isolation?: PolicyIsolation | undefined;
  readonly at: number;
}

/** Undefined where a group is not the one that was meant. */
export function digestOf({ groups: wanted, isolation, at }: WantedPolicy, fleet: Membership): string | undefined {
  const all: PolicyGroup[] = [];
  for (const { json, hash } of wanted) {
    const state = stateWithHash(JSON.parse(json) as object, hash);
    if (state === undefined) return undefined;
    all.push(readGroupRecord(state));
  }
  const of = (kind: PolicyGroup['guardrail']): readonly PolicyGroup[] =>
    all.filter(({ guardrail }) => guardrail === kind);
  const [groups, forbid, require] = [of(undefined), of('forbid'), of('require')];
  const guardrails = forbid.length + require.length === 0 ? {} : { guardrails: { forbid, require } };
  const { policy } = policyAt({ source: 'list', groups, ...guardrails, ...(isolation && { isolation }) }, at);
  return policyDigest(canonicalize(resolvePolicy(policy, fleet)));
}
