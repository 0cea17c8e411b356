/** Owns the proof that a rule which has expired matches nothing, on every road, and still closes outbound. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { packet, policy as anyPolicy } from '../arbitrary.fixture.ts';
import { admits, canonicalize, canonicalizeNames } from '../canonicalize.ts';
import { decide } from '../decide.ts';
import { policyDigest } from '../digest/digest.ts';
import type { EffectivePolicy } from '../effective.ts';
import { guardedPolicy, packetOfFleet } from '../fleet/fleet.fixture.ts';
import { Fleet } from '../fleet/fleet.ts';
import { resolvePolicy } from '../fleet/resolve.ts';
import { voidRules } from '../guardrail/void-rules.ts';
import { parseGroupId } from '../ids.ts';
import type { Packet } from '../packet.ts';
import type { PolicyGroup, StoredRule } from '../rule.ts';
import { samePolicy } from '../same-policy.ts';
import { expiryMoments, policyAt } from './policy-at.ts';
import { parseTimestamp } from './timestamp.ts';

const start = Date.UTC(2030, 0, 1);
const text = (ms: number): string => new Date(start + ms).toISOString();
const rule = (port: number, more: Partial<StoredRule> = {}): StoredRule => ({
  ip_protocol: 'tcp',
  from_port: port,
  to_port: port,
  ...more,
});
const group = (inbound: readonly StoredRule[], outbound: readonly StoredRule[] = []): PolicyGroup => ({
  id: parseGroupId('00000000-0000-4000-8000-000000000001'),
  name: 'web',
  inbound,
  outbound,
});
const of = (...groups: readonly PolicyGroup[]): EffectivePolicy => ({ source: 'list', groups });
const tcp = (direction: Packet['direction'], dport: number): Packet => ({
  direction,
  family: 4,
  remote: 0x0a00_0001n,
  transport: { kind: 'tcp', dport },
  hopLimit: 64,
});

describe('a policy at a moment', () => {
  const policy = of(group([rule(22, { expires_at: text(1_000) }), rule(80), rule(443, { expires_at: text(3_000) })]));

  it('matches with a rule until it expires, and not from that moment on', () => {
    const verdicts = [999, 1_000].map((ms) => decide(policyAt(policy, start + ms).policy, tcp('inbound', 22)).verdict);
    expect(verdicts).toEqual(['accept', 'drop']);
  });

  it('says when it changes next by time alone', () => {
    const next = [0, 1_000, 2_999, 3_000].map((ms) => policyAt(policy, start + ms).changesAt);
    expect(next).toEqual([start + 1_000, start + 3_000, start + 3_000, undefined]);
    expect(expiryMoments(policy.groups[0]?.inbound ?? [])).toEqual([start + 1_000, start + 3_000]);
  });

  it('is the same object while no rule has expired, and the same groups between two moments', () => {
    expect(policyAt(policy, start).policy).toBe(policy);
    const [early, late] = [policyAt(policy, start + 1_000), policyAt(policy, start + 2_000)];
    expect(early.policy.groups[0]).toBe(late.policy.groups[0]);
  });

  it('passes through a second time unchanged', () => {
    const once = policyAt(policy, start + 1_500).policy;
    expect(policyAt(once, start + 1_500).policy).toBe(once);
    expect(policyAt(once, start + 5_000).policy.groups[0]?.inbound.map(({ expired }) => expired)).toEqual([
      true,
      undefined,
      true,
    ]);
  });

  it('keeps outbound closed when its only outbound rule has expired', () => {
    const closed = of(group([], [rule(53, { expires_at: text(1_000) })]));
    const after = policyAt(closed, start + 1_000).policy;
    expect(decide(after, tcp('outbound', 53)).verdict).toBe('drop');
    expect(canonicalize(after).outbound.kind).toBe('closed');
    expect(decide(policyAt(of(group([])), start).policy, tcp('outbound', 53)).verdict).toBe('accept');
  });

  it('names the rule that would have admitted the packet, and no other', () => {
    const { reason } = decide(policyAt(policy, start + 3_000).policy, tcp('inbound', 443));
    expect(reason).toMatchObject({ kind: 'no-rule', expired: [{ kind: 'expired', index: 2 }] });
    expect(decide(policyAt(policy, start + 3_000).policy, tcp('inbound', 25)).reason).toEqual({ kind: 'no-rule' });
  });

  it('ends what a guardrail forbids or requires, too', () => {
    const wide = rule(22, { expires_at: text(1_000) });
    const guarded: EffectivePolicy = {
      ...of(group([rule(22)])),
      guardrails: { forbid: [group([wide])], require: [] },
    };
    const verdict = (ms: number): string => decide(policyAt(guarded, start + ms).policy, tcp('inbound', 22)).verdict;
    expect([verdict(0), verdict(1_000)]).toEqual(['drop', 'accept']);
    expect(voidRules(policyAt(guarded, start).policy).rules).toHaveLength(1);
    expect(voidRules(policyAt(guarded, start + 1_000).policy).rules).toHaveLength(0);
  });

  it('has the digest and the canonical form of the policy whose rule matches nobody', () => {
    const [expired, nobody] = [
      of(group([rule(80)], [rule(25, { expires_at: text(0) })])),
      of(group([rule(80)], [rule(25, { peers: [{ labels: ['none'] }], members: { v4: [], v6: [] } })])),
    ];
    const after = canonicalize(policyAt(expired, start).policy);
    expect(samePolicy(after, canonicalize(nobody))).toBe(true);
    expect(policyDigest(after)).toBe(policyDigest(canonicalize(nobody)));
    expect(policyDigest(canonicalize(expired))).not.toBe(policyDigest(after));
  });

  it('takes an expiry that cannot be read for one that is over', () => {
    expect(decide(policyAt(of(group([rule(22, { expires_at: 'soon' })])), 0).policy, tcp('inbound', 22)).verdict).toBe(
      'drop',
    );
  });
});

/** Some rules of every policy end at one of three moments. */
const withEnds = (all: EffectivePolicy, seed: number): EffectivePolicy => {
  let n = seed;
  const end = (each: StoredRule): StoredRule => {
    n = (n * 1_103_515_245 + 12_345) % 2_147_483_648;
    return n % 3 === 0 ? each : { ...each, expires_at: text((n % 4) * 1_000) };
  };
  const ends = (groups: readonly PolicyGroup[]): readonly PolicyGroup[] =>
    groups.map((each) => ({ ...each, inbound: each.inbound.map(end), outbound: each.outbound.map(end) }));
  const { guardrails } = all;
  return {
    ...all,
    groups: ends(all.groups),
    ...(guardrails && { guardrails: { forbid: ends(guardrails.forbid), require: ends(guardrails.require) } }),
  };
};

/** The meaning of an expired rule expressed differently: the rule names a label that no device carries. */
const withoutExpired = (all: EffectivePolicy, now: number): EffectivePolicy => {
  const nobody = (groups: readonly PolicyGroup[]): readonly PolicyGroup[] =>
    groups.map((each) => {
      const rules = (some: readonly StoredRule[]): readonly StoredRule[] =>
        some.map((one) =>
          one.expires_at !== undefined && (parseTimestamp(one.expires_at) ?? 0) <= now
            ? { ...one, ip_ranges: [], peers: [{ labels: ['nobody'] }], members: { v4: [], v6: [] } }
            : one,
        );
      return { ...each, inbound: rules(each.inbound), outbound: rules(each.outbound) };
    });
  const { guardrails } = all;
  return {
    ...all,
    groups: nobody(all.groups),
    ...(guardrails && { guardrails: { forbid: nobody(guardrails.forbid), require: nobody(guardrails.require) } }),
  };
};

describe('on every road', () => {
  it('decides, canonicalizes and digests as if an expired rule named nobody', () => {
    const resolved = guardedPolicy.map((each) => resolvePolicy(each, new Fleet()));
    const policies = fc.tuple(fc.oneof(anyPolicy, resolved), fc.nat(), fc.integer({ min: -1, max: 4_000 }));
    fc.assert(
      fc.property(policies, fc.array(fc.oneof(packet, packetOfFleet), { maxLength: 20 }), ([plain, seed, ms], some) => {
        const now = start + ms;
        const timed = withEnds(plain, seed);
        const [at, other] = [policyAt(timed, now).policy, withoutExpired(timed, now)];
        const canonical = canonicalize(at);
        expect(policyDigest(canonical)).toBe(policyDigest(canonicalize(other)));
        for (const one of some) {
          const { verdict } = decide(at, one);
          expect(verdict).toBe(decide(other, one).verdict);
          expect(admits(canonical, one)).toBe(verdict === 'accept');
        }
      }),
      { numRuns: 300 },
    );
  });

  it('keeps no name of a rule that has expired', () => {
    const naming = of(
      group([rule(22, { peers: [{ labels: ['db'] }], members: { v4: [], v6: [] }, expires_at: text(0) })]),
    );
    expect(canonicalizeNames(policyAt(naming, start - 1).policy)).toBeDefined();
    expect(canonicalizeNames(policyAt(naming, start).policy)).toBeUndefined();
  });
});
