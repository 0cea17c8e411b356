/** Proves that validation names every problem with its place and code, and that no value whatever makes it throw. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { rounds } from '../../test/lib/thorough.ts';
import { writtenRule } from './arbitrary.fixture.ts';
import { readGroup } from './group.ts';
import { defaultLimits } from './limits.ts';
import { normalizeRules } from './normalize.ts';
import { problemCodes, Problems } from './problem.ts';
import { readRules } from './validate.ts';
import { validateRules } from './validate.fixture.ts';

const tcp = { ip_protocol: 'tcp', from_port: 22, to_port: 22 };
const found = (rules: unknown): [string, string][] => validateRules(rules).map(({ pointer, code }) => [pointer, code]);

describe('a valid rule', () => {
  it.each([
    tcp,
    { ...tcp, ip_ranges: [] },
    { ...tcp, from_port: 0, to_port: 0 },
    { ...tcp, from_port: 1, to_port: 65535 },
    { ...tcp, ip_protocol: 'TCP' },
    { ...tcp, ip_ranges: ['10.0.0.0/8', 'fd00::/8', ' 10.0.0.1 - 10.0.0.9 '] },
    { ip_protocol: 'ICMPv4', from_port: 0, to_port: 0, ip_ranges: ['10.0.0.1'] },
    { ip_protocol: 'icmp', from_port: 0, to_port: 0, ip_ranges: ['10.0.0.1', 'fd00::1'] },
    { ip_protocol: 'ipv6', from_port: 443, to_port: 443, ip_ranges: ['fd00::1'] },
    { ip_protocol: 'ip', from_port: 53, to_port: 53 },
    { ...tcp, expires_at: '2030-01-31T12:00:00+02:00' },
    { ...tcp, expires_at: '1999-01-31t12:00:00.5z' },
  ])('%j has no problem', (rule) => {
    expect(found([rule])).toEqual([]);
  });
});

describe('a wrong rule is refused with place and code', () => {
  it.each<[string, unknown, string, keyof typeof problemCodes]>([
    ['an unknown protocol', { ...tcp, ip_protocol: 'sctp' }, '/0/ip_protocol', 'unknown_protocol'],
    ['a protocol that is no string', { ...tcp, ip_protocol: 6 }, '/0/ip_protocol', 'unknown_protocol'],
    ['a null protocol', { ...tcp, ip_protocol: null }, '/0/ip_protocol', 'unknown_protocol'],
    ['a padded protocol', { ...tcp, ip_protocol: ' tcp' }, '/0/ip_protocol', 'unknown_protocol'],
    ['a port below 0', { ...tcp, from_port: -1 }, '/0/from_port', 'port_out_of_range'],
    ['a port above 65535', { ...tcp, to_port: 65536 }, '/0/to_port', 'port_out_of_range'],
    ['a fractional port', { ...tcp, to_port: 22.5 }, '/0/to_port', 'port_not_integer'],
    ['a port as text', { ...tcp, from_port: '22' }, '/0/from_port', 'port_not_integer'],
    ['a null port', { ...tcp, from_port: null }, '/0/from_port', 'port_not_integer'],
    ['a zero from with a port', { ...tcp, from_port: 0 }, '/0/from_port', 'port_half_any'],
    ['a zero to with a port', { ...tcp, to_port: 0 }, '/0/to_port', 'port_half_any'],
    ['from above to', { ...tcp, from_port: 23 }, '/0/from_port', 'port_reversed'],
    ['ports on icmp', { ...tcp, ip_protocol: 'icmp' }, '/0/from_port', 'port_on_icmp'],
    ['ports on icmpv6', { ...tcp, ip_protocol: 'icmpv6' }, '/0/from_port', 'port_on_icmp'],
    ['no protocol', { from_port: 1, to_port: 1 }, '/0/ip_protocol', 'missing_field'],
    ['no from_port', { ip_protocol: 'tcp', to_port: 1 }, '/0/from_port', 'missing_field'],
    ['no to_port', { ip_protocol: 'tcp', from_port: 1 }, '/0/to_port', 'missing_field'],
    ['an unknown field', { ...tcp, action: 'deny' }, '/0/action', 'unknown_field'],
    ['a field with a slash', { ...tcp, 'a/b~c': 1 }, '/0/a~1b~0c', 'unknown_field'],
    ['null ranges', { ...tcp, ip_ranges: null }, '/0/ip_ranges', 'null_not_allowed'],
    ['ranges as one string', { ...tcp, ip_ranges: '10.0.0.1' }, '/0/ip_ranges', 'not_an_array'],
    ['a range that is no string', { ...tcp, ip_ranges: ['10.0.0.1', 7] }, '/0/ip_ranges/1', 'not_a_string'],
    ['an empty range', { ...tcp, ip_ranges: [''] }, '/0/ip_ranges/0', 'address_invalid'],
    ['a reversed range', { ...tcp, ip_ranges: ['10.0.0.2-10.0.0.1'] }, '/0/ip_ranges/0', 'range_reversed'],
    ['a mixed range', { ...tcp, ip_ranges: ['10.0.0.2-fd00::1'] }, '/0/ip_ranges/0', 'range_mixed_families'],
    ['IPv6 on ipv4', { ...tcp, ip_protocol: 'ipv4', ip_ranges: ['::1'] }, '/0/ip_ranges/0', 'family_contradiction'],
    ['IPv4 on ipv6', { ...tcp, ip_protocol: 'ipv6', ip_ranges: ['1.1.1.1'] }, '/0/ip_ranges/0', 'family_contradiction'],
    [
      'IPv6 on icmpv4',
      { ip_protocol: 'icmpv4', from_port: 0, to_port: 0, ip_ranges: ['::1'] },
      '/0/ip_ranges/0',
      'family_contradiction',
    ],
    ['a zone', { ...tcp, ip_ranges: ['fe80::1%eth0'] }, '/0/ip_ranges/0', 'address_zone'],
    ['octal', { ...tcp, ip_ranges: ['010.0.0.1'] }, '/0/ip_ranges/0', 'address_octal'],
    ['a short address', { ...tcp, ip_ranges: ['1.2.3'] }, '/0/ip_ranges/0', 'address_short'],
    ['an expiry that is no string', { ...tcp, expires_at: 7 }, '/0/expires_at', 'not_a_string'],
    ['a null expiry', { ...tcp, expires_at: null }, '/0/expires_at', 'null_not_allowed'],
    ['an expiry without a zone', { ...tcp, expires_at: '2030-01-31T12:00:00' }, '/0/expires_at', 'not_a_timestamp'],
    ['a day that is not there', { ...tcp, expires_at: '2030-02-30T12:00:00Z' }, '/0/expires_at', 'not_a_timestamp'],
    ['a rule that is no object', 'allow all', '/0', 'not_an_object'],
    ['a null rule', null, '/0', 'not_an_object'],
  ])('%s', (_name, rule, pointer, code) => {
    expect(found([rule])).toEqual([[pointer, code]]);
  });

  it('lists every problem of every rule at once', () => {
    expect(
      found([{ ...tcp, ip_protocol: 'x', to_port: -1, extra: 1, ip_ranges: ['a', 'b'] }, tcp, { ...tcp, to_port: 1 }]),
    ).toEqual([
      ['/0/extra', 'unknown_field'],
      ['/0/ip_protocol', 'unknown_protocol'],
      ['/0/to_port', 'port_out_of_range'],
      ['/0/ip_ranges/0', 'address_invalid'],
      ['/0/ip_ranges/1', 'address_invalid'],
      ['/2/from_port', 'port_reversed'],
    ]);
  });
});

describe('limits', () => {
  it('refuses more rules than a direction may have, counted as they are stored', () => {
    expect(found(Array.from({ length: 1_000 }, () => tcp))).toEqual([]);
    expect(found(Array.from({ length: 1_001 }, () => tcp))).toEqual([['', 'too_many_rules']]);
    expect(found(Array.from({ length: 501 }, () => ({ ...tcp, ip_protocol: 'ip' })))).toEqual([['', 'too_many_rules']]);
  });

  it('refuses more ranges than a group may name, over both directions and what is stored', () => {
    const half = [{ ...tcp, ip_ranges: Array.from({ length: 5_000 }, () => '10.0.0.1') }];
    const one = [{ ...tcp, ip_ranges: ['10.0.0.1'] }];
    const codes = (body: unknown, stored?: Parameters<typeof readGroup>[1]['stored']): string[] =>
      readGroup(body, { mode: 'update', ...(stored === undefined ? {} : { stored }) }).problems.map(({ code }) => code);
    expect(codes({ inbound_rules: half, outbound_rules: half })).toEqual([]);
    expect(codes({ inbound_rules: [...half, ...one], outbound_rules: half })).toEqual(['too_many_ranges']);
    const problems = new Problems();
    const outbound_rules = readRules([...half, ...one], '', problems);
    expect(codes({ inbound_rules: half }, { inbound_rules: [], outbound_rules })).toEqual(['too_many_ranges']);
    expect(codes({ group_name: 'x' }, { inbound_rules: outbound_rules, outbound_rules })).toEqual([]);
  });
});

describe('a group body', () => {
  const org_id = '0b0cbd0c-2f0a-4d5c-9d0b-7f5d8d3c0a11';
  const codes = (body: unknown, mode: 'create' | 'update' = 'create'): [string, string][] =>
    readGroup(body, { mode, org_id }).problems.map(({ pointer, code }) => [pointer, code]);

  it.each<[string, unknown, [string, string][]]>([
    ['the least body', { group_name: 'web' }, []],
    ['the organization of the path', { group_name: 'web', org_id: org_id.toUpperCase() }, []],
    ['no name', {}, [['/group_name', 'missing_field']]],
    ['an empty name', { group_name: '' }, [['/group_name', 'text_too_short']]],
    ['a name of 255 characters', { group_name: '🙂'.repeat(255) }, []],
    ['a name of 256 characters', { group_name: '🙂'.repeat(256) }, [['/group_name', 'text_too_long']]],
    ['a name of a megabyte', { group_name: 'x'.repeat(1_000_000) }, [['/group_name', 'text_too_long']]],
    ['a NUL', { group_name: 'a\u0000b' }, [['/group_name', 'text_invalid']]],
    ['half a character', { group_name: 'a\ud800' }, [['/group_name', 'text_invalid']]],
    ['a description of two lines', { group_name: 'a', group_description: 'b\nc' }, []],
    [
      'a long description',
      { group_name: 'a', group_description: 'x'.repeat(4_097) },
      [['/group_description', 'text_too_long']],
    ],
    ['a null name', { group_name: null }, [['/group_name', 'null_not_allowed']]],
    ['null rules', { group_name: 'a', inbound_rules: null }, [['/inbound_rules', 'null_not_allowed']]],
    ['rules that are no array', { group_name: 'a', outbound_rules: {} }, [['/outbound_rules', 'not_an_array']]],
    ['another organization', { group_name: 'a', org_id: org_id.replace('0', '1') }, [['/org_id', 'contradiction']]],
    ['no organization id', { group_name: 'a', org_id: 'x' }, [['/org_id', 'not_an_id']]],
    ['a field of the record', { group_name: 'a', revision: 7 }, [['/revision', 'unknown_field']]],
    ['an array', [], [['', 'not_an_object']]],
    ['null', null, [['', 'not_an_object']]],
    ['a hostile key', JSON.parse('{"group_name":"a","__proto__":{"x":1}}'), [['/__proto__', 'unknown_field']]],
  ])('%s', (_name, body, problems) => {
    expect(codes(body)).toEqual(problems);
  });

  it('may leave out everything on update, and reads only what is named', () => {
    expect(codes({}, 'update')).toEqual([]);
    expect(readGroup({ inbound_rules: [] }, { mode: 'update' }).group).toEqual({ inbound_rules: [] });
  });
});

describe('validation never throws', () => {
  const expectSane = (value: unknown): void => {
    const { problems } = readGroup(value, { mode: 'create' });
    const insane = [...problems, ...validateRules(value)].filter(
      ({ pointer, code, detail }) =>
        !(pointer === '' || pointer.startsWith('/')) ||
        !Object.hasOwn(problemCodes, code) ||
        detail.length >= 500 ||
        // oxlint-disable-next-line no-control-regex -- a sentence for a terminal must be free of these
        /[\u0000-\u001f\u007f-\u009f]/.test(detail),
    );
    expect(insane).toEqual([]);
  };

  it('on arbitrary JSON', () => {
    fc.assert(fc.property(fc.jsonValue({ maxDepth: 5 }), expectSane), { numRuns: rounds(500, 2_000) });
  });

  it('on rules with one arbitrary field', () => {
    const name = fc.constantFrom('ip_protocol', 'from_port', 'to_port', 'ip_ranges', '__proto__', 'constructor');
    const value = fc.oneof(
      fc.jsonValue(),
      fc.string({ unit: 'binary' }),
      fc.array(fc.string({ unit: 'binary' })),
      fc.double(),
    );
    fc.assert(
      fc.property(writtenRule, name, value, (rule, key, odd) => {
        const broken = JSON.parse(JSON.stringify({ ...rule, [key]: odd })) as unknown;
        expectSane([broken]);
        expectSane({ group_name: 'x', inbound_rules: [broken], outbound_rules: [rule, broken] });
      }),
      { numRuns: rounds(600, 3_000) },
    );
  });

  it('on a megabyte of text, deep JSON and odd numbers', () => {
    const mega = 'a'.repeat(1_000_000);
    let deep: unknown = 1;
    for (let depth = 0; depth < 5_000; depth += 1) deep = [deep];
    for (const odd of [
      mega,
      `10.0.0.1-${mega}`,
      '1.'.repeat(500_000),
      ':'.repeat(100_000),
      deep,
      -0,
      1e308,
      Number.NaN,
      Infinity,
    ]) {
      expectSane([{ ...tcp, ip_ranges: [odd] }]);
      expectSane([{ ...tcp, ip_protocol: odd, from_port: odd }]);
      expectSane({ group_name: odd, [typeof odd === 'string' ? odd : 'odd']: odd });
      expectSane(odd);
    }
  });

  it('and what it lets pass is always normal', () => {
    fc.assert(
      fc.property(fc.array(writtenRule, { maxLength: 20 }), (rules) => {
        const problems = new Problems();
        const read = readRules(JSON.parse(JSON.stringify(rules)), '', problems, defaultLimits);
        expect(problems.problems).toEqual([]);
        expect(read).toEqual(normalizeRules(rules));
      }),
    );
  });
});

describe('an expiry that is written', () => {
  const now = Date.UTC(2030, 0, 1);
  const [past, future] = ['2029-12-31T23:59:59Z', '2030-01-01T00:00:01Z'];
  const written = (inbound_rules: readonly object[], stored?: readonly object[]) => {
    const rules = (some: readonly object[] = []) => readRules(some, '', new Problems());
    const { problems } = readGroup(
      { group_name: 'web', inbound_rules },
      {
        mode: stored === undefined ? 'create' : 'update',
        now,
        ...(stored && { stored: { inbound_rules: rules(stored), outbound_rules: [] } }),
      },
    );
    return problems.map(({ pointer, code }) => [pointer, code]);
  };

  it('must be in the future', () => {
    const rules = [
      { ...tcp, expires_at: future },
      { ...tcp, expires_at: past },
    ];
    expect(written(rules)).toEqual([['/inbound_rules/1/expires_at', 'expiry_past']]);
    expect(written([{ ...tcp, expires_at: '2030-01-01T00:00:00Z' }])).toHaveLength(1);
  });

  it('may be over on a rule that is stored so already, and is not changed', () => {
    const old = { ip_protocol: 'ip', from_port: 0, to_port: 0, ip_ranges: ['10.0.0.1', 'fd00::1'], expires_at: past };
    expect(written([old, tcp], [old])).toEqual([]);
    expect(written([{ ...old, expires_at: '2030-01-01T00:59:59+01:00' }], [old])).toEqual([]);
    expect(written([{ ...old, ip_ranges: ['10.0.0.1', 'fd00::2'] }], [old])).toEqual([
      ['/inbound_rules/0/expires_at', 'expiry_past'],
    ]);
    expect(written([{ ...old, expires_at: '2029-12-31T23:59:58Z' }], [old])).toHaveLength(1);
    expect(written([old], [{ ...old, expires_at: future }])).toHaveLength(1);
  });

  it('is not judged where rules are only read', () => {
    expect(found([{ ...tcp, expires_at: past }])).toEqual([]);
  });
});
