/** Proves the layout of compiled rulesets: small ones by their exact text, all of them by what must hold in each. */
import * as fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { rounds } from '../../../test/lib/thorough.ts';
import { accept, makesSet, rule, targets, type Ruleset } from '../ast.ts';
import { compile } from './compile.ts';
import { helperName, type HelperPurpose } from './helpers.ts';
import { canonicalize } from '../../policy/canonicalize.ts';
import { parseGroupId } from '../../policy/ids.ts';
import { defaultInboundRules, type StoredRule } from '../../policy/rule.ts';
import { parseInterfaceName } from '../names.ts';
import { install } from '../plan/plan.ts';
import { canonicalPolicy, recorderOptions, defaultPolicy, policyOf, rangesOf, written } from '../policies.fixture.ts';
import { printCommands } from '../print.ts';
import { readable } from './readable.fixture.ts';

const options = { interface: parseInterfaceName('wg0'), neighbourDiscovery: false };

describe('the compiled ruleset', () => {
  test('of the default group is literally the chain of reference 1.2 (10), and outbound has no rules (1.2 (9))', () => {
    expect(printCommands(install(compile(defaultPolicy, { ...options, neighbourDiscovery: true })))).toBe(
      [
        'add table inet service',
        'add chain inet service service-inbound { type filter hook input priority filter; policy accept; }',
        'add rule inet service service-inbound iifname "wg0" ct state established,related accept',
        'add rule inet service service-inbound iifname "wg0" icmpv6 type { echo-request, echo-reply } accept',
        'add rule inet service service-inbound iifname "wg0" icmp type { echo-reply, echo-request } accept',
        'add rule inet service service-inbound iifname "wg0" meta nfproto ipv4 accept',
        'add rule inet service service-inbound iifname "wg0" meta nfproto ipv6 accept',
        'add rule inet service service-inbound iifname "wg0" drop',
        'add chain inet service service-outbound { type filter hook output priority filter; policy accept; }',
        '',
      ].join('\n'),
    );
  });

  test('of no inbound rules admits established traffic only, and discovery where the link needs it', () => {
    expect(readable(compile(policyOf([]), { ...options, neighbourDiscovery: true }))).toBe(
      `service-inbound:
  iifname "wg0" ct state established,related counter name in-established accept
  iifname "wg0" meta l4proto 58 jump discovery-1
  iifname "wg0" counter name in-refused continue
  iifname "wg0" drop
service-outbound:
discovery-1:
  icmpv6 type 133-136 ip6 hoplimit 255 counter name in-discovery accept
  icmpv6 type 130-132 ip6 hoplimit 1 counter name in-discovery accept
  icmpv6 type 143 ip6 hoplimit 1 counter name in-discovery accept`,
    );
  });

  test('parts protocols, then ports, then addresses, and shares equal address sets', () => {
    const policy = policyOf(
      [
        written('tcp', 22, 22, '10.0.0.0/8', '192.168.0.1-192.168.0.9', 'fd00::/8'),
        written('tcp', 80, 84),
        written('udp', 53, 53, 'fd00::/8', '10.0.0.0/8', '192.168.0.1-192.168.0.9'),
        written('ipv4', 0, 0, '172.16.0.1'),
        written('icmp', 0, 0),
        written('icmpv6', 0, 0, 'fe80::1'),
      ],
      [written('udp', 0, 0), written('tcp', 0, 0, '10.9.0.0/16'), written('tcp', 443, 443)],
    );
    expect(readable(compile(policy, options))).toBe(
      `service-inbound:
  iifname "wg0" ct state established,related counter name in-established accept
  iifname "wg0" jump inbound-1
  iifname "wg0" counter name in-refused continue
  iifname "wg0" drop
service-outbound:
  oifname "wg0" ct state established,related counter name out-established accept
  oifname "wg0" jump outbound-2
  oifname "wg0" counter name out-refused continue
  oifname "wg0" drop
outbound-2:
  meta l4proto vmap { 6 : goto tcp-3, 17 : goto to-4 }
to-4:
  counter name out-group1 accept
tcp-3:
  jump to-5
  th dport 443 counter name out-group1 accept
to-5:
  ip daddr 10.9.0.0/16 counter name out-group1 accept
inbound-1:
  jump from-6
  meta l4proto vmap { 1 : goto ping-7, 6 : goto tcp-8, 17 : goto udp-9, 58 : goto ping6-10 }
ping6-10:
  icmpv6 type { echo-request, echo-reply } goto from-11
from-11:
  ip6 saddr fe80::1 counter name in-group1 accept
udp-9:
  th dport 53 goto from-12
tcp-8:
  th dport vmap { 22 : goto from-12, 80-84 : goto from-13 }
from-13:
  counter name in-group1 accept
from-12:
  ip saddr { 10.0.0.0/8, 192.168.0.1-192.168.0.9 } counter name in-group1 accept
  ip6 saddr fd00::/8 counter name in-group1 accept
ping-7:
  icmp type { echo-reply, echo-request } goto from-14
from-14:
  meta nfproto ipv4 counter name in-group1 accept
from-6:
  ip saddr 172.16.0.1 counter name in-group1 accept`,
    );
  });

  test('asks nothing that has one answer only: of one protocol, of one range of ports, of addresses without a set', () => {
    const below = (rules: StoredRule[]): string => {
      const text = readable(compile(policyOf(rules), options));
      return text.slice(text.indexOf('inbound-1:'));
    };
    expect(below([written('tcp', 22, 22, '10.0.0.0/8', 'fd00::/8')])).toBe(`inbound-1:
  tcp dport 22 ip saddr 10.0.0.0/8 counter name in-group1 accept
  tcp dport 22 ip6 saddr fd00::/8 counter name in-group1 accept`);
    expect(below([written('udp', 0, 0, '10.0.0.0/8')])).toBe(`inbound-1:
  meta l4proto 17 goto from-2
from-2:
  ip saddr 10.0.0.0/8 counter name in-group1 accept`);
    expect(below([written('icmp', 0, 0)])).toBe(`inbound-1:
  meta l4proto 1 goto ping-2
ping-2:
  icmp type { echo-reply, echo-request } goto from-3
from-3:
  meta nfproto ipv4 counter name in-group1 accept`);
    // A set is loaded once, and a third rule would cost others more than a chain does.
    expect(below([written('tcp', 22, 23, '10.0.0.0/8', '12.0.0.1')])).toBe(`inbound-1:
  tcp dport 22-23 goto from-2
from-2:
  ip saddr { 10.0.0.0/8, 12.0.0.1 } counter name in-group1 accept`);
    expect(below([written('tcp', 22, 22), written('ipv4', 0, 0, '10.0.0.1')])).toBe(`inbound-1:
  jump from-2
  tcp dport 22 counter name in-group1 accept
from-2:
  ip saddr 10.0.0.1 counter name in-group1 accept`);
    expect(below([written('tcp', 22, 22), written('udp', 0, 0, '10.0.0.1')])).toBe(`inbound-1:
  meta l4proto vmap { 6 : goto tcp-2, 17 : goto from-3 }
from-3:
  ip saddr 10.0.0.1 counter name in-group1 accept
tcp-2:
  th dport 22 counter name in-group1 accept`);
  });

  test('counts what each group admits: one rule for each that has a share, in the order of the groups', () => {
    const [one, two] = [1, 2].map((n) => parseGroupId(`00000000-0000-4000-8000-00000000000${n}`));
    const groups = [
      { id: one, inbound: [written('tcp', 22, 22, '10.0.0.0/8'), written('tcp', 80, 80)] },
      { id: two, inbound: [written('tcp', 22, 23, '10.1.0.0/16', '12.0.0.1'), written('tcp', 80, 80, '10.0.0.9')] },
    ].map(({ id = parseGroupId(''), inbound }) => ({ id, name: '', inbound, outbound: [] }));
    expect(readable(compile(canonicalize({ source: 'list', groups }), options))).toBe(
      `service-inbound:
  iifname "wg0" ct state established,related counter name in-established accept
  iifname "wg0" jump inbound-1
  iifname "wg0" counter name in-refused continue
  iifname "wg0" drop
service-outbound:
inbound-1:
  tcp dport vmap { 22 : goto from-2, 23 : goto from-3, 80 : goto from-4 }
from-4:
  counter name in-group1 accept
from-3:
  ip saddr { 10.1.0.0/16, 12.0.0.1 } counter name in-group2 accept
from-2:
  ip saddr 10.0.0.0/8 counter name in-group1 accept
  ip saddr { 10.1.0.0/16, 12.0.0.1 } counter name in-group2 accept`,
    );
  });

  test('keeps the name of every part that did not change', () => {
    const names = (ranges: string[]): Set<string> =>
      new Set(
        compile(
          policyOf([
            written('tcp', 22, 22, ...ranges),
            written('tcp', 80, 80, '10.0.0.0/8'),
            written('udp', 53, 53, '10.0.0.0/9', '11.0.0.0/9'),
          ]),
          options,
        ).helpers.map(({ name }) => name),
      );
    const before = names(['10.1.0.0/16']);
    const after = names(['10.2.0.0/16']);
    const changed = new Set([...after].filter((name) => !before.has(name)).map((name) => name.split('-')[0]));
    expect(changed).toEqual(new Set(['from', 'inbound', 'tcp']));
  });

  test('has other names throughout under another salt, and nothing else differs', () => {
    const policy = policyOf([written('tcp', 22, 22, '10.1.0.0/16', '10.3.0.0/16'), written('ipv6', 0, 0)]);
    const plain = compile(policy, options);
    const salted = compile(policy, { ...options, salt: 'x' });
    expect(readable(salted)).toBe(readable(plain));
    const names = new Set(plain.helpers.map(({ name }) => name));
    expect(salted.helpers.filter(({ name }) => names.has(name))).toEqual([]);
  });

  test('is frozen', () => {
    const { inbound } = compile(policyOf([written('tcp', 22, 22)]), options);
    expect(() => (inbound.rules as unknown[]).push(rule([], accept))).toThrow(TypeError);
  });
});

describe('every compiled ruleset', () => {
  const seed = Math.floor(Math.random() * 2 ** 31);
  const drawn = fc
    .tuple(canonicalPolicy, fc.boolean(), recorderOptions)
    .map(([policy, neighbourDiscovery, each]) => compile(policy, { ...options, neighbourDiscovery, ...each }));
  /** Drawn and compiled once: every test below looks at the same ones. */
  let rulesets: readonly Ruleset[];
  beforeAll(() => {
    rulesets = fc.sample(drawn, { numRuns: rounds(100, 300), seed });
  });
  const check = (holds: (ruleset: Ruleset) => void): void => {
    try {
      for (const ruleset of rulesets) holds(ruleset);
    } catch (error) {
      // Once more, for the smallest ruleset that shows it.
      fc.assert(fc.property(drawn, holds), { numRuns: rounds(100, 300), seed });
      throw error;
    }
  };

  test('makes no set in a base chain, the literal default aside', () => {
    check(({ inbound, outbound }) => {
      const isLiteral = inbound.rules.at(-2)?.matches.at(-1)?.kind === 'family';
      const rules = [...(isLiteral ? [] : inbound.rules), ...outbound.rules];
      expect(rules.filter(makesSet)).toEqual([]);
    });
  });

  test('names each helper by its content, once', () => {
    check(({ helpers }) => {
      // Those of the recorder have names that cover both tables.
      for (const { name, rules } of helpers.filter((chain) => !/^(?:record|admit|refuse|answer)-/.test(chain.name)))
        expect(helperName(name.split('-')[0] as HelperPurpose, rules)).toBe(name);
      expect(new Set(helpers.map(({ name }) => name)).size).toBe(helpers.length);
    });
  });

  test('names only targets that stand before, and refers to every helper', () => {
    check(({ inbound, outbound, helpers }) => {
      const seen = new Set<string>();
      const used = new Set<string>();
      for (const chain of [...helpers, inbound, outbound]) {
        for (const target of chain.rules.flatMap(targets)) {
          expect(seen).toContain(target);
          used.add(target);
        }
        seen.add(chain.name);
      }
      expect(helpers.filter(({ name }) => !used.has(name))).toEqual([]);
    });
  });

  test('names its counters, and no others', () => {
    check(({ counters, inbound, outbound, helpers }) => {
      const named = [inbound, outbound, ...helpers].flatMap(({ rules }) =>
        rules.flatMap(({ counter }) => counter ?? []),
      );
      expect(new Set(counters)).toEqual(new Set(named));
      expect(new Set(counters).size).toBe(counters.length);
    });
  });

  test('binds the one interface in every rule of a base chain (reference 1.2 (1))', () => {
    check(({ inbound, outbound }) => {
      for (const { matches } of inbound.rules) {
        expect(matches[0]).toEqual({ kind: 'interface', side: 'iifname', name: 'wg0' });
      }
      for (const { matches } of outbound.rules) {
        expect(matches[0]).toEqual({ kind: 'interface', side: 'oifname', name: 'wg0' });
      }
    });
  });
});

describe("the agent's way to its server", () => {
  const access = {
    addresses: { v4: rangesOf('100.64.0.9', '100.64.1.9'), v6: rangesOf('fd7f::9') },
    port: 8_080,
    resolvers: { v4: rangesOf('100.64.0.53'), v6: [] },
  };

  test('stays open in a closed outbound chain, before all groups and after what is established', () => {
    const policy = policyOf([], [written('udp', 5_000, 5_000)]);
    expect(readable(compile(policy, { ...options, serverAccess: access }))).toBe(
      `service-inbound:
  iifname "wg0" ct state established,related counter name in-established accept
  iifname "wg0" counter name in-refused continue
  iifname "wg0" drop
service-outbound:
  oifname "wg0" ct state established,related counter name out-established accept
  oifname "wg0" jump server-1
  oifname "wg0" jump outbound-2
  oifname "wg0" counter name out-refused continue
  oifname "wg0" drop
outbound-2:
  udp dport 5000 counter name out-group1 accept
server-1:
  ip daddr { 100.64.0.9, 100.64.1.9 } tcp dport 8080 counter name out-server accept
  ip6 daddr fd7f::9 tcp dport 8080 counter name out-server accept
  ip daddr 100.64.0.53 udp dport 53 counter name out-server accept
  ip daddr 100.64.0.53 tcp dport 53 counter name out-server accept`,
    );
  });

  test('needs no rule where outbound is open, and none where nothing is known of the server', () => {
    const open = policyOf([written('tcp', 22, 22)]);
    expect(compile(open, { ...options, serverAccess: access })).toEqual(compile(open, options));
    const closed = policyOf([], [written('tcp', 22, 22)]);
    const nowhere = { ...access, addresses: { v4: [], v6: [] }, resolvers: { v4: [], v6: [] } };
    expect(compile(closed, { ...options, serverAccess: nowhere })).toEqual(compile(closed, options));
  });
});

describe('the table for forwarded connections', () => {
  const policy = policyOf(
    [written('tcp', 8_080, 8_089, '10.0.0.0/8'), written('icmp', 0, 0)],
    [written('tcp', 443, 443), written('udp', 0, 0, '10.9.0.1')],
  );

  test('judges redirected connections by the port they were made to, and translated ones like those of the device', () => {
    const { forward } = compile(policy, { ...options, neighbourDiscovery: true, forwarding: 'on' });
    expect(forward && readable(forward)).toBe(
      `service-forward-inbound:
  iifname "wg0" ct status dnat ct state established,related counter name in-established accept
  iifname "wg0" ct status dnat jump inbound-1
  iifname "wg0" ct status dnat counter name in-refused continue
  iifname "wg0" ct status dnat drop
service-forward-outbound:
  oifname "wg0" iif > 0 ct status snat ct state established,related counter name out-established accept
  oifname "wg0" iif > 0 ct status snat tcp flags ! syn counter name out-refused drop
  oifname "wg0" iif > 0 ct status snat jump outbound-2
  oifname "wg0" iif > 0 ct status snat counter name out-refused continue
  oifname "wg0" iif > 0 ct status snat drop
outbound-2:
  meta l4proto vmap { 6 : goto tcp-3, 17 : goto to-4 }
to-4:
  ip daddr 10.9.0.1 counter name out-group1 accept
tcp-3:
  th dport 443 counter name out-group1 accept
inbound-1:
  meta l4proto vmap { 1 : goto ping-5, 6 : goto tcp-6 }
tcp-6:
  meta l4proto 6 ct original proto-dst 8080-8089 ip saddr 10.0.0.0/8 counter name in-group1 accept
ping-5:
  icmp type { echo-reply, echo-request } goto from-7
from-7:
  meta nfproto ipv4 counter name in-group1 accept`,
    );
  });

  test("does not hold the agent's way to its server: only the device itself goes there", () => {
    const access = {
      addresses: { v4: rangesOf('100.64.0.9'), v6: [] },
      port: 8_080,
      resolvers: { v4: [], v6: [] },
    };
    const guarded = compile(policy, { ...options, forwarding: 'on', serverAccess: access });
    expect(guarded.forward).toEqual(compile(policy, { ...options, forwarding: 'on' }).forward);
    expect(guarded.helpers.some(({ name }) => name.startsWith('server-'))).toBe(true);
  });

  test('refuses everything in a closed direction while the device forwards nothing, at hardly any cost', () => {
    const { forward } = compile(policy, { ...options, forwarding: 'off' });
    expect(forward && readable(forward)).toBe(
      `service-forward-inbound:
  iifname "wg0" ct status dnat ct state established,related counter name in-established accept
  iifname "wg0" ct status dnat counter name in-refused continue
  iifname "wg0" ct status dnat drop
service-forward-outbound:
  oifname "wg0" iif > 0 ct status snat ct state established,related counter name out-established accept
  oifname "wg0" iif > 0 ct status snat tcp flags ! syn counter name out-refused drop
  oifname "wg0" iif > 0 ct status snat counter name out-refused continue
  oifname "wg0" iif > 0 ct status snat drop`,
    );
  });

  test('is not there where both directions admit everything, and judges only those that are closed', () => {
    const both = { ...options, forwarding: 'on' as const };
    expect(compile(defaultPolicy, both).forward).toBeUndefined();
    expect(compile(policy, options).forward).toBeUndefined();
    const { inbound } = compile(policyOf(defaultInboundRules, [written('tcp', 443, 443)]), both).forward ?? {};
    expect(inbound).toBeUndefined();
  });

  test('lets no ended connection come back from its middle where outbound is open', () => {
    const { forward } = compile(policyOf([]), { ...options, forwarding: 'on' });
    expect(forward && readable(forward)).toBe(
      `service-forward-inbound:
  iifname "wg0" ct status dnat ct state established,related counter name in-established accept
  iifname "wg0" ct status dnat counter name in-refused continue
  iifname "wg0" ct status dnat drop
service-forward-outbound:
  oifname "wg0" iif > 0 ct status snat ct state established,related accept
  oifname "wg0" iif > 0 ct status snat tcp flags ! syn drop`,
    );
  });

  test('leaves the specified table to the letter', () => {
    const { forward: _, ...service } = compile(policy, { ...options, forwarding: 'on' });
    expect(service).toEqual(compile(policy, options));
  });
});
