/** Proves that blocks keep every sum exactly, and that their filter never hides one. */
import { expect, test } from 'vitest';
import type { FlowFilter, FlowSum } from '../data/flows.ts';
import { addUp as steps, blockFilter, inBlocks, readBlock, sumsPerBlock, wantedBits, writeBlock } from './sum-block.ts';

const sum = (more: Partial<FlowSum> = {}): FlowSum => ({
  direction: 'in',
  verdict: 'refused',
  family: 4,
  far: 0x6440_0001n,
  protocol: 6,
  port: 443,
  packets: 1,
  ...more,
});

function addUp(blocks: readonly Buffer[]): readonly FlowSum[] {
  const adding = steps(blocks);
  for (;;) {
    const { done, value } = adding.next();
    if (done === true) return value;
  }
}

const many: readonly FlowSum[] = Array.from({ length: 300 }, (_, index) =>
  sum({
    direction: index % 2 === 0 ? 'in' : 'out',
    verdict: index % 3 === 0 ? 'refused' : 'admitted',
    ...(index % 5 === 0
      ? { family: 6, far: (0xfd00n << 112n) + BigInt(index) }
      : { far: 0x0a00_0000n + BigInt(index) }),
    ...(index % 7 === 0 ? { protocol: 58, port: 0 } : { port: index * 200 }),
    packets: 1 + index * 3_000_000_000,
  }),
);

test('a block gives back the sums that were written, of both families and with large counts', () => {
  expect([...readBlock(writeBlock(many))].map(({ sum: read }) => read)).toEqual(many);
  expect([...readBlock(writeBlock([]))]).toEqual([]);
});

test('reading by a filter finds what a search of all sums finds, and no filter of a block hides it', () => {
  const filters: readonly FlowFilter[] = [
    { direction: 'out' },
    { verdict: 'refused' },
    { direction: 'in', verdict: 'admitted', protocol: 6 },
    { port: 400 },
    { protocol: 58 },
    { port: 0 },
    { far: [{ family: 4, first: 0x0a00_0002n, last: 0x0a00_0002n }] },
    { far: [{ family: 4, first: 0x0a00_0000n, last: 0x0a00_00ffn }], direction: 'in' },
    {
      far: [
        { family: 6, first: (0xfd00n << 112n) + 10n, last: (0xfd00n << 112n) + 10n },
        { family: 4, first: 1n, last: 1n },
      ],
    },
  ];
  const isWanted = (one: FlowSum, { direction, verdict, protocol, port, far }: FlowFilter): boolean =>
    (direction ?? one.direction) === one.direction &&
    (verdict ?? one.verdict) === one.verdict &&
    (protocol ?? one.protocol) === one.protocol &&
    (port === undefined || (one.protocol === 6 && port === one.port)) &&
    (far === undefined ||
      far.some(({ family, first, last }) => family === one.family && first <= one.far && one.far <= last));
  const bits = (text: string): bigint => BigInt(`0${text}`);
  for (const filter of filters) {
    const expected = many.filter((one) => isWanted(one, filter));
    expect([...readBlock(writeBlock(many), filter)].map(({ sum: read }) => read)).toEqual(expected);
    for (const one of expected) {
      const held = bits(blockFilter([one]));
      const wanted = wantedBits(filter)?.map(bits) ?? [0n];
      expect(wanted.some((mask) => (held & mask) === mask)).toBe(true);
    }
  }
});

test('a filter rules out most blocks that lack what is wanted', () => {
  const [block = []] = inBlocks(many);
  const held = BigInt(`0${blockFilter(block)}`);
  const hits = Array.from({ length: 1_000 }, (_, index) => BigInt(0x0b00_0000 + index)).filter((far) => {
    const [mask = ''] = wantedBits({ far: [{ family: 4, first: far, last: far }] }) ?? [];
    return (held & BigInt(`0${mask}`)) === BigInt(`0${mask}`);
  });
  expect(block).toHaveLength(sumsPerBlock);
  expect(hits.length).toBeLessThan(300);
});

test('the same traffic is one sum, and nothing else is', () => {
  const others = [sum({ port: 80 }), sum({ verdict: 'admitted' }), sum({ direction: 'out' }), sum({ far: 7n })];
  const blocks = [writeBlock([sum({ packets: 2 }), ...others]), writeBlock([sum({ packets: 3 })])];
  expect(addUp(blocks)).toEqual([sum({ packets: 5 }), ...others]);
  expect(addUp([writeBlock(many)])).toEqual(many);
});

test('a device that lies about its packets for an hour does not keep the hour from being stored', () => {
  const reports = Array.from({ length: 400 }, () => writeBlock([sum({ packets: 1_000_000_000_000 })]));
  const [added] = addUp(reports);
  expect(added?.packets).toBe(2 ** 48 - 1);
  expect([...readBlock(writeBlock(addUp(reports)))].map(({ sum: read }) => read)).toEqual([added]);
});

test('adding up pauses between blocks', () => {
  const blocks = Array.from({ length: 5 }, () => writeBlock([sum()]));
  expect([...steps(blocks)]).toHaveLength(blocks.length);
});
