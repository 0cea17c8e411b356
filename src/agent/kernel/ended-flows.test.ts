/** Proves how ended connections are remembered: one by one within bounds, until they are admitted again or silent. */
import { describe, expect, test } from 'vitest';
import { parseInterfaceName } from '../../nft/names.ts';
import { localFlows, parseFlows, type LocalFlow } from '../host/flows.ts';
import { EndedFlows, type EndedFlowsOptions } from './ended-flows.ts';
import { FakeNft } from './fake-nft.fixture.ts';

const place = { interface: parseInterfaceName('rf0'), containers: 'guard' } as const;
const elsewhere = { interface: parseInterfaceName('rf1'), containers: 'guard' } as const;

const isLocal = (address: string): boolean => address === '100.64.0.1';
const flowsOf = (...lines: readonly string[]): readonly LocalFlow[] =>
  parseFlows(lines.join('\n')).flatMap((flow) => localFlows(flow, isLocal));

const udp = (port: number): string =>
  `udp 17 29 src=100.64.0.2 dst=100.64.0.1 sport=${port} dport=53 src=100.64.0.1 dst=100.64.0.2 sport=53 dport=${port} mark=0`;
const outward =
  'tcp 6 29 ESTABLISHED src=100.64.0.1 dst=100.64.0.3 sport=40000 dport=443 src=100.64.0.3 dst=100.64.0.1 sport=443 dport=40000 mark=0';
const outwardUdp = outward.replace('tcp 6', 'udp 17');
const published =
  'udp 17 29 src=100.64.0.2 dst=100.64.0.1 sport=5000 dport=8080 src=10.88.0.2 dst=100.64.0.2 sport=80 dport=5000 mark=0';
const esp = 'unknown 50 29 src=100.64.0.2 dst=100.64.0.1 src=100.64.0.1 dst=100.64.0.2 mark=0';
const ping =
  'icmp 1 29 src=100.64.0.2 dst=100.64.0.1 type=8 code=0 id=7 src=100.64.0.1 dst=100.64.0.2 type=0 code=0 id=7 mark=0';

function world(options: Partial<EndedFlowsOptions> = {}) {
  const nft = new FakeNft();
  const ended = new EndedFlows({ nft, ...options });
  const held = async (): Promise<readonly string[] | undefined> =>
    (await nft.listEnded())?.elements.map(
      ({ kind, remote, local, protocol, remotePort, localPort, direction, port, forwarded = '' }) =>
        `${kind} ${remote}:${remotePort} ${local}:${localPort} ${protocol} ${direction} ${port} ${forwarded}`.trim(),
    );
  return { nft, ended, held };
}

describe('ended connections', () => {
  test('have a table only while there are any, and are told by what rules judge them by', async () => {
    const { ended, held } = world();
    expect(await ended.block(flowsOf(ping), place)).toMatchObject({ count: 1, toForget: [{ protocol: 1 }] });
    expect(await held()).toBeUndefined();
    await ended.block(flowsOf(udp(1), outward, published, esp), place);
    expect(await held()).toEqual([
      'stream4 100.64.0.3:443 100.64.0.1:40000 6 outbound 443',
      'tuple4 100.64.0.2:1 100.64.0.1:53 17 inbound 53',
      'tuple4 100.64.0.2:5000 100.64.0.1:8080 17 inbound 8080 redirected',
      'tuple4 100.64.0.2:5000 10.88.0.2:80 17 inbound 8080 redirected',
      'pair4 100.64.0.2:0 100.64.0.1:0 50 inbound 0',
    ]);
  });

  test('beyond the bound are told by the port from which the other side would begin them', async () => {
    const { ended, held } = world({ mostOfKind: 2 });
    await ended.block(flowsOf(udp(1), udp(2), udp(3), udp(4), outwardUdp), place);
    expect(await held()).toEqual([
      'tuple4 100.64.0.2:1 100.64.0.1:53 17 inbound 53',
      'tuple4 100.64.0.2:2 100.64.0.1:53 17 inbound 53',
      'port-inbound :0 :53 17 inbound 0',
      'port-outbound :443 :0 17 outbound 0',
    ]);
    expect(ended.size).toBe(4);
  });

  test('go when they are admitted again, also those that the kernel has let go meanwhile', async () => {
    const { nft, ended, held } = world();
    await ended.block(flowsOf(udp(1), udp(2), outwardUdp), place);
    nft.tamperEnded(({ elements, rules }) => ({ rules, elements: elements.slice(1) }));
    await ended.release(({ direction }) => direction === 'inbound', place);
    expect(await held()).toEqual(['tuple4 100.64.0.3:443 100.64.0.1:40000 17 outbound 443']);
    expect(ended.size).toBe(1);
  });

  test('last as long as the kernel would remember them; those of TCP for days, unless they are ending or elsewhere', async () => {
    const silence = { stream: 432_000, tuple: 300, pair: 600 };
    const { nft, ended, held } = world({ silence: () => silence });
    await ended.block(flowsOf(outward, published.replace('udp 17', 'tcp 6')), place);
    expect((await nft.listEnded())?.rules).toContain(JSON.stringify(silence));
    await ended.block(flowsOf(outward.replace('ESTABLISHED', 'TIME_WAIT').replaceAll('40000', '40001')), place);
    const away = flowsOf(outward.replaceAll('40000', '40002')).map((flow) => ({ ...flow, isElsewhere: true }));
    await ended.block(away, place);
    expect((await held())?.map((element) => element.split(' ').slice(0, 3).join(' '))).toEqual([
      'stream4 100.64.0.3:443 100.64.0.1:40000',
      'stream4 100.64.0.2:5000 100.64.0.1:8080',
      'stream4 100.64.0.2:5000 10.88.0.2:80',
      'tuple4 100.64.0.3:443 100.64.0.1:40001',
      'tuple4 100.64.0.3:443 100.64.0.1:40002',
    ]);
  });

  test('that are elsewhere do not count, are never forgotten, and take only half of the room', async () => {
    const { ended, held } = world({ mostOfKind: 4 });
    const away = flowsOf(udp(1), udp(2), udp(3), udp(4)).map((flow) => ({ ...flow, isElsewhere: true }));
    expect(await ended.block(away, place)).toEqual({ count: 0, toForget: [], beyond: 2 });
    const here = await ended.block(flowsOf(udp(5), udp(6), udp(7)), place);
    expect(here).toMatchObject({ count: 3, toForget: [{ original: { sport: 7 } }], beyond: 0 });
    expect((await held())?.map((element) => element.split(' ').slice(0, 2).join(' '))).toEqual([
      ...[1, 2, 5, 6].map((port) => `tuple4 100.64.0.2:${port}`),
      'port-inbound :0',
    ]);
  });

  test('that are blocked again are not counted again, and are put back where the kernel has let them go', async () => {
    const { nft, ended, held } = world();
    expect(await ended.block(flowsOf(udp(1), published), place)).toMatchObject({ count: 2 });
    const before = await held();
    nft.tamperEnded(({ elements, rules }) => ({ rules, elements: elements.slice(3) }));
    expect(await ended.block(flowsOf(udp(1), published), place)).toMatchObject({ count: 0 });
    expect(await held()).toEqual(before);
    expect(ended.size).toBe(3);
  });

  test('count once, however often it takes to block them', async () => {
    const { nft, ended, held } = world({ mostOfKind: 2 });
    await ended.block(flowsOf(udp(1)), place);
    for (let attempt = 0; attempt < 5; attempt += 1) {
      nft.failNext('timed_out', 'none');
      await expect(ended.block(flowsOf(udp(2), udp(3)), place)).rejects.toMatchObject({ code: 'timed_out' });
      expect(ended.size).toBe(1);
    }
    await ended.block(flowsOf(udp(2)), place);
    expect(ended.size).toBe(2);
    expect(await held()).toEqual([
      'tuple4 100.64.0.2:1 100.64.0.1:53 17 inbound 53',
      'tuple4 100.64.0.2:2 100.64.0.1:53 17 inbound 53',
    ]);
  });

  test('are kept for another interface once that is the one', async () => {
    const { nft, ended, held } = world();
    await ended.block(flowsOf(udp(1)), place);
    const before = await nft.listEnded();
    await ended.release(() => false, elsewhere);
    expect((await nft.listEnded())?.rules).not.toBe(before?.rules);
    expect(await held()).toHaveLength(1);
  });

  test('are taken up by the next run', async () => {
    const { nft, ended } = world();
    await ended.block(flowsOf(udp(1), published), place);
    const next = new EndedFlows({ nft });
    await next.release(() => false, place);
    expect(next.size).toBe(3);
    await next.release(({ forwarded }) => forwarded === 'redirected', place);
    expect(next.size).toBe(1);
    expect((await nft.listEnded())?.elements).toHaveLength(1);
  });

  test('leave no table behind when the last one was silent for long enough', async () => {
    const { nft, ended, held } = world();
    await ended.block(flowsOf(udp(1), udp(2)), place);
    nft.tamperEnded(({ elements, rules }) => ({ rules, elements: elements.slice(1) }));
    expect(await ended.inspect()).toBe(false);
    expect(ended.size).toBe(1);
    nft.tamperEnded(({ rules }) => ({ rules, elements: [] }));
    await ended.inspect();
    expect(await held()).toBeUndefined();
  });

  test.each([
    ['its rules are changed', (nft: FakeNft) => nft.tamperEnded(({ elements }) => ({ elements, rules: 'none' }))],
    ['it is deleted', (nft: FakeNft) => nft.tamperEnded(() => undefined)],
  ])('have their table back when %s', async (_, change) => {
    const { nft, ended, held } = world();
    await ended.block(flowsOf(udp(1)), place);
    await ended.inspect();
    const before = await nft.listEnded();
    change(nft);
    expect(await ended.inspect()).toBe(true);
    expect(await nft.listEnded()).toEqual(before);
    change(nft);
    await ended.block(flowsOf(udp(2)), place);
    await ended.repair();
    expect(await held()).toHaveLength(2);
  });
});
