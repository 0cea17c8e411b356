/** Proves the exact bytes of nft text: each node, each command, each line end. */
import { describe, expect, test } from 'vitest';
import { parseRange } from '../policy/address.ts';
import { mergeRanges, type Range, type RangeSet } from '../policy/range.ts';
import {
  accept,
  drop,
  goOn,
  goto,
  inboundName,
  jump,
  makesSet,
  mapRule,
  outboundName,
  rule,
  targets,
  type Command,
  type Match,
  type Rule,
} from './ast.ts';
import { parseInterfaceName, parseObjectName } from './names.ts';
import { printCommands, printRule } from './print.ts';

const eth0 = parseInterfaceName('eth0');
const leaf = parseObjectName('a-1');
const ranges = (...texts: string[]): RangeSet =>
  mergeRanges(
    texts.map((text): Range => {
      const range = parseRange(text);
      if ('fault' in range) throw new Error(text);
      return range;
    }),
  );

/** Enough to be worth a hash, and no two beside each other. */
const evens = [0, 2, 4, 6, 8, 10, 12, 14, 16];

const matches: readonly [Match, string, 'set' | 'no set'][] = [
  [{ kind: 'interface', side: 'iifname', name: eth0 }, 'iifname "eth0"', 'no set'],
  [{ kind: 'interface', side: 'oifname', name: eth0 }, 'oifname "eth0"', 'no set'],
  [{ kind: 'established' }, 'ct state established,related', 'no set'],
  [{ kind: 'family', family: 4 }, 'meta nfproto ipv4', 'no set'],
  [{ kind: 'family', family: 6 }, 'meta nfproto ipv6', 'no set'],
  [{ kind: 'icmpTypes', family: 4, types: [0, 8] }, 'icmp type { echo-reply, echo-request }', 'set'],
  [{ kind: 'icmpTypes', family: 6, types: [128, 129] }, 'icmpv6 type { echo-request, echo-reply }', 'set'],
  [{ kind: 'icmpTypes', family: 4, types: [13] }, 'icmp type 13', 'no set'],
  [{ kind: 'icmpTypeRange', family: 6, first: 133, last: 136 }, 'icmpv6 type 133-136', 'no set'],
  [{ kind: 'hopLimit', value: 255 }, 'ip6 hoplimit 255', 'no set'],
  [{ kind: 'protocol', protocol: 58 }, 'meta l4proto 58', 'no set'],
  [{ kind: 'ports', from: 22, to: 22 }, 'th dport 22', 'no set'],
  [{ kind: 'ports', from: 80, to: 84, transport: 'tcp' }, 'tcp dport 80-84', 'no set'],
  [
    { kind: 'ports', from: 80, to: 84, transport: 'udp', original: true },
    'meta l4proto 17 ct original proto-dst 80-84',
    'no set',
  ],
  [{ kind: 'address', family: 4, side: 'saddr', ranges: ranges('10.0.0.7') }, 'ip saddr 10.0.0.7', 'no set'],
  [{ kind: 'address', family: 4, side: 'daddr', ranges: ranges('10.0.0.0/8') }, 'ip daddr 10.0.0.0/8', 'no set'],
  [
    { kind: 'address', family: 4, side: 'saddr', ranges: ranges('10.0.0.0-10.0.0.9', '1.2.3.4', '9.0.0.0/8') },
    'ip saddr { 1.2.3.4, 9.0.0.0-10.0.0.9 }',
    'set',
  ],
  [
    { kind: 'address', family: 4, side: 'saddr', ranges: ranges(...evens.map((n) => `10.0.${n}.0/24`)) },
    `ip saddr & 255.255.255.0 == { ${evens.map((n) => `10.0.${n}.0`).join(', ')} }`,
    'set',
  ],
  [
    { kind: 'address', family: 4, side: 'saddr', ranges: ranges('10.0.0.3', ...evens.map((n) => `10.0.0.${n}`)) },
    `ip saddr { 10.0.0.0, 10.0.0.2, 10.0.0.3, 10.0.0.4, 10.0.0.6, 10.0.0.8, 10.0.0.10, 10.0.0.12, 10.0.0.14, 10.0.0.16 }`,
    'set',
  ],
  [
    {
      kind: 'address',
      family: 6,
      side: 'daddr',
      ranges: ranges('fd01::/63', ...evens.map((n) => `fd00:0:0:${n}::/64`)),
    },
    `ip6 daddr & ffff:ffff:ffff:ffff:: == { fd00::, ${evens
      .slice(1)
      .map((n) => `fd00:0:0:${n}::`)
      .join(', ')}, fd01::, fd01:0:0:1:: }`,
    'set',
  ],
  [
    { kind: 'address', family: 4, side: 'daddr', ranges: ranges('11.0.0.0/8', ...evens.map((n) => `10.0.${n}.0/24`)) },
    `ip daddr { ${evens.map((n) => `10.0.${n}.0/24`).join(', ')}, 11.0.0.0/8 }`,
    'set',
  ],
  [
    { kind: 'address', family: 6, side: 'daddr', ranges: ranges('fd00::/64', 'fd01::1-fd01::5') },
    'ip6 daddr { fd00::/64, fd01::1-fd01::5 }',
    'set',
  ],
];

const actions: readonly [Rule['action'], string, 'set' | 'no set', readonly string[]][] = [
  [accept, 'accept', 'no set', []],
  [drop, 'drop', 'no set', []],
  [goOn, 'continue', 'no set', []],
  [jump(leaf), 'jump a-1', 'no set', ['a-1']],
  [goto(leaf), 'goto a-1', 'no set', ['a-1']],
  [
    { kind: 'protocolMap', entries: [6, 58].map((protocol) => ({ protocol, verdict: goto(leaf) })) },
    'meta l4proto vmap { 6 : goto a-1, 58 : goto a-1 }',
    'set',
    ['a-1', 'a-1'],
  ],
  [
    {
      kind: 'portMap',
      transport: 'tcp',
      entries: [
        { from: 22, to: 22, verdict: goto(leaf) },
        { from: 80, to: 84, verdict: accept },
      ],
    },
    'tcp dport vmap { 22 : goto a-1, 80-84 : accept }',
    'set',
    ['a-1'],
  ],
  [
    {
      kind: 'addressMap',
      family: 4,
      side: 'saddr',
      entries: [
        { first: 0x0a00_0000n, last: 0x0a00_00ffn, verdict: jump(leaf) },
        { first: 0x0a00_0100n, last: 0x0a00_0105n, verdict: accept },
      ],
    },
    'ip saddr vmap { 10.0.0.0/24 : jump a-1, 10.0.1.0-10.0.1.5 : accept }',
    'set',
    ['a-1'],
  ],
];

const peers = parseObjectName('peers6-1');

const commands: { readonly [K in Command['kind']]: readonly [Extract<Command, { kind: K }>, string] } = {
  addTable: [{ kind: 'addTable' }, 'add table inet service\n'],
  deleteTable: [{ kind: 'deleteTable' }, 'delete table inet service\n'],
  addCounter: [{ kind: 'addCounter', name: parseObjectName('in-refused') }, 'add counter inet service in-refused\n'],
  addBaseChain: [
    { kind: 'addBaseChain', name: inboundName, hook: 'input' },
    'add chain inet service service-inbound { type filter hook input priority filter; policy accept; }\n',
  ],
  addChain: [{ kind: 'addChain', name: leaf }, 'add chain inet service a-1\n'],
  flushChain: [{ kind: 'flushChain', name: outboundName }, 'flush chain inet service service-outbound\n'],
  deleteChain: [{ kind: 'deleteChain', name: leaf }, 'delete chain inet service a-1\n'],
  addRule: [
    {
      kind: 'addRule',
      chain: inboundName,
      rule: rule([{ kind: 'interface', side: 'iifname', name: eth0 }, { kind: 'established' }], accept),
    },
    'add rule inet service service-inbound iifname "eth0" ct state established,related accept\n',
  ],
  addMap: [{ kind: 'addMap', name: peers, family: 6 }, 'add map inet service peers6-1 { type ipv6_addr : counter; }\n'],
  addElements: [
    {
      kind: 'addElements',
      map: peers,
      family: 4,
      elements: [
        [1n, parseObjectName('in-a')],
        [0x0a00_0001n, parseObjectName('in-b')],
      ],
    },
    'add element inet service peers6-1 { 0.0.0.1 : "in-a", 10.0.0.1 : "in-b" }\n',
  ],
  deleteElements: [
    { kind: 'deleteElements', map: peers, family: 6, addresses: [1n, 2n] },
    'delete element inet service peers6-1 { ::1, ::2 }\n',
  ],
  addSet: [
    { kind: 'addSet', name: parseObjectName('in-refused-port4-1'), of: 'port4' },
    'add set inet service in-refused-port4-1 { type ipv4_addr . inet_proto . inet_service; size 4096; flags dynamic,timeout; timeout 10m; }\n',
  ],
  flushSet: [
    { kind: 'flushSet', name: parseObjectName('in-refused-port4-1') },
    'flush set inet service in-refused-port4-1\n',
  ],
  startSecondGeneration: [
    { kind: 'startSecondGeneration', set: parseObjectName('observed-second') },
    'add set inet service observed-second { type nf_proto; elements = { ipv4, ipv6 }; }\n',
  ],
  deleteObject: [
    { kind: 'deleteObject', object: 'ct helper', name: parseObjectName('ftp') },
    'delete ct helper inet service ftp\n',
  ],
};

describe('the printer', () => {
  test.each(matches.map(([match, text, set]) => ({ match, text, set })))(
    'prints a condition as $text',
    ({ match, text, set }) => {
      const whole = rule([match], accept);
      expect(printRule(whole)).toBe(`${text} accept`);
      expect(makesSet(whole)).toBe(set === 'set');
    },
  );

  test.each(actions.map(([action, text, set, chains]) => ({ action, text, set, chains })))(
    'prints an action as $text',
    ({ action, text, set, chains }) => {
      const whole = rule([], action);
      expect(printRule(whole)).toBe(text);
      expect(makesSet(whole)).toBe(set === 'set');
      expect(targets(whole)).toEqual(chains);
    },
  );

  test.each(Object.values(commands).map(([command, line]) => ({ command, line })))(
    'prints a command as $line',
    ({ command, line }) => {
      expect(printCommands([command])).toBe(line);
    },
  );

  test('ends every line of a batch, and an empty batch is no text', () => {
    expect(printCommands([])).toBe('');
    expect(printCommands([{ kind: 'addTable' }, { kind: 'addChain', name: leaf }])).toBe(
      'add table inet service\nadd chain inet service a-1\n',
    );
  });

  test('counts what meets all conditions before it acts', () => {
    const counter = parseObjectName('in-refused');
    expect(printRule(rule([{ kind: 'family', family: 6 }], drop, counter))).toBe(
      'meta nfproto ipv6 counter name in-refused drop',
    );
  });

  test('lets an address look up who counts it, after all other conditions', () => {
    const ports: Match = { kind: 'ports', from: 1, to: 9 };
    expect(printRule(mapRule([ports], { family: 6, side: 'saddr', map: peers }, drop))).toBe(
      'th dport 1-9 counter name ip6 saddr map @peers6-1 drop',
    );
  });

  test('joins conditions and action by one space', () => {
    expect(
      printRule(
        rule(
          [
            { kind: 'family', family: 6 },
            { kind: 'hopLimit', value: 1 },
          ],
          drop,
        ),
      ),
    ).toBe('meta nfproto ipv6 ip6 hoplimit 1 drop');
  });
});
