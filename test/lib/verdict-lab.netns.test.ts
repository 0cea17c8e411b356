/** Proves the lab before it proves anything else: it sees every packet, and it distinguishes accept from drop. */
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import type { Packet, Transport } from '../../src/policy/packet.ts';
import { plainShape } from './probe-bytes.ts';
import { driver, VerdictLab, type ProbeRequest } from './verdict-lab.ts';

const transports: readonly Transport[] = [
  { kind: 'tcp', dport: 80 },
  { kind: 'tcp', dport: 0 },
  { kind: 'udp', dport: 53 },
  { kind: 'udp', dport: 0 },
  { kind: 'icmp', type: 8 },
  { kind: 'icmp', type: 0 },
  { kind: 'icmp', type: 3 },
  { kind: 'icmp', type: 13 },
  { kind: 'icmpv6', type: 128 },
  { kind: 'icmpv6', type: 129 },
  { kind: 'icmpv6', type: 1 },
  { kind: 'icmpv6', type: 135 },
  { kind: 'icmpv6', type: 136 },
  ...[2, 4, 33, 41, 47, 50, 51, 89, 132, 136, 253].map((protocol) => ({ kind: 'other', protocol }) as const),
];
const remotes4 = [0x0100_0000n, 0x0a00_0001n, 0x7dff_ffffn, 0xac10_0001n, 0xdfff_ffffn];
const remotes6 = [
  0x2n,
  0x2001_0db8n << 96n,
  (0xfd00n << 112n) | 0xffffn,
  (0xfe80n << 112n) | 7n,
  (0xfeffn << 112n) | 1n,
];

/** Every kind of probe from (or to) every corner of the address space. */
const everything: readonly ProbeRequest[] = (['inbound', 'outbound'] as const).flatMap((direction) =>
  ([4, 6] as const).flatMap((family) =>
    (family === 4 ? remotes4 : remotes6).flatMap((remote) =>
      transports.flatMap((transport) =>
        [
          plainShape,
          { ...plainShape, options: true },
          { ...plainShape, flags: 0x10 },
          { ...plainShape, fragmented: true },
          { ...plainShape, fragmented: true, options: true },
        ].map((shape) => ({
          packet: { direction, family, remote, transport } satisfies Packet,
          shape,
        })),
      ),
    ),
  ),
);

const none = 'table inet service\ndelete table inet service\n';
const filter = (inbound: string, outbound: string): string => `${none}
table inet service {
  chain service-inbound { type filter hook input priority filter; policy accept; ${inbound}; }
  chain service-outbound { type filter hook output priority filter; policy accept; ${outbound}; }
}`;

describe('the verdict lab', () => {
  let lab: VerdictLab;
  beforeAll(async () => {
    lab = await VerdictLab.open();
  });
  afterAll(() => lab?.close());

  test('without a filter every probe passes', async () => {
    await lab.load(none);
    expect(await lab.probe(everything)).toEqual(everything.map(() => 'accept'));
  });

  test('with a filter that drops all, every probe arrives and none passes', async () => {
    await lab.load(filter(`iifname "${driver}" drop`, `oifname "${driver}" drop`));
    expect(await lab.probe(everything)).toEqual(everything.map(() => 'drop'));
  });

  /** Before the filter, which connection tracking is a part of. */
  const early = (priority: number, rule: string): string => `${none}
table inet service {
  chain tracked { type filter hook input priority filter; ct state new accept; }
  chain early { type filter hook prerouting priority ${priority}; ${rule}; }
}`;
  const datagram: Packet = {
    direction: 'inbound',
    family: 6,
    remote: 0xfd7fn << 112n,
    transport: { kind: 'udp', dport: 53 },
  };

  test.each([
    ['the first fragment', -460, 'frag more-fragments 1 drop'],
    ['the second fragment', -460, 'frag frag-off != 0 drop'],
    ['what the kernel should have put together', -420, 'frag frag-off != 0 drop'],
    ['all', -460, 'ip6 dscp 42 drop'],
  ])('what never comes to the filter is named: %s', async (what, priority, rule) => {
    const warn = vi.spyOn(console, 'warn').mockReturnValue();
    onTestFinished(() => warn.mockRestore());
    await lab.load(early(priority, rule));
    const shape = { ...plainShape, fragmented: what !== 'all' };
    await expect(lab.probe([{ packet: datagram, shape }])).rejects.toThrow(`device's filter: ${what} of`);
    expect(warn).toHaveBeenCalledTimes(2);
  });

  test('what a machine loses by chance is sent again, and told', async () => {
    const warn = vi.spyOn(console, 'warn').mockReturnValue();
    onTestFinished(() => warn.mockRestore());
    await lab.load(early(-460, 'ip6 dscp 42 numgen inc mod 1000 == 0 drop'));
    expect(await lab.probe([{ packet: datagram }])).toEqual(['accept']);
    expect(warn.mock.calls).toEqual([[expect.stringContaining('all of inbound IPv6 from fd7f::')]]);
  });

  test('connection tracking takes no probe for a part of a known connection, however often it is sent', async () => {
    await lab.load(
      filter(
        `iifname "${driver}" ct state established,related accept; iifname "${driver}" drop`,
        `oifname "${driver}" ct state established,related accept; oifname "${driver}" drop`,
      ),
    );
    expect(await lab.probe(everything)).toEqual(everything.map(() => 'drop'));
    await lab.load(
      filter(
        `iifname "${driver}" ct state new,invalid,untracked accept`,
        `oifname "${driver}" ct state new,invalid,untracked accept`,
      ),
    );
    expect(await lab.probe(everything)).toEqual(everything.map(() => 'accept'));
  });

  test('a filter on the far end, the port or the transport divides the probes exactly there', async () => {
    const expected = everything.map(({ packet }) => {
      const { transport, direction, remote } = packet;
      if (direction === 'inbound') return transport.kind === 'tcp' && transport.dport === 80 ? 'accept' : 'drop';
      return remote === 0xac10_0001n || remote === 0x2n ? 'accept' : 'drop';
    });
    await lab.load(
      filter(
        `iifname "${driver}" tcp dport 80 accept; iifname "${driver}" drop`,
        `oifname "${driver}" ip daddr 172.16.0.1 accept; oifname "${driver}" ip6 daddr ::2 accept; oifname "${driver}" drop`,
      ),
    );
    expect(await lab.probe(everything)).toEqual(expected);
  });
});
