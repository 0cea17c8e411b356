/** Proves which tracked connections a change of policy takes the ground from. */
import { describe, expect, test } from 'vitest';
import { policyOf, written } from '../../nft/policies.fixture.ts';
import { isRevoked, localFlow, parseFlow, parseFlows } from './flows.ts';

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

const flowOf = (line: string) => {
  const flow = parseFlow(line);
  return flow && localFlow(flow, isLocal);
};

describe('a tracked connection', () => {
  test.each([
    [inboundTcp, { direction: 'inbound', local: '100.64.0.1', remote: '100.64.0.2' }],
    [outboundUdp, { direction: 'outbound', local: 'fd7f::1', remote: 'fd7f::2' }],
    [inboundPing, { direction: 'inbound', local: '100.64.0.1', remote: '100.64.0.2' }],
    [translated, { direction: 'inbound', local: '127.0.0.1', remote: '100.64.0.2' }],
    [forwarded, undefined],
    [inside, undefined],
  ])('%s', (line, expected) => {
    if (expected === undefined) expect(flowOf(line)).toBeUndefined();
    else expect(flowOf(line)).toMatchObject(expected);
  });

  test('is read whole', () => {
    expect(parseFlow(inboundPing)).toEqual({
      family: 4,
      protocol: 1,
      original: { src: '100.64.0.2', dst: '100.64.0.1', sport: 0, dport: 0 },
      reply: { src: '100.64.0.1', dst: '100.64.0.2', sport: 0, dport: 0 },
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
  ])('%s is judged by what opened it', (_, line, before, after, revoked) => {
    const flow = flowOf(line);
    expect(flow !== undefined && isRevoked(flow, before, after)).toBe(revoked);
  });
});
