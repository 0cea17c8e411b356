/** Proves the rules about addresses: trees of ports, short lists without sets, and how little the worst policies become. */
import { describe, expect, test } from 'vitest';
import { sample } from '../../../test/lib/thorough.ts';
import type { PortMap } from '../../policy/canonical.ts';
import { canonicalize } from '../../policy/canonicalize.ts';
import { worstPolicy, worstShapes } from '../../policy/worst-policies.fixture.ts';
import { makesSet } from '../ast.ts';
import { compile, type CompileOptions } from './compile.ts';
import { parseInterfaceName } from '../names.ts';
import { policyOf, written } from '../policies.fixture.ts';
import { readable } from './readable.fixture.ts';
import { mostSetsByDefault } from './set-budget.ts';

const options = { interface: parseInterfaceName('wg0'), neighbourDiscovery: false };

describe('the rules about addresses', () => {
  const none = { v4: [], v6: [] };
  const nothing = { anyPort: none, ports: { kind: 'intervals' as const, intervals: [] } };

  /** The chain that distinguishes these TCP ports, and the chains below it. */
  function byPort(ports: PortMap, more: Partial<CompileOptions> = {}): string {
    const closed = { kind: 'closed' as const, any: none, echo: none };
    const inbound = { ...closed, tcp: { anyPort: none, ports }, udp: nothing };
    const text = readable(compile({ inbound, outbound: { kind: 'open' } }, { ...options, ...more }));
    return text.slice(text.indexOf('inbound-1:'));
  }

  const host = (n: number, from: number, to: number) => ({ first: BigInt(n), last: BigInt(n), from, to });

  test('look ports up layer by layer, and then the ports of each address', () => {
    const somebody = { v4: [], v6: [{ first: 7n, last: 7n }] };
    const hosts = [host(1, 1, 90), host(3, 2, 90), host(5, 1, 90), host(7, 2, 90), host(9, 1, 90)];
    const shares = [{ v4: hosts, v6: [{ first: 8n, last: 9n, from: 5, to: 5 }] }];
    const layers = [
      [
        { from: 1, to: 90, shares },
        { from: 91, to: 91, addresses: somebody },
      ],
      [{ from: 80, to: 80, addresses: somebody }],
    ];
    expect(byPort({ kind: 'tree', layers })).toBe(
      `inbound-1:
  tcp dport vmap { 1-90 : jump tree-2, 91 : jump from-3 }
  tcp dport 80 jump from-3
from-3:
  ip6 saddr ::7 accept
tree-2:
  ip saddr vmap { 0.0.0.1 : jump ports-4, 0.0.0.3 : jump ports-5, 0.0.0.5 : jump ports-4, 0.0.0.7 : jump ports-5, 0.0.0.9 : jump ports-4 }
  ip6 saddr ::8/127 th dport 5 accept
ports-5:
  th dport 2-90 accept
ports-4:
  th dport 1-90 accept`,
    );
  });

  test('bundle neighbours where each address has ports of its own', () => {
    const hosts = [1, 3, 5, 7, 9].map((n) => host(n, n, 90));
    const layers = [[{ from: 1, to: 90, shares: [{ v4: hosts, v6: [] }] }]];
    expect(byPort({ kind: 'tree', layers })).toBe(
      `inbound-1:
  tcp dport 1-90 jump tree-2
tree-2:
  ip saddr vmap { 0.0.0.1-0.0.0.9 : jump bundle-3 }
bundle-3:
${[1, 3, 5, 7, 9].map((n) => `  ip saddr 0.0.0.${n} th dport ${n}-90 accept`).join('\n')}`,
    );
  });

  test('bundle ports by blocks of 16 where very many have small chains of their own', () => {
    const intervals = [14, 15, 16, 17].map((port) => ({
      from: port,
      to: port,
      addresses: { v4: [{ first: BigInt(port), last: BigInt(port) }], v6: [] },
    }));
    expect(byPort({ kind: 'intervals', intervals }, { mostAlone: 3 })).toBe(
      `inbound-1:
  tcp dport vmap { 14-15 : goto bundle-2, 16-17 : goto bundle-3 }
bundle-3:
  ip saddr 0.0.0.16 th dport 16 accept
  ip saddr 0.0.0.17 th dport 17 accept
bundle-2:
  ip saddr 0.0.0.14 th dport 14 accept
  ip saddr 0.0.0.15 th dport 15 accept`,
    );
    expect(byPort({ kind: 'intervals', intervals }, { mostAlone: 4 })).toContain('14 : goto from-');
  });

  test('stand below one map of ports for both protocols where that is large and says the same of both', () => {
    const policy = policyOf([written('ipv4', 22, 22, '10.0.0.1'), written('ipv4', 80, 80, '10.0.0.3')]);
    const text = (fewestInCommon: number): string => readable(compile(policy, { ...options, fewestInCommon }));
    expect(text(2)).toContain('meta l4proto vmap { 6 : goto transport-2, 17 : goto transport-2 }');
    expect(text(2)).toContain('transport-2:\n  th dport vmap { 22 : goto from-3, 80 : goto from-4 }');
    expect(text(3)).toContain('meta l4proto vmap { 6 : goto tcp-2, 17 : goto udp-2 }');
    const other = policyOf([written('ipv4', 22, 22, '10.0.0.1'), written('tcp', 80, 80, '10.0.0.3')]);
    expect(readable(compile(other, { ...options, fewestInCommon: 1 }))).not.toContain('transport-');
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
  test.each(sample(Object.entries(worstShapes), 2))(
    'stay within a few times the ranges they name: %s',
    (_, shape) => {
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
    },
    120_000,
  );
});
