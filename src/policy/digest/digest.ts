/** Owns the digest of a policy: 64 hex digits by which two programs check that they have the same rules. */
import type { CanonicalPolicy } from '../canonical.ts';
import { encodePolicy } from './encode.ts';
import { sha256Hex } from '#sha256';

/**
 * SHA-256 over what the policy matches, and not over how that is cut into intervals, layers or sets, nor over who counts
 * packets. Two policies that differ for any packet have one digest only where SHA-256 has a collision (docs/decisions/policy.md).
 */
export const policyDigest = (policy: CanonicalPolicy): string => sha256Hex(encodePolicy(policy));

/** Whether both match the same packets, whatever form they have. */
export const sameDigest = (a: CanonicalPolicy, b: CanonicalPolicy): boolean => policyDigest(a) === policyDigest(b);
