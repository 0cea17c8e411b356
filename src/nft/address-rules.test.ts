/** Proves the rules about addresses: trees of ports, short lists without sets, and how little the worst policies become. */
import { describe, expect, test } from 'vitest';
import { canonicalize } from '../policy/canonicalize.ts';
import { worstPolicy, worstShapes } from '../policy/worst-policies.fixture.ts';
import { makesSet } from './ast.ts';
import { compile } from './compile.ts';
import { parseInterfaceName } from './names.ts';
import { policyOf, written } from './policies.fixture.ts';
import { readable } from './readable.fixture.ts';
import { mostSetsByDefault } from './set-budget.ts';

const options = { interface: parseInterfaceName('wg0'), neighbourDiscovery: false };

describe('the rules about addresses', () => {
  test('looks ports up layer by layer, and then the ports of each address, where intervals would explode', () => {
    const somebody = { v4: [], v6: [{ first: 7n, last: 7n }] };
    const none = { v4: [], v6: [] };
    const hosts = [1, 2, 3, 4, 5].map((n) => ({ first: BigInt(n), last: BigInt(n), from: n, to: 90 }));
    const ports = {
      kind: 'tree' as const,
      layers: [
        [
          { from: 1, to: 90, shares: [{ v4: hosts, v6: [{ first: 8n, last: 9n, from: 5, to: 5 }] }] },
          { from: 91, to: 91, addresses: somebody },
        ],
        [{ from: 80, to: 80, addresses: somebody }],
      ],
    };
    const closed = { kind: 'closed' as const, any: none, echo: none };
    const nothing = { anyPort: none, ports: { kind: 'intervals' as const, intervals: [] } };
    const inbound = { ...closed, tcp: { anyPort: none, ports }, udp: nothing };
    expect(readable(compile({ inbound, outbound: { kind: 'open' } }, options))).toBe(
      `service-inbound:
  iifname "wg0" ct state established,related counter name in-established accept
  iifname "wg0" jump inbound-1
  iifname "wg0" counter name in-refused continue
  iifname "wg0" drop
service-outbound:
inbound-1:
  meta l4proto vmap { 6 : goto tcp-2 }
tcp-2:
  tcp dport vmap { 1-90 : jump tree-3, 91 : jump from-4 }
  tcp dport vmap { 80 : jump from-4 }
from-4:
  ip6 saddr ::7 accept
tree-3:
  ip saddr vmap { 0.0.0.1 : jump ports-5, 0.0.0.2 : jump ports-6, 0.0.0.3 : jump ports-7, 0.0.0.4 : jump ports-8, 0.0.0.5 : jump ports-9 }
  ip6 saddr ::8/127 th dport 5 accept
ports-9:
  th dport 5-90 accept
ports-8:
  th dport 4-90 accept
ports-7:
  th dport 3-90 accept
ports-6:
  th dport 2-90 accept
ports-5:
  th dport 1-90 accept`,
    );
  });

  test('writes short lists as rules where there would be too many sets, and long ones as sets', () => {
    const policy = policyOf([
      written('tcp', 22, 22, '10.0.0.1', '10.0.0.3'),
      written('tcp', 80, 80, '10.0.0.1', '10.0.0.3', '10.0.0.5'),
    ]);
    const leaves = (mostSets: number): string[] =>
      readable(compile(policy, { ...options, mostSets }))
        .split('\n')
        .filter((line) => line.includes('saddr'));
    const counted = 'counter name in-group1 accept';
    const three = `  ip saddr { 10.0.0.1, 10.0.0.3, 10.0.0.5 } ${counted}`;
    expect(leaves(2)).toEqual([three, `  ip saddr { 10.0.0.1, 10.0.0.3 } ${counted}`]);
    expect(leaves(1)).toEqual([three, `  ip saddr 10.0.0.1 ${counted}`, `  ip saddr 10.0.0.3 ${counted}`]);
    expect(leaves(0).filter((line) => line.includes('{'))).toEqual([]);
  });
});

describe('the worst policies that limits admit', () => {
  test.each(Object.entries(worstShapes))('stay within a few times the ranges they name: %s', (_, shape) => {
    const policy = worstPolicy(shape);
    const rules = policy.groups.flatMap(({ inbound, outbound }) => [...inbound, ...outbound]);
    const named = rules.reduce((sum, { ip_ranges }) => sum + (ip_ranges?.length ?? 0), 0);
    // What is said of TCP and of UDP counts twice.
    const both = rules.some(({ ip_protocol, to_port }) => ip_protocol.startsWith('ipv') && to_port > 0) ? 2 : 1;
    const { helpers } = compile(canonicalize(policy), options);
    const compiled = helpers.flatMap(({ rules: list }) => list);
    const elements = compiled.reduce(
      (sum, { matches, action }) =>
        sum +
        ('entries' in action ? action.entries.length : 0) +
        matches.reduce((ranges, match) => ranges + (match.kind === 'address' ? match.ranges.length : 0), 0),
      0,
    );
    const most = 3 * both * (named + rules.length);
    expect(elements).toBeLessThanOrEqual(most);
    expect(helpers.length).toBeLessThanOrEqual(most);
    expect(compiled.length).toBeLessThanOrEqual(most);
    expect(compiled.filter(makesSet).length).toBeLessThanOrEqual(mostSetsByDefault + 100);
  });
});
