/** Proves which tracked connections a change of policy takes the ground from. */
import { describe, expect, test } from 'vitest';
import { policyOf, rangesOf, written } from '../../nft/policies.fixture.ts';
import { isRevoked, localFlows, parseFlow, parseFlows, revocationJudge, type LocalFlow } from './flows.ts';

const isLocal = (address: string): boolean => ['100.64.0.1', 'fd7f::1', '127.0.0.1'].includes(address);

const inboundTcp =
  'tcp      6 431999 ESTABLISHED src=100.64.0.2 dst=100.64.0.1 sport=59168 dport=22 src=100.64.0.1 dst=100.64.0.2 sport=22 dport=59168 [ASSURED] mark=0 use=1';
const outboundUdp =
  'udp      17 29 src=fd7f::1 dst=fd7f::2 sport=37825 dport=53 [UNREPLIED] src=fd7f::2 dst=fd7f::1 sport=53 dport=37825 mark=0 use=1';
const inboundPing =
  'icmp     1 29 src=100.64.0.2 dst=100.64.0.1 type=8 code=0 id=77 src=100.64.0.1 dst=100.64.0.2 type=0 code=0 id=77 mark=0 use=1';
const translated =
  'tcp      6 299 ESTABLISHED src=100.64.0.2 dst=100.64.0.1 sport=4000 dport=80 src=127.0.0.1 dst=100.64.0.2 sport=8080 dport=4000 [ASSURED] mark=0 use=1';
const forwarded =
  'tcp      6 299 ESTABLISHED src=100.64.0.2 dst=10.0.0.9 sport=4000 dport=80 src=10.0.0.9 dst=100.64.0.2 sport=80 dport=4000 mark=0 use=1';
const inside =
  'tcp      6 299 ESTABLISHED src=127.0.0.1 dst=127.0.0.1 sport=4000 dport=80 src=127.0.0.1 dst=127.0.0.1 sport=80 dport=4000 mark=0 use=1';

const published =
  'tcp      6 299 ESTABLISHED src=100.64.0.2 dst=100.64.0.1 sport=4000 dport=8080 src=10.88.0.2 dst=100.64.0.2 sport=80 dport=4000 [ASSURED] mark=0 use=1';
const masqueraded =
  'tcp      6 299 ESTABLISHED src=10.88.0.2 dst=100.64.0.2 sport=4000 dport=443 src=100.64.0.2 dst=100.64.0.1 sport=443 dport=4000 [ASSURED] mark=0 use=1';
const both =
  'tcp      6 299 ESTABLISHED src=100.64.0.2 dst=100.64.0.1 sport=4000 dport=8080 src=100.64.0.9 dst=100.64.0.1 sport=80 dport=4000 [ASSURED] mark=0 use=1';

const flowsOf = (line: string): readonly LocalFlow[] => {
  const flow = parseFlow(line);
  return flow === undefined ? [] : localFlows(flow, isLocal);
};

describe('a tracked connection', () => {
  test.each([
    [inboundTcp, [{ direction: 'inbound', local: '100.64.0.1', remote: '100.64.0.2' }]],
    [outboundUdp, [{ direction: 'outbound', local: 'fd7f::1', remote: 'fd7f::2' }]],
    [inboundPing, [{ direction: 'inbound', local: '100.64.0.1', remote: '100.64.0.2' }]],
    [translated, [{ direction: 'inbound', local: '127.0.0.1', remote: '100.64.0.2' }]],
    [published, [{ direction: 'inbound', remote: '100.64.0.2', forwarded: 'redirected' }]],
    [masqueraded, [{ direction: 'outbound', remote: '100.64.0.2', forwarded: 'translated' }]],
    [
      both,
      [
        { direction: 'inbound', remote: '100.64.0.2', forwarded: 'redirected' },
        { direction: 'outbound', remote: '100.64.0.9', forwarded: 'translated' },
      ],
    ],
    [forwarded, []],
    [inside, []],
  ])('%s', (line, expected) => {
    expect(flowsOf(line)).toMatchObject(expected);
  });

  test('is read whole', () => {
    expect(parseFlow(inboundPing)).toEqual({
      family: 4,
      protocol: 1,
      original: { src: '100.64.0.2', dst: '100.64.0.1', sport: 0, dport: 0 },
      reply: { src: '100.64.0.1', dst: '100.64.0.2', sport: 0, dport: 0 },
      isOpen: true,
      icmp: { type: 8, code: 0, id: 77 },
    });
    expect(parseFlows(`${inboundTcp}\nnonsense\n\n${outboundUdp}\n`).map(({ protocol }) => protocol)).toEqual([6, 17]);
  });

  const open = policyOf([written('ipv4', 0, 0), written('ipv6', 0, 0)]);
  const ssh = policyOf([written('tcp', 22, 22, '100.64.0.0/24')]);
  const web = policyOf([written('tcp', 8_080, 8_080)]);
  const pings = policyOf([written('icmp', 0, 0)]);
  const noDns = policyOf([], [written('tcp', 443, 443)]);
  const nothing = policyOf([]);

  test.each([
    ['inbound tcp', inboundTcp, ssh, nothing, true],
    ['inbound tcp', inboundTcp, open, ssh, false],
    ['inbound tcp, never admitted', inboundTcp, web, nothing, false],
    ['inbound tcp from elsewhere', inboundTcp, ssh, policyOf([written('tcp', 22, 22, '10.0.0.0/8')]), true],
    ['inbound ping', inboundPing, pings, ssh, true],
    ['inbound ping', inboundPing, open, pings, false],
    ['outbound udp', outboundUdp, nothing, noDns, true],
    ['outbound udp', outboundUdp, noDns, nothing, false],
    ['outbound udp', outboundUdp, nothing, policyOf([], [written('udp', 53, 53)]), false],
    ['translated to another port', translated, web, nothing, true],
    ['translated to another port', translated, open, web, false],
    ['redirected to a container', published, web, nothing, true],
    ['redirected to a container', published, open, web, false],
    [
      'redirected to a container, by the port it was made to',
      published,
      open,
      policyOf([written('tcp', 80, 80)]),
      true,
    ],
    ['of a container', masqueraded, nothing, policyOf([], [written('udp', 53, 53)]), true],
    ['of a container', masqueraded, nothing, noDns, false],
    ['only routed', forwarded, open, nothing, false],
  ])('%s is judged by what opened it', (_, line, before, after, revoked) => {
    expect(flowsOf(line).some((flow) => isRevoked(flow, [before], after))).toBe(revoked);
  });

  test('of the agent with its server stays, and one of a container there does not', () => {
    const address = rangesOf('100.64.0.2');
    const none = { v4: [], v6: [] };
    const serverAccess = { addresses: { v4: address, v6: [] }, port: 443, resolvers: none };
    const own =
      'tcp      6 299 ESTABLISHED src=100.64.0.1 dst=100.64.0.2 sport=4000 dport=443 src=100.64.0.2 dst=100.64.0.1 sport=443 dport=4000 [ASSURED] mark=0 use=1';
    const closed = policyOf([], [written('udp', 53, 53)]);
    const ends = (line: string): boolean =>
      flowsOf(line).some((flow) => isRevoked(flow, [nothing], closed, { serverAccess }));
    expect([ends(own), ends(masqueraded)]).toEqual([false, true]);
  });

  test('that is translated for others stays where they are left alone', () => {
    expect(flowsOf(published).some((flow) => isRevoked(flow, [web], nothing, { containers: 'ignore' }))).toBe(false);
  });

  test('is judged alike one by one and among many, also where only one thing tells it from another', () => {
    const lines = [inboundTcp, outboundUdp, inboundPing, translated, published, masqueraded, both];
    const others = lines.flatMap((line) => [
      line.replaceAll('=22 ', '=23 ').replaceAll('=80 ', '=81 ').replaceAll('=53 ', '=54 '),
      line.replace(/^tcp {6}6/, 'udp      17'),
      line.replaceAll('100.64.0.2', '100.64.0.3'),
    ]);
    const flows = [...lines, ...others].flatMap(flowsOf);
    const [wide, narrow] = [
      policyOf([written('tcp', 22, 8_080), written('icmp', 0, 0)], [written('udp', 53, 53)]),
      policyOf([written('tcp', 23, 8_080, '100.64.0.3')], [written('tcp', 443, 443)]),
    ];
    for (const options of [{}, { containers: 'ignore' } as const]) {
      const judge = revocationJudge([wide], narrow, options);
      const expected = flows.map((flow) => isRevoked(flow, [wide], narrow, options));
      expect(flows.map(judge)).toEqual(expected);
      expect(flows.toReversed().map(judge)).toEqual(expected.toReversed());
      expect(new Set(expected).size).toBe(2);
    }
  });
});
