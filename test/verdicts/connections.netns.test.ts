/** Proves that a group is stateful in both directions (reference 1.2 (9), (10)): real conversations, and probes that claim to belong to them. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Packet } from '../../src/policy/packet.ts';
import { connect, Namespace } from '../lib/netns.ts';
import { encodeProbe, plainShape, type Shape } from '../lib/probe-bytes.ts';
import { ask, serve } from '../lib/talk.ts';
import { device4, device6, driver, VerdictLab } from '../lib/verdict-lab.ts';
import { optionsFor, productCompiler } from './install.ts';
import { apply, verdicts } from './device.ts';
import { from, to } from './packets.ts';
import { allow, policyOfGroups } from './table.ts';

const elsewhere = allow('tcp', 1, '192.0.2.1');
const families = [
  { family: 'IPv4', own: '100.64.0.1', peer: '100.64.0.2', router: '198.51.100.1' },
  { family: 'IPv6', own: 'fd7f::1', peer: 'fd7f::2', router: '2001:db8::1' },
] as const;

/** Four bytes of the error's own, which hold the size that would fit, then the start of the packet that was too big. */
function tooBigAbout(packet: Packet, sport: number, size: number): Buffer {
  const own = Buffer.alloc(4);
  own.writeUInt32BE(size, 0);
  const local = packet.family === 4 ? device4 : device6;
  const [quoted = Buffer.alloc(0)] = encodeProbe({ packet, local, id: 1, shape: { ...plainShape, sport } });
  return Buffer.concat([own, quoted]);
}

describe('a group is stateful', () => {
  let lab: VerdictLab;
  beforeAll(async () => {
    lab = await VerdictLab.open();
    const servers = families.flatMap(({ own, peer }) =>
      (['tcp', 'udp'] as const).flatMap((protocol) => [
        serve({ namespace: lab.device, protocol, address: own, port: 7_001 }),
        serve({ namespace: lab.peer, protocol, address: peer, port: 7_002 }),
      ]),
    );
    await Promise.all(servers);
  });
  afterAll(() => lab?.close());

  describe.each(families)('over $family', ({ family, own, peer, router }) => {
    test.each(['tcp', 'udp'] as const)(
      'reference 1.2 (9): replies to an admitted inbound %s connection leave though outbound is closed',
      async (protocol) => {
        await apply(lab, [{ inbound: [allow(protocol, 7_001)], outbound: [elsewhere] }]);
        expect(await verdicts(lab, [to(peer)[protocol](7_002)])).toEqual(['drop']);
        expect(await ask({ namespace: lab.peer, protocol, address: own, port: 7_001 })).toBe('answered');
      },
    );

    test.each(['tcp', 'udp'] as const)(
      'reference 1.2 (10): replies to a %s connection that the device made come in though inbound is closed',
      async (protocol) => {
        await apply(lab, [{ inbound: [], outbound: [allow(protocol, 7_002)] }]);
        expect(await verdicts(lab, [from(peer)[protocol](7_001)])).toEqual(['drop']);
        expect(await ask({ namespace: lab.device, protocol, address: peer, port: 7_002 })).toBe('answered');
      },
    );

    test('a packet belongs to a connection only with all of its ports and addresses', async () => {
      await apply(lab, [{ inbound: [], outbound: [allow('udp', 7_002)] }]);
      const localPort = family === 'IPv4' ? 47_001 : 47_002;
      expect(await ask({ namespace: lab.device, protocol: 'udp', address: peer, port: 7_002, localPort })).toBe(
        'answered',
      );
      const reply: Shape = { ...plainShape, sport: 7_002 };
      expect(
        await verdicts(
          lab,
          [
            from(peer).udp(localPort),
            from(peer).udp(localPort + 7),
            from(router).udp(localPort),
            from(peer).tcp(localPort),
          ],
          reply,
        ),
      ).toEqual(['accept', 'drop', 'drop', 'drop']);
      expect(await verdicts(lab, [from(peer).udp(localPort)], { ...plainShape, sport: 7_003 })).toEqual(['drop']);
    });

    test('an ICMP error about a connection of the device is related and comes in from any router; one about nothing does not', async () => {
      await apply(lab, [{ inbound: [], outbound: [allow('udp', 7_002)] }]);
      const localPort = family === 'IPv4' ? 47_011 : 47_012;
      expect(await ask({ namespace: lab.device, protocol: 'udp', address: peer, port: 7_002, localPort })).toBe(
        'answered',
      );
      const error = family === 'IPv4' ? from(router).icmp(3) : from(router).icmpv6(2);
      const code = family === 'IPv4' ? 4 : 0;
      const about = (sport: number): Shape => ({
        ...plainShape,
        code,
        about: tooBigAbout(to(peer).udp(7_002), sport, 1_280),
      });
      expect(await verdicts(lab, [error], about(localPort))).toEqual(['accept']);
      expect(await verdicts(lab, [error], about(localPort + 7))).toEqual(['drop']);
    });

    test('an ICMP error about an admitted inbound connection leaves though outbound is closed', async () => {
      await apply(lab, [{ inbound: [allow('udp', 7_001)], outbound: [elsewhere] }]);
      const localPort = family === 'IPv4' ? 47_021 : 47_022;
      expect(await ask({ namespace: lab.peer, protocol: 'udp', address: own, port: 7_001, localPort })).toBe(
        'answered',
      );
      const error = family === 'IPv4' ? to(peer).icmp(3) : to(peer).icmpv6(1);
      const code = family === 'IPv4' ? 3 : 4;
      const about = (sport: number): Shape => ({
        ...plainShape,
        code,
        about: tooBigAbout(from(peer).udp(7_001), sport, 0),
      });
      expect(await verdicts(lab, [error], about(localPort))).toEqual(['accept']);
      expect(await verdicts(lab, [error], about(localPort + 7))).toEqual(['drop']);
    });

    test('without the rule for established and related traffic these same packets would be dropped', async () => {
      const closed = policyOfGroups([{ inbound: [], outbound: [allow('udp', 7_002)] }]);
      const text = productCompiler(closed, optionsFor(false));
      await lab.load(text);
      const localPort = family === 'IPv4' ? 47_031 : 47_032;
      expect(await ask({ namespace: lab.device, protocol: 'udp', address: peer, port: 7_002, localPort })).toBe(
        'answered',
      );
      const reply: Shape = { ...plainShape, sport: 7_002 };
      expect(await verdicts(lab, [from(peer).udp(localPort)], reply)).toEqual(['accept']);
      await lab.load(
        text
          .split('\n')
          .filter((line) => !line.includes('ct state'))
          .join('\n'),
      );
      expect(await verdicts(lab, [from(peer).udp(localPort)], reply)).toEqual(['drop']);
    });

    test('a datagram in fragments is judged as a whole, by its port', async () => {
      await apply(lab, [{ inbound: [allow('udp', 7_001)] }]);
      expect(await ask({ namespace: lab.peer, protocol: 'udp', address: own, port: 7_001, size: 4_000 })).toBe(
        'answered',
      );
      const shape: Shape = { ...plainShape, fragmented: true };
      expect(await verdicts(lab, [from(peer).udp(7_001), from(peer).udp(7_002), from(peer).tcp(7_001)], shape)).toEqual(
        ['accept', 'drop', 'drop'],
      );
    });
  });
});

describe('path discovery works behind closed groups', () => {
  let lab: VerdictLab;
  let far: Namespace;
  beforeAll(async () => {
    [lab, far] = await Promise.all([VerdictLab.open(), Namespace.create()]);
    await connect(
      { namespace: lab.peer, name: 'far0', addresses: ['10.99.0.1/24', 'fd99::1/64'] },
      { namespace: far, name: 'far0', addresses: ['10.99.0.2/24', 'fd99::2/64'] },
    );
    // The narrow place is the router's way out alone: the far end does not know of it, so only an ICMP error can tell.
    await lab.peer.run(['ip', 'link', 'set', 'far0', 'mtu', '1300']);
    await lab.peer.sysctl({ 'net/ipv4/ip_forward': 1, 'net/ipv6/conf/all/forwarding': 1 });
    await far.run(['ip', '-batch', '-'], 'route add default via 10.99.0.1\nroute add default via fd99::1\n');
    await serve({ namespace: far, protocol: 'tcp', address: '::', port: 7_005 });
    await apply(lab, [{ inbound: [], outbound: [allow('tcp', 7_005)] }]);
  });
  afterAll(async () => {
    await Promise.all([lab?.close(), far?.close()]);
  });

  test.each(['10.99.0.2', 'fd99::2'])(
    'packet-too-big on the way to %s is related, comes in, and the transfer gets through',
    async (address) => {
      expect(await ask({ namespace: lab.device, protocol: 'tcp', address, port: 7_005, size: 200_000 })).toBe(
        'answered',
      );
      const { stdout } = await lab.device.run(['ip', 'route', 'get', address]);
      expect(stdout).toContain('mtu 1300');
    },
  );
});

describe('neighbour discovery works on an interface that needs it', () => {
  let lab: VerdictLab;
  beforeAll(async () => {
    lab = await VerdictLab.open();
    for (const end of [lab.device, lab.peer])
      await end.run(['ip', '-6', 'neigh', 'flush', 'dev', driver, 'nud', 'permanent']);
    await serve({ namespace: lab.device, protocol: 'tcp', address: '::', port: 7_001 });
    await serve({ namespace: lab.peer, protocol: 'tcp', address: '::', port: 7_002 });
  });
  afterAll(() => lab?.close());

  test('both ends find each other though both directions are closed', async () => {
    await apply(lab, [{ inbound: [allow('tcp', 7_001, 'fd7f::2')], outbound: [allow('tcp', 7_002, 'fd7f::2')] }], true);
    expect(await ask({ namespace: lab.peer, protocol: 'tcp', address: 'fd7f::1', port: 7_001 })).toBe('answered');
    await lab.device.run(['ip', '-6', 'neigh', 'flush', 'dev', driver]);
    expect(await ask({ namespace: lab.device, protocol: 'tcp', address: 'fd7f::2', port: 7_002 })).toBe('answered');
  });
});
