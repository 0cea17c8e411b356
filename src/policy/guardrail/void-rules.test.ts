/** Proves what guardrails take away from groups: exactly the rules that can admit nothing any more. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decide } from '../decide.ts';
import type { EffectivePolicy } from '../effective.ts';
import { device, guardedPolicy, packetOfFleet } from '../fleet/fleet.fixture.ts';
import { Fleet } from '../fleet/fleet.ts';
import { resolvePolicy } from '../fleet/resolve.ts';
import { parseGroupId } from '../ids.ts';
import { ruleAdmits } from '../match.ts';
import { normalizeRules } from '../normalize.ts';
import type { PolicyGroup, SecurityRule } from '../rule.ts';
import { forbidsEverything, voidRules } from './void-rules.ts';

const group = (n: number, inbound: readonly SecurityRule[], outbound: readonly SecurityRule[] = []): PolicyGroup => ({
  id: parseGroupId(`00000000-0000-4000-8000-${String(n).padStart(12, '0')}`),
  name: `group ${n}`,
  inbound: normalizeRules(inbound),
  outbound: normalizeRules(outbound),
});
const rule = (
  ip_protocol: SecurityRule['ip_protocol'],
  from_port: number,
  to_port: number,
  ...ip_ranges: string[]
): SecurityRule => ({
  ip_protocol,
  from_port,
  to_port,
  ...(ip_ranges.length > 0 && { ip_ranges }),
});

describe('a guardrail that forbids', () => {
  it.each<[string, PolicyGroup, readonly string[]]>([
    ['every address of both families', group(1, [rule('ip', 0, 0)]), ['inbound']],
    [
      'both halves of both families',
      group(1, [], [rule('ip', 0, 0, '0.0.0.0/1', '128.0.0.0/1', '::/0')]),
      ['outbound'],
    ],
    ['one family', group(1, [rule('ipv4', 0, 0)], [rule('ipv6', 0, 0)]), []],
    ['every port of tcp', group(1, [rule('tcp', 0, 0)]), []],
    ['all devices', group(1, [{ ...rule('ip', 0, 0), peers: [{ all_devices: true }] }]), []],
  ])('%s leaves nothing of: %s', (_, forbid, directions) => {
    expect(forbidsEverything(forbid)).toEqual(directions);
  });
});

describe('a rule of a group', () => {
  const forbid = group(9, [rule('tcp', 1, 1_023), rule('tcp', 1_024, 2_000, '10.0.0.0/8'), rule('icmp', 0, 0)]);
  const policy = (...rules: readonly SecurityRule[]): EffectivePolicy => ({
    source: 'list',
    groups: [group(1, rules, rules)],
    guardrails: { forbid: [forbid], require: [] },
  });

  it('is void where guardrails forbid all that it matches, and told with its place', () => {
    const { rules, complete } = voidRules(
      policy(
        rule('tcp', 22, 22),
        rule('tcp', 22, 2_000, '10.1.0.0/16'),
        rule('tcp', 22, 2_001, '10.1.0.0/16'),
        rule('tcp', 22, 1_024, '10.0.0.0/8', '11.0.0.1'),
        rule('udp', 22, 22),
        rule('icmp', 0, 0, '192.0.2.1'),
        rule('icmpv6', 0, 0),
      ),
    );
    expect(complete).toBe(true);
    expect(rules.map(({ direction, index }) => `${direction} ${index}`)).toEqual([
      'inbound 0',
      'inbound 1',
      'inbound 5',
    ]);
  });

  it('that is void admits no packet', () => {
    fc.assert(
      fc.property(
        fc.array(device, { maxLength: 8 }),
        guardedPolicy,
        fc.array(packetOfFleet, { minLength: 20, maxLength: 40 }),
        (devices, drawn, packets) => {
          const resolved = resolvePolicy(drawn, new Fleet(devices));
          const isVoid = new Set(voidRules(resolved).rules.map((each) => each.rule));
          for (const packet of packets) {
            const decision = decide(resolved, packet);
            for (const each of resolved.groups.flatMap(({ inbound, outbound }) =>
              packet.direction === 'inbound' ? inbound : outbound,
            )) {
              if (ruleAdmits(each, packet) && isVoid.has(each)) expect(decision.reason.kind).toBe('forbid');
            }
          }
        },
      ),
    );
  });

  it('is judged as far as the work goes that may be spent on it', () => {
    const judged = policy(rule('tcp', 22, 22), rule('tcp', 23, 23));
    expect(voidRules(judged, 10)).toMatchObject({ rules: [{ index: 0 }], complete: false });
    expect(voidRules(judged, 500)).toMatchObject({ rules: [{ index: 0 }, { index: 1 }], complete: true });
  });
});
