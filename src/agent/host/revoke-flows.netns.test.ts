/** Proves that a withdrawn rule also ends the connections that it had admitted, and no others. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { connect, Namespace } from '../../../test/lib/netns.ts';
import { Talker } from '../../../test/lib/talker.ts';
import { systemClock } from '../../client/clock.ts';
import { parseInterfaceName } from '../../nft/names.ts';
import { policyOf, written } from '../../nft/policies.fixture.ts';
import type { CanonicalPolicy } from '../../policy/canonical.ts';
import type { Direction } from '../../policy/rule.ts';
import { EndedFlows } from '../kernel/ended-flows.ts';
import { Enforcer } from '../kernel/enforcer.ts';
import { NetlinkChannel } from '../netlink/channel.ts';
import { netlinkFlowTable } from '../netlink/flow-table.ts';
import { netlinkRouteTable } from '../netlink/route-table.ts';
import { commandFlowTable } from './command-flow-table.ts';
import { commandRouteTable } from './command-route-table.ts';
import type { FarEnd, FlowTable } from './flow-table.ts';
import type { RouteTable } from './route-table.ts';
import { parseFlows } from './flows.ts';
import { RealNft } from '../kernel/real-nft.ts';
import { revokeFlows, type RevocationPorts, type Revoked } from './revoke-flows.ts';
import { commandRunner } from './run-command.ts';

const both = policyOf([written('tcp', 2_200, 2_200), written('tcp', 8_000, 8_000), written('icmp', 0, 0)]);
const web = policyOf([written('tcp', 8_000, 8_000)]);
const webOutToo = policyOf([written('tcp', 8_000, 8_000)], [written('tcp', 8_000, 8_000)]);

/** Long enough for dozens of packets and several retransmissions. */
const aWhile = 1_500;

const ways = ['programs', 'netlink'] as const;

describe.each(ways)('a withdrawn rule, by %s', (way) => {
  let device: Namespace;
  let peer: Namespace;
  let scratch: string;
  let nft: RealNft;
  let enforcer: Enforcer;
  let ended: EndedFlows;
  let channel: NetlinkChannel;
  beforeEach(async () => {
    [device, peer] = await Promise.all([Namespace.create(), Namespace.create()]);
    await connect(
      { namespace: device, name: 'rf0', addresses: ['100.64.0.1/24', 'fd7f::1/64'] },
      { namespace: peer, name: 'rf0', addresses: ['100.64.0.2/24', 'fd7f::2/64'] },
    );
    await connect(
      { namespace: device, name: 'other', addresses: ['10.9.0.1/24'] },
      { namespace: peer, name: 'other', addresses: ['10.9.0.2/24'] },
    );
    scratch = await mkdtemp(join(tmpdir(), 'ringfence-revoke-'));
    nft = new RealNft({ clock: systemClock, scratch, prefix: device.inside([]) });
    enforcer = new Enforcer({ nft, random: Math.random });
    ended = new EndedFlows({ nft });
    channel = new NetlinkChannel({ clock: systemClock, prefix: device.inside([]) });
    await put(both);
  });
  afterEach(async () => {
    await Promise.all([nft.close(), channel.close()]);
    await Promise.all([device.close(), peer.close()]);
    await rm(scratch, { recursive: true, force: true });
  });

  const put = (policy: CanonicalPolicy) =>
    enforcer.apply({ policy, interface: parseInterfaceName('rf0'), neighbourDiscovery: true });
  const never: FlowTable = {
    list: () => Promise.reject(new Error('the programs were not to be asked')),
    listSockets: () => Promise.reject(new Error('the programs were not to be asked')),
    forget: () => Promise.reject(new Error('the programs were not to be asked')),
  };
  const block: RevocationPorts['block'] = (flows) =>
    ended.block(flows, { interface: parseInterfaceName('rf0'), containers: 'ignore' });
  const nowhere: RouteTable = {
    readLocal: () => Promise.reject(new Error('the programs were not to be asked')),
    over: () => Promise.reject(new Error('the programs were not to be asked')),
  };
  const revoke = (before: CanonicalPolicy, after: CanonicalPolicy, remotes?: readonly FarEnd[]): Promise<Revoked> => {
    const run = commandRunner(device.inside([]));
    const [table, routes] =
      way === 'programs'
        ? [commandFlowTable(run), commandRouteTable(run)]
        : [netlinkFlowTable(channel, never), netlinkRouteTable(channel, nowhere)];
    return revokeFlows({ routes, table, block }, { interface: 'rf0', before: [before], after, remotes });
  };
  const tracked = async (): Promise<number[]> => {
    const { stdout } = await device.run(['conntrack', '-L']);
    return parseFlows(stdout)
      .filter(({ protocol }) => protocol === 6)
      .map(({ reply }) => reply.sport)
      .toSorted((a, b) => a - b);
  };

  test('ends inbound connections that it had admitted, of both families, and they do not come back', async () => {
    await Talker.serve(device, 2_200, 8_000);
    const revoked = [await Talker.call(peer, '100.64.0.1', 2_200), await Talker.call(peer, 'fd7f::1', 2_200)];
    const admitted = [await Talker.call(peer, '100.64.0.1', 8_000), await Talker.call(peer, 'fd7f::1', 8_000)];
    const elsewhere = await Talker.call(peer, '10.9.0.1', 2_200);
    await put(web);
    for (const talker of revoked) expect(await talker.isHeard()).toBe(true);

    expect(await revoke(both, web)).toEqual({ count: 2 });

    expect(await Promise.all(revoked.map((talker) => talker.isSilenced(aWhile)))).toEqual([true, true]);
    for (const talker of [...admitted, elsewhere]) expect(await talker.isHeard()).toBe(true);
    // Nothing is taken from the table that other interfaces and firewalls use too.
    expect((await tracked()).filter((port) => port === 8_000)).toEqual([8_000, 8_000]);
    expect(await tracked()).toContain(2_200);
    expect(await revoke(both, web)).toEqual({ count: 0 });
  });

  test('ends outbound connections once outbound is closed to them', async () => {
    const server = await Talker.serve(peer, 2_200, 8_000);
    const revoked = [await Talker.call(device, '100.64.0.2', 2_200), await Talker.call(device, 'fd7f::2', 2_200)];
    const admitted = await Talker.call(device, '100.64.0.2', 8_000);
    const elsewhere = await Talker.call(device, '10.9.0.2', 2_200);
    await put(webOutToo);
    expect(await revoke(both, webOutToo)).toEqual({ count: 2 });
    // Each side has learnt of it by its own next packet.
    const learns = async (talker: Talker, of: string): Promise<void> =>
      expect(await talker.next((line) => line.startsWith(of), 0), of).toBeDefined();
    await Promise.all([
      ...revoked.map((talker) => learns(talker, 'closed')),
      learns(server, 'closed 2200 fd7f::1'),
      learns(server, 'closed 2200 ::ffff:100.64.0.1'),
    ]);
    expect(await Promise.all(revoked.map((talker) => talker.isHeard(aWhile)))).toEqual([false, false]);
    for (const talker of [admitted, elsewhere]) expect(await talker.isHeard()).toBe(true);
  });

  test('ends a connection between link-local addresses of the interface', async () => {
    const { stdout } = await device.run(['ip', '-j', '-6', 'address', 'show', 'dev', 'rf0', 'scope', 'link']);
    const [, address] = /"local":"(fe80[^"]+)"/.exec(stdout) ?? [];
    await Talker.serve(device, 2_200);
    const talker = await Talker.call(peer, `${address}%rf0`, 2_200);
    await put(web);
    expect(await revoke(both, web)).toEqual({ count: 1 });
    expect(await talker.isSilenced(aWhile)).toBe(true);
  });

  test('leaves sockets alone that listen, also where a connection has ended and is still tracked', async () => {
    const server = await Talker.serve(device, 2_200);
    const talker = await Talker.call(peer, '100.64.0.1', 2_200);
    talker.hangUp();
    expect(await server.next((line) => line.startsWith('closed'), 0)).toBeDefined();
    await put(web);
    expect(await revoke(both, web)).toEqual({ count: 1 });
    await put(both);
    expect(await (await Talker.call(peer, '100.64.0.1', 2_200)).isHeard()).toBe(true);
  });

  test('ends only connections with the far ends that may have lost something, where these are given', async () => {
    await Talker.serve(device, 2_200);
    await Talker.serve(peer, 2_200);
    const many = Array.from({ length: 20 }, () => Talker.call(peer, '100.64.0.1', 2_200));
    const talkers = [...(await Promise.all(many)), await Talker.call(peer, 'fd7f::1', 2_200)];
    const outward = await Talker.call(device, '100.64.0.2', 2_200);
    await put(webOutToo);
    const far = (address: string, direction: Direction): FarEnd => ({ address, direction });
    const counts = [
      await revoke(both, webOutToo, [far('fd7f::2', 'inbound'), far('100.64.0.9', 'inbound')]),
      await revoke(both, webOutToo, [far('100.64.0.2', 'inbound')]),
      await revoke(both, webOutToo, [far('100.64.0.2', 'outbound')]),
    ].map(({ count }) => count);
    // The programs list everything, and so end everything at once.
    expect(counts).toEqual(way === 'netlink' ? [1, 20, 1] : [22, 0, 0]);
    const silenced = [...talkers, outward].map((talker) => talker.isSilenced(aWhile));
    expect(await Promise.all(silenced)).toEqual(silenced.map(() => true));
    expect((await device.run(['ss', '--tcp', '--numeric', '--no-header', 'state', 'established'])).stdout).toBe('');
  });

  test('keeps connections ended one by one, and by their ports where they are too many', async () => {
    await Talker.serve(device, 2_200);
    await Talker.serveDatagrams(device, 5_000, 8_000);
    const open = policyOf([...[2_200, 8_000].map((port) => written('tcp', port, port)), written('udp', 1, 65_535)]);
    const udp = { protocol: 'udp' } as const;
    await put(open);
    const talkers = [
      await Talker.call(peer, '100.64.0.1', 2_200),
      await Talker.call(peer, '100.64.0.1', 2_200),
      await Talker.call(peer, 'fd7f::1', 5_000, udp),
      await Talker.call(peer, '100.64.0.1', 5_000, udp),
      await Talker.call(peer, '100.64.0.1', 5_000, udp),
    ];
    const stays = await Talker.call(peer, '100.64.0.1', 8_000, udp);
    const narrow = policyOf([written('udp', 8_000, 8_000)]);
    await put(narrow);
    // Only one of each kind is remembered by itself.
    ended = new EndedFlows({ nft, mostOfKind: 1 });
    expect(await revoke(open, narrow)).toEqual({ count: 5 });
    expect(await Promise.all(talkers.map((talker) => talker.isSilenced(aWhile)))).toEqual(talkers.map(() => true));
    expect(await stays.isHeard()).toBe(true);
    const { stdout } = await device.run(['nft', 'list', 'table', 'inet', 'service-ended']);
    expect(stdout).toMatch(/set port-inbound \{[^}]*elements = \{ (?:tcp \. 2200|udp \. 5000)/);
  });

  test('has nothing to end where there is no connection', async () => {
    await put(web);
    expect(await revoke(both, web)).toEqual({ count: 0 });
  });

  test('that cannot be followed up says why, and is in force all the same', async () => {
    await Talker.serve(device, 2_200);
    await Talker.call(peer, '100.64.0.1', 2_200);
    await put(web);
    const run = commandRunner(device.inside([]));
    const without = (missing: string) => {
      const crippled = (argv: readonly string[], input?: string) =>
        run(argv[0] === missing ? [`no-such-${missing}`, ...argv.slice(1)] : argv, input);
      // A channel whose helper is not there leaves everything to the programs.
      const absent = new NetlinkChannel({ clock: systemClock, argv: ['no-such-perl'] });
      const [table, routes] = [commandFlowTable(crippled), commandRouteTable(crippled)];
      if (way === 'programs') return { routes, table, block };
      return { routes: netlinkRouteTable(absent, routes), table: netlinkFlowTable(absent, table), block };
    };
    const revocation = { interface: 'rf0', before: [both], after: web };
    await expect(revokeFlows(without('conntrack'), revocation)).rejects.toMatchObject({ code: 'cannot_run' });
    await expect(revokeFlows(without('ss'), { ...revocation, untracked: true })).rejects.toMatchObject({
      code: 'cannot_run',
    });
    expect(await revokeFlows(without('ss'), { ...revocation, before: [web] })).toEqual({ count: 0 });
  });
});
