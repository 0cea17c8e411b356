/** Proves which open connections are listed, in a real kernel: those over the interface that the policy admits, each tuple once. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { connect, Namespace } from '../../../test/lib/netns.ts';
import { systemClock } from '../../client/clock.ts';
import { policyOf, written } from '../../nft/policies.fixture.ts';
import { printAddress } from '../../policy/address.ts';
import { NetlinkChannel } from '../netlink/channel.ts';
import { netlinkFlowTable } from '../netlink/flow-table.ts';
import { netlinkRouteTable } from '../netlink/route-table.ts';
import { commandFlowTable } from './command-flow-table.ts';
import { commandRouteTable } from './command-route-table.ts';
import { listOpenFlows } from './open-flows.ts';
import { commandRunner } from './run-command.ts';

const established = '--state ESTABLISHED -u SEEN_REPLY,ASSURED -t 600';
const made = [
  `-I -p tcp -s 100.64.0.2 -d 100.64.0.1 --sport 40000 --dport 22 ${established}`,
  `-I -p tcp -s 100.64.0.2 -d 100.64.0.1 --sport 40001 --dport 22 ${established}`,
  `-I -p tcp -s fd7f::2 -d fd7f::1 --sport 40002 --dport 22 ${established}`,
  // No rule admits it.
  `-I -p tcp -s 100.64.0.2 -d 100.64.0.1 --sport 40003 --dport 23 ${established}`,
  // Over another interface.
  `-I -p tcp -s 10.9.0.2 -d 10.9.0.1 --sport 40004 --dport 22 ${established}`,
  '-I -p udp -s 100.64.0.1 -d 100.64.0.2 --sport 40005 --dport 500 -u SEEN_REPLY,ASSURED -t 600',
  // A question that was answered, and a connection that has ended.
  '-I -p udp -s 100.64.0.1 -d 100.64.0.2 --sport 40007 --dport 53 -u SEEN_REPLY -t 600',
  '-I -p tcp -s 100.64.0.1 -d 100.64.0.2 --sport 40008 --dport 443 --state TIME_WAIT -u SEEN_REPLY,ASSURED -t 600',
  '-I -p icmp -s 100.64.0.2 -d 100.64.0.1 --icmp-type 8 --icmp-code 0 --icmp-id 77 -u SEEN_REPLY -t 600',
  // The agent's way to its server.
  `-I -p tcp -s 100.64.0.1 -d 100.64.0.9 --sport 40006 --dport 8443 ${established}`,
];

const policy = policyOf([written('tcp', 22, 22), written('icmp', 0, 0)]);

const server = {
  addresses: { v4: [{ first: 0x6440_0009n, last: 0x6440_0009n }], v6: [] },
  port: 8_443,
  resolvers: { v4: [], v6: [] },
};

describe.each(['programs', 'netlink'] as const)('open connections, by %s', (way) => {
  let device: Namespace;
  let peer: Namespace;
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
    channel = new NetlinkChannel({ clock: systemClock, prefix: device.inside([]) });
    for (const line of made) await device.run(['conntrack', ...line.split(' ')]);
  });
  afterEach(async () => {
    await channel.close();
    await Promise.all([device.close(), peer.close()]);
  });

  const list = () => {
    const run = commandRunner(device.inside([]));
    const [table, routes] = [commandFlowTable(run), commandRouteTable(run)];
    const ports =
      way === 'programs'
        ? { table, routes }
        : { table: netlinkFlowTable(channel, table), routes: netlinkRouteTable(channel, routes) };
    return listOpenFlows(ports, { interface: 'rf0', policy, serverAccess: server, containers: 'guard' });
  };

  test('are those over the interface that the policy admits, each tuple once, without the agent’s own', async () => {
    const { tuples, beyond } = await list();
    const shown = tuples.map(
      ({ direction, family, far, protocol, port }) => `${direction} ${printAddress(family, far)} ${protocol}/${port}`,
    );
    expect(shown.toSorted()).toEqual([
      'inbound 100.64.0.2 1/undefined',
      'inbound 100.64.0.2 6/22',
      'inbound fd7f::2 6/22',
      'outbound 100.64.0.2 17/500',
    ]);
    expect(beyond).toBe(0);
  });

  test('are not known while the interface is not there', async () => {
    await device.run(['ip', 'link', 'set', 'rf0', 'down']);
    await device.run(['ip', 'link', 'set', 'rf0', 'name', 'gone']);
    await expect(list()).rejects.toThrow('rf0 is not there');
  });
});
