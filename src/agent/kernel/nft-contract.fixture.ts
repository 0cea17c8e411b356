/** Owns the contract suite of the port `Nft`. It runs on the fake, and on the kernel through `nft` and over netlink. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  accept,
  drop,
  goto,
  inboundName,
  jump,
  outboundName,
  portRule,
  protocolRule,
  rule,
  type Command,
  type Match,
  type Rule,
} from '../../nft/ast.ts';
import type { Installed } from '../../nft/read/listing.ts';
import { endedKinds, isPort, isTuple, type EndedElement } from '../../nft/ended-flows.ts';
import { parseInterfaceName, parseObjectName } from '../../nft/names.ts';
import { printRules } from '../../nft/print.ts';
import type { Range } from '../../policy/range.ts';
import { NftError, type Nft } from './nft.ts';

const [a, b, c] = [parseObjectName('from-a'), parseObjectName('from-b'), parseObjectName('from-c')];
const onDriver: Match = { kind: 'interface', side: 'iifname', name: parseInterfaceName('rf0') };

const table: Command = { kind: 'addTable' };
const chain = (name: typeof a): Command => ({ kind: 'addChain', name });
const base = (name: typeof a, hook: 'input' | 'output' = 'input'): Command => ({ kind: 'addBaseChain', name, hook });
const add = (name: typeof a, added: Rule): Command => ({ kind: 'addRule', chain: name, rule: added });
const flush = (name: typeof a): Command => ({ kind: 'flushChain', name });
const remove = (name: typeof a): Command => ({ kind: 'deleteChain', name });

const acceptAll = rule([], accept);
const dropHere = rule([onDriver], drop);
/** `count` lone addresses, none beside another. */
const many = (count: number): Rule => {
  const ranges = Array.from({ length: count }, (_, i): Range => ({
    first: 0x0a00_0000n + 2n * BigInt(i),
    last: 0x0a00_0000n + 2n * BigInt(i),
  }));
  return rule([{ kind: 'address', family: 4, side: 'saddr', ranges }], accept);
};

/** Look-ups of one entry, at the edges of what there is. */
const plain: readonly Rule[] = [
  ...[1, 6, 17, 58].map((protocol) => protocolRule([{ protocol, verdict: goto(a) }])),
  ...[
    [0, 0],
    [0, 65_535],
    [1, 65_535],
    [22, 22],
    [80, 84],
    [1_024, 2_047],
    [65_535, 65_535],
  ].flatMap(([from = 0, to = 0]) => [
    portRule({ transport: 'tcp', entries: [{ from, to, verdict: goto(a) }] }),
    portRule({ transport: 'udp', original: true, entries: [{ from, to, verdict: jump(a) }] }),
  ]),
];

const [peers4, peers6] = [parseObjectName('peers4'), parseObjectName('peers6')];
const [inA, inB] = [parseObjectName('in-a'), parseObjectName('in-b')];
const peers: readonly Command[] = [
  table,
  { kind: 'addCounter', name: inA },
  { kind: 'addCounter', name: inB },
  { kind: 'addMap', name: peers4, family: 4 },
  { kind: 'addMap', name: peers6, family: 6 },
];
type Member = readonly [bigint, typeof inA];
const join = (...elements: Member[]): Command => ({ kind: 'addElements', map: peers4, family: 4, elements });
const leave = (...addresses: bigint[]): Command => ({ kind: 'deleteElements', map: peers4, family: 4, addresses });
const [one, two, three] = [0x6440_0001n, 0x6440_0002n, 0x6440_0003n];
const farAway = (0xfd7fn << 112n) | 9n;
const membersOf = (installed: Installed | undefined, map = 'peers4'): unknown =>
  [...(installed?.objects.find(({ name }) => name === map)?.members?.elements ?? [])].toSorted(([x], [y]) =>
    x < y ? -1 : 1,
  );

/** One ended connection of each kind. */
const ended = endedKinds.map((kind): EndedElement => {
  const [remote, local] = kind.endsWith('6') ? ['fd00::1', 'fd00::2'] : ['100.64.0.1', '100.64.0.2'];
  const [hasTuple, hasPort] = [isTuple(kind), isPort(kind)];
  return {
    kind,
    remote: hasPort ? '' : remote,
    local: hasPort ? '' : local,
    protocol: hasTuple || hasPort ? 17 : 47,
    remotePort: hasTuple || kind === 'port-outbound' ? 443 : 0,
    localPort: hasTuple || kind === 'port-inbound' ? 40_000 : 0,
    direction: kind === 'port-inbound' ? 'inbound' : 'outbound',
    port: hasTuple || hasPort ? 443 : 0,
    ...(kind === 'tuple4' && { forwarded: 'translated' }),
  };
});
const endedPlace = {
  interface: parseInterfaceName('rf0'),
  containers: 'guard',
  silence: { stream: 900, tuple: 600, pair: 600 },
  size: 100,
} as const;

/** The parts of a listing that must agree, in an order of their own. */
const shape = (installed: Installed | undefined): unknown =>
  installed && {
    flagged: installed.flagged,
    objects: installed.objects,
    chains: [...installed.chains.values()]
      .toSorted((x, y) => (x.name < y.name ? -1 : 1))
      .map(({ name, attachment, rules }) => ({
        name,
        attachment,
        rules: rules.map((each) => (each.kind === 'known' ? printRules([each.rule]) : each)),
      })),
  };

const attached = (hook: string) => ({ type: 'filter', hook, priority: 0, policy: 'accept' });
const listed = (...chains: readonly (readonly [string, string | undefined, readonly Rule[]])[]) => ({
  flagged: false,
  objects: [],
  chains: chains.map(([name, hook, rules]) => ({
    name,
    attachment: hook === undefined ? undefined : attached(hook),
    rules: rules.map((each) => printRules([each])),
  })),
});

/** What is there before, what is run, and what is there after it or the word that it was refused. */
const cases: readonly [string, readonly Command[], readonly Command[], unknown][] = [
  ['a table is made', [], [table], listed()],
  ['a table that is there is left as it is', [table, chain(a)], [table], listed(['from-a', undefined, []])],
  ['a table goes with all it holds', [table, chain(a), add(a, acceptAll)], [{ kind: 'deleteTable' }], undefined],
  ['a table that is not there cannot go', [], [{ kind: 'deleteTable' }], 'refused'],
  ['a chain is made', [table], [chain(a)], listed(['from-a', undefined, []])],
  ['a chain needs its table', [], [chain(a)], 'refused'],
  [
    'a chain that is there keeps its rules',
    [table, chain(a), add(a, acceptAll)],
    [chain(a)],
    listed(['from-a', undefined, [acceptAll]]),
  ],
  ['a base chain hangs on its hook', [table], [base(inboundName)], listed([inboundName, 'input', []])],
  ['a base chain needs its table', [], [base(inboundName)], 'refused'],
  [
    'a base chain that is there keeps its rules',
    [table, base(outboundName, 'output'), add(outboundName, dropHere)],
    [base(outboundName, 'output')],
    listed([outboundName, 'output', [dropHere]]),
  ],
  ['a base chain cannot change its hook', [table, base(inboundName)], [base(inboundName, 'output')], 'refused'],
  ['a plain chain cannot become a base chain', [table, chain(a)], [base(a)], 'refused'],
  [
    'a chain is emptied',
    [table, chain(a), add(a, acceptAll), add(a, dropHere)],
    [flush(a)],
    listed(['from-a', undefined, []]),
  ],
  ['a chain that is not there cannot be emptied', [table], [flush(a)], 'refused'],
  ['a chain goes with its rules', [table, chain(a), add(a, acceptAll)], [remove(a)], listed()],
  ['a chain that is not there cannot go', [table], [remove(a)], 'refused'],
  [
    'a chain that a rule leads to cannot go',
    [table, chain(a), chain(b), add(b, rule([], jump(a)))],
    [remove(a)],
    'refused',
  ],
  [
    'a chain goes in the same batch as the rule that leads to it',
    [table, chain(a), chain(b), add(b, rule([], goto(a)))],
    [flush(b), remove(a)],
    listed(['from-b', undefined, []]),
  ],
  [
    'rules stand in the order in which they came',
    [table, chain(a)],
    [add(a, dropHere), add(a, many(3)), add(a, acceptAll)],
    listed(['from-a', undefined, [dropHere, many(3), acceptAll]]),
  ],
  ['a rule needs its chain', [table], [add(a, acceptAll)], 'refused'],
  ['a rule needs the chain that it leads to', [table, chain(a)], [add(a, rule([], jump(b)))], 'refused'],
  [
    'a rule cannot lead to a base chain',
    [table, chain(a), base(inboundName)],
    [add(a, rule([], jump(inboundName)))],
    'refused',
  ],
  [
    'packets cannot be led in circles',
    [table, base(inboundName), chain(a), chain(b), add(a, rule([], jump(b))), add(inboundName, rule([], jump(a)))],
    [add(b, rule([], goto(a)))],
    'refused',
  ],
  [
    'an object that is not there cannot go',
    [table],
    [{ kind: 'deleteObject', object: 'counter', name: parseObjectName('none') }],
    'refused',
  ],
  [
    'a map of ports leads to chains',
    [table, chain(a)],
    [
      chain(b),
      add(
        b,
        rule([], {
          kind: 'portMap',
          transport: 'tcp',
          entries: [
            { from: 22, to: 22, verdict: goto(a) },
            { from: 80, to: 84, verdict: accept },
          ],
        }),
      ),
    ],
    listed(
      ['from-a', undefined, []],
      [
        'from-b',
        undefined,
        [
          rule([], {
            kind: 'portMap',
            transport: 'tcp',
            entries: [
              { from: 22, to: 22, verdict: goto(a) },
              { from: 80, to: 84, verdict: accept },
            ],
          }),
        ],
      ],
    ),
  ],
  [
    'one protocol and one range of ports are conditions',
    [table, chain(a)],
    [chain(b), ...plain.map((each) => add(b, each))],
    listed(['from-a', undefined, []], ['from-b', undefined, plain]),
  ],
  ['nothing is done by an empty batch', [table, chain(a)], [], listed(['from-a', undefined, []])],
];

export function nftContract(name: string, open: () => Promise<{ nft: Nft; close: () => Promise<void> }>): void {
  describe(name, () => {
    let nft: Nft;
    let close: () => Promise<void>;
    beforeEach(async () => {
      ({ nft, close } = await open());
    });
    afterEach(() => close());

    test('there is no table at first', async () => {
      expect(await nft.list()).toBeUndefined();
    });

    test.each(cases)('%s', async (_, before, batch, after) => {
      await nft.run(before);
      const old = shape(await nft.list());
      if (after === 'refused') {
        await expect(nft.run(batch)).rejects.toMatchObject({ code: 'refused' });
        expect(shape(await nft.list())).toEqual(old);
      } else {
        await nft.run(batch);
        expect(shape(await nft.list())).toEqual(after);
      }
    });

    test('a counter counts for the rules that name it, goes with them only, and keeps its count when it is added again', async () => {
      const counter = parseObjectName('in-refused');
      const [count, countless]: [Command, Command] = [
        { kind: 'addCounter', name: counter },
        { kind: 'deleteObject', object: 'counter', name: counter },
      ];
      expect(await nft.counters()).toEqual([]);
      const counted = rule([], accept, counter);
      await expect(nft.run([table, chain(a), add(a, counted)])).rejects.toMatchObject({ code: 'refused' });
      await nft.run([table, count, chain(a), add(a, counted)]);
      expect(shape(await nft.list())).toEqual({
        ...listed(['from-a', undefined, [counted]]),
        objects: [{ object: 'counter', name: 'in-refused' }],
      });
      const [first] = await nft.counters();
      expect(first).toMatchObject({ name: 'in-refused', packets: 0, bytes: 0 });
      await nft.run([count]);
      expect(await nft.counters()).toEqual([first]);
      await expect(nft.run([countless])).rejects.toMatchObject({ code: 'refused' });
      await nft.run([flush(a), countless]);
      expect(await nft.counters()).toEqual([]);
      await nft.run([{ kind: 'deleteTable' }]);
      await nft.run([table, count]);
      const [second] = await nft.counters();
      expect(second?.incarnation).not.toBe(first?.incarnation);
    });

    test('members join and leave maps of both families', async () => {
      const far: Command = { kind: 'addElements', map: peers6, family: 6, elements: [[farAway, inB]] };
      await nft.run([...peers, join([one, inA], [two, inB]), far]);
      await nft.run([join([three, inA], [two, inB]), leave(one)]);
      expect(membersOf(await nft.list())).toEqual([
        [two, inB],
        [three, inA],
      ]);
      expect(membersOf(await nft.list(), peers6)).toEqual([[farAway, inB]]);
    });

    test.each<[string, Command]>([
      ['one that is not there leaves', leave(two)],
      ['one moves to another counter', join([one, inB])],
      ['the counter is not there', join([two, parseObjectName('in-none')])],
      ['the map is not there', { kind: 'addElements', map: a, family: 4, elements: [[two, inA]] }],
    ])('no member joins or leaves in a batch where %s', async (_, wrong) => {
      await nft.run([...peers, join([one, inA])]);
      await expect(nft.run([join([three, inA]), wrong])).rejects.toMatchObject({ code: 'refused' });
      expect(membersOf(await nft.list())).toEqual([[one, inA]]);
    });

    test('members join and leave by the thousand', async () => {
      const crowd = Array.from({ length: 3_000 }, (_, i): Member => [
        0x0a00_0000n + BigInt(i),
        i % 2 === 0 ? inA : inB,
      ]);
      await nft.run([...peers, join([one, inA])]);
      await nft.run([join(...crowd)]);
      expect(membersOf(await nft.list())).toEqual([...crowd, [one, inA]]);
      await nft.run([leave(...crowd.map(([address]) => address))]);
      expect(membersOf(await nft.list())).toEqual([[one, inA]]);
    });

    test('ended connections of every kind come and go, each batch whole or not at all', async () => {
      const held = async (): Promise<unknown> =>
        (await nft.listEnded())?.elements.toSorted((x, y) => endedKinds.indexOf(x.kind) - endedKinds.indexOf(y.kind));
      const change = (kind: 'addEnded' | 'deleteEnded', elements: readonly EndedElement[]) =>
        elements.map((each) => ({ kind, of: each.kind, elements: [each] }));
      expect(await held()).toBeUndefined();
      await expect(nft.run(change('addEnded', ended))).rejects.toMatchObject({ code: 'refused' });
      await nft.run([{ kind: 'makeEndedTable', ...endedPlace }]);
      await nft.run(change('addEnded', ended));
      await nft.run(change('addEnded', ended.slice(0, 1)));
      expect(await held()).toEqual(ended);
      await nft.run(change('deleteEnded', ended.slice(0, 1)));
      await expect(nft.run(change('deleteEnded', ended.toReversed()))).rejects.toMatchObject({ code: 'refused' });
      expect(await held()).toEqual(ended.slice(1));
      await nft.run([{ kind: 'removeEndedTable' }]);
      expect(await held()).toBeUndefined();
    });

    test('a batch that is refused at its end changes nothing, however large it is', async () => {
      await nft.run([table, chain(a), add(a, acceptAll)]);
      const old = shape(await nft.list());
      const batch = [flush(a), chain(b), add(b, many(3_000)), remove(c)];
      await expect(nft.run(batch)).rejects.toMatchObject({ code: 'refused' });
      expect(shape(await nft.list())).toEqual(old);
    });

    test('a large batch is one transaction like any other', async () => {
      await nft.run([table, chain(a), add(a, many(5_000))]);
      expect(shape(await nft.list())).toEqual(listed(['from-a', undefined, [many(5_000)]]));
    });

    test('calls take effect in the order in which they are made, and a refusal holds up nobody', async () => {
      const results = await Promise.allSettled([
        nft.run([table, chain(a)]),
        nft.run([add(a, acceptAll)]),
        nft.run([remove(b)]),
        nft.run([flush(a)]),
        nft.run([add(a, dropHere)]),
      ]);
      expect(results.map(({ status }) => status)).toEqual([
        'fulfilled',
        'fulfilled',
        'rejected',
        'fulfilled',
        'fulfilled',
      ]);
      expect(shape(await nft.list())).toEqual(listed(['from-a', undefined, [dropHere]]));
    });

    test('closing waits for what is under way, and later calls fail', async () => {
      const running = nft.run([table]);
      await Promise.all([running, nft.close()]);
      await expect(nft.run([table])).rejects.toEqual(expect.any(NftError));
      await expect(nft.list()).rejects.toMatchObject({ code: 'closed' });
    });
  });
}
