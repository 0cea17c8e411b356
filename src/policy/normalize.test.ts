/** Proves what rules are stored as (reference 1.2 (15)) and that normalizing twice changes nothing. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { writtenRule } from './arbitrary.fixture.ts';
import { countRanges, normalizeRule, normalizeRules } from './normalize.ts';
import type { SecurityRule, StoredRule } from './rule.ts';

const any = { from_port: 0, to_port: 0 };
const dns = { from_port: 53, to_port: 53 };
const v4 = '10.0.0.0/8';
const v6 = 'fd00::/8';

describe('reference 1.2 (15): normalization', () => {
  it.each<[string, SecurityRule, StoredRule[]]>([
    ['tcp stays', { ip_protocol: 'tcp', ...dns }, [{ ip_protocol: 'tcp', ...dns }]],
    [
      'an empty list of ranges stays as it was written',
      { ip_protocol: 'tcp', ...dns, ip_ranges: [] },
      [{ ip_protocol: 'tcp', ...dns, ip_ranges: [] }],
    ],
    [
      'range text is kept as written, trimmed',
      { ip_protocol: 'tcp', ...dns, ip_ranges: [' 10.1.2.3/8 ', '10.0.0.1 - 10.0.0.2'] },
      [{ ip_protocol: 'tcp', ...dns, ip_ranges: ['10.1.2.3/8', '10.0.0.1 - 10.0.0.2'] }],
    ],
    [
      'the expiry stays on both parts of a split rule, as it was written',
      { ip_protocol: 'ip', ...any, ip_ranges: [v4, v6], expires_at: '2030-01-31T12:00:00+02:00' },
      [
        { ip_protocol: 'ipv4', ...any, ip_ranges: [v4], expires_at: '2030-01-31T12:00:00+02:00' },
        { ip_protocol: 'ipv6', ...any, ip_ranges: [v6], expires_at: '2030-01-31T12:00:00+02:00' },
      ],
    ],
    [
      'icmpv4 is icmp',
      { ip_protocol: 'icmpv4', ...any, ip_ranges: [v4] },
      [{ ip_protocol: 'icmp', ...any, ip_ranges: [v4] }],
    ],
    ['icmp without ranges is IPv4', { ip_protocol: 'icmp', ...any }, [{ ip_protocol: 'icmp', ...any }]],
    [
      'icmp with both families becomes icmp and icmpv6',
      { ip_protocol: 'icmp', ...any, ip_ranges: [v6, v4] },
      [
        { ip_protocol: 'icmp', ...any, ip_ranges: [v4] },
        { ip_protocol: 'icmpv6', ...any, ip_ranges: [v6] },
      ],
    ],
    [
      'icmp with IPv6 ranges is icmpv6',
      { ip_protocol: 'icmp', ...any, ip_ranges: [v6] },
      [{ ip_protocol: 'icmpv6', ...any, ip_ranges: [v6] }],
    ],
    [
      'ip with ports becomes tcp and udp',
      { ip_protocol: 'ip', ...dns, ip_ranges: [v4, v6] },
      [
        { ip_protocol: 'tcp', ...dns, ip_ranges: [v4, v6] },
        { ip_protocol: 'udp', ...dns, ip_ranges: [v4, v6] },
      ],
    ],
    [
      'ip without ports becomes ipv4 and ipv6',
      { ip_protocol: 'ip', ...any },
      [
        { ip_protocol: 'ipv4', ...any },
        { ip_protocol: 'ipv6', ...any },
      ],
    ],
    [
      'ip without ports deals the ranges out by family',
      { ip_protocol: 'ip', ...any, ip_ranges: [v6, v4] },
      [
        { ip_protocol: 'ipv4', ...any, ip_ranges: [v4] },
        { ip_protocol: 'ipv6', ...any, ip_ranges: [v6] },
      ],
    ],
    [
      'a family whose ranges are all of the other is left out: it must not become "any"',
      { ip_protocol: 'ip', ...any, ip_ranges: [v4] },
      [{ ip_protocol: 'ipv4', ...any, ip_ranges: [v4] }],
    ],
    ['ipv4 with ports stays', { ip_protocol: 'ipv4', ...dns }, [{ ip_protocol: 'ipv4', ...dns }]],
  ])('%s', (_name, rule, stored) => {
    expect(normalizeRule(rule)).toEqual(stored);
  });

  it('is idempotent, and loses no range', () => {
    fc.assert(
      fc.property(fc.array(writtenRule, { maxLength: 10 }), (rules) => {
        const once = normalizeRules(rules);
        expect(normalizeRules(once)).toEqual(once);
        expect(countRanges(once)).toBeGreaterThanOrEqual(countRanges(rules));
      }),
      { numRuns: 1_000 },
    );
  });
});
