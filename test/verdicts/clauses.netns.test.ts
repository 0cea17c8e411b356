/** Proves the clauses of reference 1.2 that speak of packets and of the installed table, each by name, in a real kernel. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { defaultInboundRules } from '../../src/policy/rule.ts';
import { connect } from '../lib/netns.ts';
import { plainShape } from '../lib/probe-bytes.ts';
import { ask, serve } from '../lib/talk.ts';
import { driver, VerdictLab } from '../lib/verdict-lab.ts';
import { apply, listing, rulesetOf, rulesIn, update, verdicts } from './device.ts';
import { installed, load, planFor } from './install.ts';
import { from, to } from './packets.ts';
import { allow, type WrittenGroup } from './table.ts';

/** Admits next to nothing, in both directions. */
const shut: WrittenGroup = { inbound: [], outbound: [allow('tcp', 1, '192.0.2.1')] };
const asCreated: WrittenGroup = { inbound: defaultInboundRules };

describe('the clauses', () => {
  let lab: VerdictLab;
  beforeAll(async () => {
    lab = await VerdictLab.open();
  });
  afterAll(() => lab?.close());

  describe('reference 1.2 (1): rules apply only to the driver interface', () => {
    beforeAll(async () => {
      await connect(
        { namespace: lab.device, name: 'lan0', addresses: ['172.31.0.1/24', 'fd31::1/64'] },
        { namespace: lab.peer, name: 'lan0', addresses: ['172.31.0.2/24', 'fd31::2/64'] },
      );
      await Promise.all([
        serve({ namespace: lab.device, protocol: 'tcp', address: '::', port: 7_001 }),
        serve({ namespace: lab.peer, protocol: 'tcp', address: '::', port: 7_002 }),
      ]);
      await apply(lab, [shut]);
    });

    test('the driver interface is shut', async () => {
      expect(
        await verdicts(lab, [from('100.64.0.2').tcp(7_001), to('100.64.0.2').tcp(7_002), from('fd7f::2').tcp(7_001)]),
      ).toEqual(['drop', 'drop', 'drop']);
    });

    test.each(['172.31.0.1', 'fd31::1'])('another interface takes connections to %s as before', async (address) => {
      expect(await ask({ namespace: lab.peer, protocol: 'tcp', address, port: 7_001 })).toBe('answered');
    });

    test.each(['172.31.0.2', 'fd31::2'])('and makes connections to %s as before', async (address) => {
      expect(await ask({ namespace: lab.device, protocol: 'tcp', address, port: 7_002 })).toBe('answered');
    });

    test.each(['127.0.0.1', '::1', '100.64.0.1'])('and the device still speaks to itself at %s', async (address) => {
      expect(await ask({ namespace: lab.device, protocol: 'tcp', address, port: 7_001 })).toBe('answered');
    });
  });

  describe('reference 1.2 (2): one table `inet service` with two base chains', () => {
    const expected = {
      tables: [{ family: 'inet', name: 'service' }],
      base: [
        { name: 'service-inbound', hook: 'input', type: 'filter', prio: 0, policy: 'accept' },
        { name: 'service-outbound', hook: 'output', type: 'filter', prio: 0, policy: 'accept' },
      ],
    };
    test.each([
      ['the default group', asCreated],
      ['a shut device', shut],
      [
        'many rules',
        {
          inbound: [allow('tcp', [1, 9], '10.0.0.1', 'fd00::1'), allow('ip', 53)],
          outbound: [allow('icmp'), allow('ipv6', 7)],
        },
      ],
    ])('for %s', async (_, group) => {
      await apply(lab, [group]);
      const { tables, chains } = await listing(lab);
      expect(tables).toMatchObject(expected.tables);
      expect(chains.filter(({ hook }) => hook !== undefined)).toMatchObject(expected.base);
    });
  });

  test('reference 1.2 (3): inbound rules bind what comes in, outbound rules what goes out', async () => {
    await apply(lab, [{ inbound: [allow('tcp', 80, '10.0.0.1')], outbound: [allow('udp', 53, '10.0.0.2')] }]);
    const packets = [
      from('10.0.0.1').tcp(80),
      to('10.0.0.1').tcp(80),
      from('10.0.0.2').udp(53),
      to('10.0.0.2').udp(53),
    ];
    expect(await verdicts(lab, packets)).toEqual(['accept', 'drop', 'drop', 'accept']);
    expect((await rulesIn(lab, 'service-inbound')).every((rule) => rule.startsWith(`iifname "${driver}"`))).toBe(true);
    expect((await rulesIn(lab, 'service-outbound')).every((rule) => rule.startsWith(`oifname "${driver}"`))).toBe(true);
  });

  test('reference 1.2 (4): ranges mean the source of what comes in and the destination of what goes out', async () => {
    await apply(lab, [
      { inbound: [allow('tcp', 80, '10.0.0.1', 'fd00::1')], outbound: [allow('tcp', 80, '10.0.0.1', 'fd00::1')] },
    ]);
    const far = [from('10.0.0.1'), to('10.0.0.1'), from('fd00::1'), to('fd00::1')].map((packet) => packet.tcp(80));
    expect(await verdicts(lab, far)).toEqual(far.map(() => 'accept'));
    // The device's own address at the other end of the packet admits nothing.
    await apply(lab, [
      { inbound: [allow('tcp', 80, '100.64.0.1', 'fd7f::1')], outbound: [allow('tcp', 80, '100.64.0.1', 'fd7f::1')] },
    ]);
    expect(await verdicts(lab, far)).toEqual(far.map(() => 'drop'));
  });

  test('reference 1.2 (5): ports apply to the destination port in both directions, never to the source port', async () => {
    await apply(lab, [{ inbound: [allow('ip', 5_353)], outbound: [allow('ip', 5_353)] }]);
    const ends = [from('10.0.0.1'), to('10.0.0.1'), from('fd00::1'), to('fd00::1')];
    const toPort = ends.flatMap((end) => [end.tcp(5_353), end.udp(5_353)]);
    expect(await verdicts(lab, toPort, { ...plainShape, sport: 9 })).toEqual(toPort.map(() => 'accept'));
    const fromPort = ends.flatMap((end) => [end.tcp(9), end.udp(9)]);
    expect(await verdicts(lab, fromPort, { ...plainShape, sport: 5_353 })).toEqual(fromPort.map(() => 'drop'));
  });

  test('reference 1.2 (6): rules have no order', async () => {
    const rules = [
      allow('tcp', [1, 100], '10.0.0.0/24'),
      allow('tcp', [50, 200], '10.0.0.7'),
      allow('udp', 53),
      allow('icmp'),
    ];
    const packets = [1, 50, 100, 101, 200, 201].flatMap((port) => [
      from('10.0.0.7').tcp(port),
      from('10.0.0.8').tcp(port),
      from('10.0.0.7').udp(53),
    ]);
    await apply(lab, [{ inbound: rules }]);
    const expected = await verdicts(lab, packets);
    await apply(lab, [{ inbound: rules.toReversed() }]);
    expect(await verdicts(lab, packets)).toEqual(expected);
    expect(new Set(expected)).toEqual(new Set(['accept', 'drop']));
  });

  test('reference 1.2 (7): 0 and 0 mean any port, equal ports one port, different ports the range with both ends', async () => {
    await apply(lab, [{ inbound: [allow('tcp'), allow('udp', 53), allow('udp', [6_000, 6_002])] }]);
    const anyPort = [0, 1, 53, 65_535].map((port) => from('10.0.0.1').tcp(port));
    expect(await verdicts(lab, anyPort)).toEqual(anyPort.map(() => 'accept'));
    const onePort = [52, 53, 54].map((port) => from('10.0.0.1').udp(port));
    expect(await verdicts(lab, onePort)).toEqual(['drop', 'accept', 'drop']);
    const range = [5_999, 6_000, 6_001, 6_002, 6_003].map((port) => from('fd00::1').udp(port));
    expect(await verdicts(lab, range)).toEqual(['drop', 'accept', 'accept', 'accept', 'drop']);
  });

  test('reference 1.2 (8): empty or absent ip_ranges mean any address', async () => {
    for (const rule of [allow('tcp', 80), { ...allow('tcp', 80), ip_ranges: [] }]) {
      await apply(lab, [{ inbound: [rule], outbound: [rule] }]);
      const anywhere = ['1.0.0.1', '223.255.255.254', '2001:db8::1', 'fe80::7'].flatMap((address) => [
        from(address).tcp(80),
        to(address).tcp(80),
      ]);
      expect(await verdicts(lab, anywhere)).toEqual(anywhere.map(() => 'accept'));
    }
  });

  describe('reference 1.2 (9): outbound is open until an explicit allow rule is given', () => {
    const anything = [to('10.0.0.1').tcp(80), to('fd00::1').udp(53), to('10.0.0.1').ping(), to('fd00::1').protocol(47)];

    test('without a rule the chain is empty and everything goes out', async () => {
      await apply(lab, [{ inbound: [] }]);
      expect(await rulesIn(lab, 'service-outbound')).toEqual([]);
      expect(await verdicts(lab, anything)).toEqual(anything.map(() => 'accept'));
    });

    test('with one, a drop stands at the end and only what it names goes out', async () => {
      await apply(lab, [{ inbound: [], outbound: [allow('tcp', 80, '10.0.0.1')] }]);
      expect((await rulesIn(lab, 'service-outbound')).at(-1)).toBe(`oifname "${driver}" drop`);
      expect(await verdicts(lab, anything)).toEqual(['accept', 'drop', 'drop', 'drop']);
    });

    test('without it again, the drop is gone', async () => {
      await apply(lab, [{ inbound: [] }]);
      expect(await rulesIn(lab, 'service-outbound')).toEqual([]);
    });
  });

  test('reference 1.2 (10): the default inbound chain stands literally and in order, and all inbound traffic is allowed', async () => {
    await apply(lab, [asCreated], true);
    expect(await rulesIn(lab, 'service-inbound')).toEqual([
      `iifname "${driver}" ct state established,related accept`,
      `iifname "${driver}" icmpv6 type { echo-request, echo-reply } accept`,
      `iifname "${driver}" icmp type { echo-reply, echo-request } accept`,
      `iifname "${driver}" meta nfproto ipv4 accept`,
      `iifname "${driver}" meta nfproto ipv6 accept`,
      `iifname "${driver}" drop`,
    ]);
    const anything = ['203.0.113.1', '2001:db8::1'].flatMap((address) => [
      from(address).tcp(22),
      from(address).udp(0),
      from(address).ping(),
      from(address).protocol(47),
    ]);
    expect(await verdicts(lab, anything)).toEqual(anything.map(() => 'accept'));
  });

  test('reference 1.2 (11): the default group as data opens inbound, and its empty outbound list leaves outbound open', async () => {
    await apply(lab, [asCreated]);
    const anything = ['203.0.113.1', '2001:db8::1'].flatMap((address) => [
      from(address).tcp(1),
      to(address).tcp(1),
      from(address).protocol(253),
      to(address).ping(),
    ]);
    expect(await verdicts(lab, anything)).toEqual(anything.map(() => 'accept'));
  });

  describe('reference 1.2 (12): a new rule set clears the affected chain and installs all rules again', () => {
    const first: WrittenGroup = {
      inbound: [allow('tcp', 80, '10.0.0.1'), allow('udp', 53)],
      outbound: [allow('tcp', 443)],
    };
    const second: WrittenGroup = { inbound: [allow('tcp', 81, '10.0.0.1')], outbound: [allow('tcp', 443)] };
    const packets = [
      from('10.0.0.1').tcp(80),
      from('10.0.0.1').tcp(81),
      from('10.0.0.1').udp(53),
      to('10.0.0.1').tcp(443),
    ];

    test('nothing of the old rules stays, all of the new ones are there', async () => {
      await update(lab, first);
      expect(await verdicts(lab, packets)).toEqual(['accept', 'drop', 'accept', 'accept']);
      await update(lab, second);
      expect(await verdicts(lab, packets)).toEqual(['drop', 'accept', 'drop', 'accept']);
      expect((await installed(lab))?.chains.size).toBe(rulesetOf(second).helpers.length + 2);
    });

    test('the affected chain is flushed and filled in one transaction; the other one is not touched', async () => {
      await update(lab, first);
      const { flip } = await planFor(lab, rulesetOf(second));
      expect(flip.filter((command) => command.kind !== 'addTable')).toEqual([
        { kind: 'flushChain', name: 'service-inbound' },
        ...rulesetOf(second).inbound.rules.map((rule) => ({ kind: 'addRule', chain: 'service-inbound', rule })),
      ]);
      expect(await planFor(lab, rulesetOf(first))).toMatchObject({ stage: [], flip: [], collect: [] });
    });

    test('until the flip the old rules hold, from the flip on the new ones', async () => {
      await update(lab, first);
      const { stage, flip, collect } = await planFor(lab, rulesetOf(second));
      await load(lab, stage);
      expect(await verdicts(lab, packets)).toEqual(['accept', 'drop', 'accept', 'accept']);
      await load(lab, flip);
      expect(await verdicts(lab, packets)).toEqual(['drop', 'accept', 'drop', 'accept']);
      await load(lab, collect);
      expect(await verdicts(lab, packets)).toEqual(['drop', 'accept', 'drop', 'accept']);
    });
  });

  describe('reference 1.2 (13): what is installed is reconciled with what is intended', () => {
    const group: WrittenGroup = { inbound: [allow('tcp', 80)], outbound: [allow('tcp', 443)] };
    const packets = [
      from('10.0.0.1').tcp(80),
      from('10.0.0.1').tcp(22),
      to('10.0.0.1').tcp(443),
      to('10.0.0.1').tcp(22),
    ];
    const intended = ['accept', 'drop', 'accept', 'drop'];

    test.each([
      [
        'an accept in front of our rules',
        'insert rule inet service service-inbound accept',
        ['accept', 'accept', 'accept', 'drop'],
      ],
      [
        'a drop in front of our rules',
        'insert rule inet service service-outbound drop',
        ['accept', 'drop', 'drop', 'drop'],
      ],
      ['a flushed chain', 'flush chain inet service service-inbound', ['accept', 'accept', 'accept', 'drop']],
      ['a deleted table', 'delete table inet service', ['accept', 'accept', 'accept', 'accept']],
    ])('a manual change is overwritten: %s', async (_, change, changed) => {
      await update(lab, group);
      await lab.load(`${change}\n`);
      expect(await verdicts(lab, packets)).toEqual(changed);
      await update(lab, group);
      expect(await verdicts(lab, packets)).toEqual(intended);
    });

    test('tables of others are left alone', async () => {
      await lab.load(
        'table inet theirs { chain input { type filter hook input priority 10; policy accept; tcp dport 9 drop; }; }\n',
      );
      const theirs = async (): Promise<string> =>
        (await lab.device.run(['nft', '-a', 'list', 'table', 'inet', 'theirs'])).stdout;
      const before = await theirs();
      await update(lab, group);
      await update(lab, shut);
      await apply(lab, [group]);
      expect(await theirs()).toBe(before);
      await lab.load('delete table inet theirs\n');
    });
  });

  test('reference 1.2 (14): overlapping ranges collapse, for IPv4 and IPv6 alike', async () => {
    const inbound = [
      allow('tcp', 80, '10.0.0.0/8', '10.1.0.0/16', '10.1.2.3', '10.1.2.0-10.1.3.7', '9.255.255.250-10.0.0.5'),
      allow('tcp', 80, 'fd00::/16', 'fd00:1::/32', 'fd00:1::7', 'fcff:ffff:ffff:ffff:ffff:ffff:ffff:fff0-fd00::5'),
      allow('tcp', [70, 80], '10.1.2.3', 'fd00:1::7'),
    ];
    await apply(lab, [{ inbound }]);
    const inside = [
      '9.255.255.250',
      '10.0.0.0',
      '10.1.2.3',
      '10.255.255.255',
      'fd00::',
      'fd00:1::7',
      'fd00:ffff:ffff:ffff:ffff:ffff:ffff:ffff',
    ];
    const outside = ['9.255.255.249', '11.0.0.0', 'fd01::', 'fcff:ffff:ffff:ffff:ffff:ffff:ffff:ffef'];
    expect(
      await verdicts(
        lab,
        inside.map((address) => from(address).tcp(80)),
      ),
    ).toEqual(inside.map(() => 'accept'));
    expect(
      await verdicts(
        lab,
        outside.map((address) => from(address).tcp(80)),
      ),
    ).toEqual(outside.map(() => 'drop'));
    expect(
      await verdicts(lab, [
        from('10.1.2.3').tcp(70),
        from('10.1.2.4').tcp(70),
        from('fd00:1::7').tcp(70),
        from('fd00:1::8').tcp(70),
      ]),
    ).toEqual(['accept', 'drop', 'accept', 'drop']);
  });

  test('reference 1.2 (15): `ip` with a port range is the same range for tcp and for udp, and for nothing else', async () => {
    await apply(lab, [{ inbound: [allow('ip', [7_000, 7_001])] }]);
    const sources = [from('10.0.0.1'), from('fd00::1')];
    const admitted = sources.flatMap((source) => [
      source.tcp(7_000),
      source.tcp(7_001),
      source.udp(7_000),
      source.udp(7_001),
    ]);
    const refused = sources.flatMap((source) => [
      source.tcp(6_999),
      source.udp(7_002),
      source.ping(),
      source.protocol(132),
    ]);
    expect(await verdicts(lab, admitted)).toEqual(admitted.map(() => 'accept'));
    expect(await verdicts(lab, refused)).toEqual(refused.map(() => 'drop'));
  });
});
