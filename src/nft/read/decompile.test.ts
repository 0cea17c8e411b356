/** Proves the way back: what is listed, in whatever words, is read as what was compiled; what is not ours is found. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { rounds } from '../../../test/lib/thorough.ts';
import type { CanonicalPolicy, DirectionPolicy } from '../../policy/canonical.ts';
import { isNoAccess } from '../../policy/server-access.ts';
import type { Ruleset } from '../ast.ts';
import { compile, forwardPolicy, isCounted } from '../compile/compile.ts';
import { decompile } from './decompile.ts';
import { earlierForm } from '../compile/earlier-form.fixture.ts';
import { NoListing, type Installed } from './listing.ts';
import { parseListing } from './parse-listing.fixture.ts';
import { listingOf, type Taste } from './listing.fixture.ts';
import { parseInterfaceName } from '../names.ts';
import { plan } from '../plan/plan.ts';
import { isEmpty } from '../plan/plan.fixture.ts';
import type { Finding } from './read-chain.ts';
import {
  canonicalPolicy,
  defaultPolicy,
  recorderOptions,
  policyOf,
  serverAccess,
  written,
} from '../policies.fixture.ts';

const wg0 = parseInterfaceName('wg0');
const options = { interface: wg0, neighbourDiscovery: true };
const sample = policyOf(
  [written('tcp', 22, 22, '10.0.0.0/8', '12.0.0.1'), written('ipv6', 0, 0, 'fd00::/8'), written('icmp', 0, 0)],
  [written('udp', 53, 53)],
);

function read(ruleset: Ruleset, taste?: Taste): Installed {
  const installed = parseListing(listingOf(ruleset, taste));
  if (installed === undefined) throw new Error('the table is not there');
  return installed;
}

const saysDiscovery = ({ inbound, outbound }: CanonicalPolicy): boolean =>
  isCounted('inbound', inbound) || isCounted('outbound', outbound);

describe('a listing', () => {
  test('of any compiled policy, told in any of nft’s ways, reads back as the same policy', () => {
    fc.assert(
      fc.property(
        canonicalPolicy,
        fc.boolean(),
        fc.option(serverAccess, { nil: undefined }),
        fc.constantFrom('on', 'off', undefined),
        fc.record({
          mostSets: fc.constantFrom(undefined, 0, 3),
          mostAlone: fc.constantFrom(undefined, 1),
          fewestInCommon: fc.constantFrom(undefined, 1),
          longestList: fc.constantFrom(undefined, 2),
        }),
        recorderOptions,
        fc.infiniteStream(fc.boolean()),
        (policy, neighbourDiscovery, access, forwarding, bounds, recorder, coins) => {
          const where = { interface: wg0, neighbourDiscovery };
          const ruleset = compile(policy, { ...where, serverAccess: access, forwarding, ...bounds, ...recorder });
          const listing = listingOf(ruleset, () => coins.next().value === true);
          const [installed, forward] = [parseListing(listing), parseListing(listing, 'service-forward')];
          if (installed === undefined) throw new Error('the table is not there');
          const again = plan(installed, ruleset, forward);
          expect(again.kind === 'update' && isEmpty(again)).toBe(true);
          const judged = forward && decompile(forward, 'service-forward');
          expect(judged?.findings ?? []).toEqual([]);
          expect(judged?.enforced?.policy).toEqual(forwarding && forwardPolicy(policy, forwarding));
          const { enforced, findings } = decompile(installed);
          expect(findings).toEqual([]);
          expect(enforced?.policy).toEqual(policy);
          const kept = isCounted('outbound', policy.outbound) && access !== undefined && !isNoAccess(access);
          expect(enforced?.serverAccess).toEqual(kept ? access : undefined);
          const isOpen = ({ kind, forbid }: DirectionPolicy): boolean => kind === 'open' && forbid === undefined;
          const open = isOpen(policy.inbound) && isOpen(policy.outbound) && recorder.observe !== 'all';
          expect(enforced?.interface).toBe(open ? undefined : wg0);
          expect(enforced?.neighbourDiscovery).toBe(saysDiscovery(policy) ? neighbourDiscovery : undefined);
        },
      ),
      { numRuns: rounds(60, 500) },
    );
  });

  test('of rules as earlier versions laid them out, where a look-up of one entry was a map, reads as the same policy', () => {
    fc.assert(
      fc.property(canonicalPolicy, fc.constantFrom(undefined, 1), (policy, fewestInCommon) => {
        const ruleset = compile(policy, { ...options, forwarding: 'on', fewestInCommon });
        const listing = listingOf(earlierForm(ruleset));
        const [installed, forward] = [parseListing(listing), parseListing(listing, 'service-forward')];
        if (installed === undefined) throw new Error('the table is not there');
        expect(decompile(installed).findings).toEqual([]);
        expect(decompile(installed).enforced?.policy).toEqual(policy);
        const judged = forward && decompile(forward, 'service-forward');
        expect(judged?.findings ?? []).toEqual([]);
        expect(judged?.enforced?.policy).toEqual(forwardPolicy(policy, 'on'));
        // Chains of another layout have other names, so none is taken for one that somebody has changed.
        expect(plan(installed, ruleset, forward).kind).toBe('update');
      }),
      { numRuns: rounds(20, 60) },
    );
  });

  test('without our table is no table, whatever other tables hold', () => {
    expect(parseListing({ nftables: [] })).toBeUndefined();
    expect(
      parseListing({
        nftables: [
          { metainfo: { version: '1.0.6' } },
          { table: { family: 'ip', name: 'service', handle: 1 } },
          { table: { family: 'inet', name: 'filter', handle: 2 } },
          { chain: { family: 'inet', table: 'filter', name: 'service-inbound', handle: 1 } },
        ],
      }),
    ).toBeUndefined();
  });

  test.each([null, undefined, 7, 'x', [], {}, { nftables: {} }, { nftables: null }])('is not %j', (value) => {
    expect(() => parseListing(value)).toThrow(NoListing);
  });

  test('of any JSON is read or refused, never more', () => {
    let deep: unknown = 1;
    for (let i = 0; i < 20_000; i += 1) deep = [deep];
    const own = { family: 'inet', table: 'service', chain: 'service-inbound' };
    const usual: readonly fc.Arbitrary<unknown>[] = [
      fc.jsonValue(),
      fc.jsonValue().map((expr) => ({ rule: { ...own, expr } })),
      fc.array(fc.jsonValue(), { maxLength: 3 }).map((expr) => ({ rule: { ...own, expr } })),
      fc.jsonValue().map((right) => ({
        rule: { ...own, expr: [{ match: { op: '==', left: { payload: { protocol: 'ip', field: 'saddr' } }, right } }] },
      })),
      fc.jsonValue().map((set) => ({
        rule: { ...own, expr: [{ vmap: { key: { meta: { key: 'l4proto' } }, data: { set } } }] },
      })),
      fc.jsonValue().map((chain) => ({ chain })),
      fc.dictionary(fc.string(), fc.jsonValue()).map((chain) => ({ chain: { ...chain, ...own } })),
      fc.constant(JSON.parse('{"__proto__": {"family": "inet", "table": "service", "name": "__proto__"}}') as unknown),
    ];
    // To find out that it is too deep takes as long as a hundred others, and it is the same each time: some twenty of them will do.
    const entry = fc.oneof(...usual.map((arbitrary) => ({ arbitrary, weight: 12 })), {
      arbitrary: fc.constant({ rule: { ...own, expr: deep } }),
      weight: 1,
    });
    fc.assert(
      fc.property(fc.array(entry), (nftables) => {
        const installed = parseListing({ nftables });
        if (installed !== undefined) decompile(installed);
        plan(installed, compile(sample, options));
        expect({}).not.toHaveProperty('family');
      }),
      { numRuns: rounds(75, 500) },
    );
  });
});

describe('a table that was changed', () => {
  /** The sample's listing after a change, read. */
  const changed = (change: (nftables: Record<string, Record<string, unknown>>[]) => void): Installed => {
    const listing = structuredClone(listingOf(compile(sample, options))) as unknown as {
      nftables: Record<string, Record<string, unknown>>[];
    };
    change(listing.nftables);
    const installed = parseListing(listing);
    if (installed === undefined) throw new Error('the table is not there');
    return installed;
  };
  const own = { family: 'inet', table: 'service' };
  const chainNamed = (nftables: Record<string, Record<string, unknown>>[], name: string): Record<string, unknown> =>
    nftables.find(({ chain }) => String(chain?.['name']).startsWith(name))?.['chain'] ?? {};

  const rows: readonly (readonly [
    what: string,
    change: Parameters<typeof changed>[0],
    codes: readonly Finding['code'][],
    enforces: boolean,
  ])[] = [
    ['nothing', () => {}, [], true],
    [
      'a rule that is not ours',
      (all) =>
        all.push({ rule: { ...own, chain: 'service-inbound', handle: 9, expr: [{ log: null }, { accept: null }] } }),
      ['foreign_rule'],
      false,
    ],
    [
      'a rule of our making where it does not belong',
      (all) => all.push({ rule: { ...own, chain: 'service-outbound', handle: 9, expr: [{ accept: null }] } }),
      ['wrong_layout'],
      false,
    ],
    [
      'a comment on a rule',
      (all) => Object.assign(all.findLast(({ rule }) => rule !== undefined)?.['rule'] ?? {}, { comment: 'x' }),
      ['foreign_rule'],
      false,
    ],
    [
      'a rule gone',
      (all) =>
        all.splice(
          all.findLastIndex(({ rule }) => rule?.['chain'] === 'service-inbound'),
          1,
        ),
      ['wrong_layout'],
      false,
    ],
    [
      'a base chain gone',
      (all) =>
        all.splice(
          0,
          all.length,
          ...all.filter((entry) => JSON.stringify(entry).includes('service-inbound') || entry['table']),
        ),
      ['missing_chain', 'missing_chain'],
      false,
    ],
    [
      'a policy that drops',
      (all) => Object.assign(chainNamed(all, 'service-outbound'), { policy: 'drop' }),
      ['wrong_attachment'],
      false,
    ],
    [
      'another hook',
      (all) => Object.assign(chainNamed(all, 'service-inbound'), { hook: 'forward' }),
      ['wrong_attachment'],
      false,
    ],
    [
      'another priority',
      (all) => Object.assign(chainNamed(all, 'service-inbound'), { prio: 1 }),
      ['wrong_attachment'],
      false,
    ],
    [
      'a set',
      (all) => all.push({ set: { ...own, name: 's', type: 'ipv4_addr', handle: 9 } }),
      ['foreign_object'],
      true,
    ],
    [
      'a counter that is none of ours',
      (all) => all.push({ counter: { ...own, name: 'mine', handle: 9, packets: 1, bytes: 1 } }),
      ['foreign_object'],
      true,
    ],
    [
      'a counter of a group that has left',
      (all) => all.push({ counter: { ...own, name: 'in-00000000-0000-4000-8000-000000000009', packets: 1, bytes: 1 } }),
      [],
      true,
    ],
    [
      'an inline counter',
      (all) =>
        Object.assign(all.findLast(({ rule }) => rule?.['chain'] === 'service-inbound')?.['rule'] ?? {}, {
          expr: [{ counter: { packets: 1, bytes: 1 } }, { drop: null }],
        }),
      ['foreign_rule'],
      false,
    ],
    [
      'a helper chain that nothing uses',
      (all) => all.push({ chain: { ...own, name: 'x', handle: 9 } }),
      ['unused_chain'],
      true,
    ],
    [
      'a chain on a hook of its own',
      (all) =>
        all.push({ chain: { ...own, name: 'x', handle: 9, type: 'filter', hook: 'forward', prio: 0, policy: 'drop' } }),
      ['foreign_chain'],
      false,
    ],
    [
      'flags on the table',
      (all) => Object.assign(all[1]?.['table'] ?? {}, { flags: 'dormant' }),
      ['table_flags'],
      false,
    ],
    [
      'an address set widened',
      (all) => {
        const leaf = all.find(({ rule }) => JSON.stringify(rule?.['expr'])?.includes('12.0.0.1'))?.['rule'];
        Object.assign(leaf ?? {}, { expr: [{ accept: null }] });
      },
      [],
      true,
    ],
    [
      'two interfaces',
      (all) => {
        for (const { rule } of all) {
          if (rule?.['chain'] !== 'service-outbound') continue;
          rule['expr'] = JSON.parse(JSON.stringify(rule['expr']).replaceAll('wg0', 'wg1'));
        }
      },
      ['wrong_layout'],
      false,
    ],
  ];

  test.each(rows.map(([what, change, codes, enforces]) => ({ what, change, codes, enforces })))(
    'by $what is told so',
    ({ change, codes, enforces }) => {
      const { enforced, findings } = decompile(changed(change));
      expect(findings.map(({ code }) => code)).toEqual(codes);
      expect(enforced !== undefined).toBe(enforces);
    },
  );

  test('in an address set tells the policy that it enforces now, not the one that was installed', () => {
    const installed = changed((all) => {
      const leaf = all.find(({ rule }) => JSON.stringify(rule?.['expr'])?.includes('12.0.0.1'))?.['rule'];
      const counter = 'in-00000000-0000-4000-8000-000000000001';
      Object.assign(leaf ?? {}, { expr: [{ counter }, { accept: null }] });
    });
    const { enforced } = decompile(installed);
    expect(enforced?.policy).toEqual({
      ...sample,
      inbound: policyOf([written('tcp', 22, 22), written('ipv6', 0, 0, 'fd00::/8'), written('icmp', 0, 0)]).inbound,
    });
  });

  test('and the default group reads back as itself', () => {
    expect(decompile(read(compile(defaultPolicy, options))).enforced).toEqual({
      policy: defaultPolicy,
      interface: wg0,
      neighbourDiscovery: undefined,
    });
  });
});
