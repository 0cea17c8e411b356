/** Proves that connections are listed and forgotten over netlink as conntrack would, in a real kernel, and that a lost helper is replaced. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Namespace } from '../../../test/lib/netns.ts';
import type { Direction } from '../../policy/rule.ts';
import { systemClock } from '../../client/clock.ts';
import { parseFlows, type Flow } from '../host/flows.ts';
import { NetlinkChannel } from './channel.ts';
import { forgetConnections } from './connections.ts';
import { listConnections } from './connections.fixture.ts';

/** Connections as conntrack makes them from the outside: of every kind that the agent looks at. */
const made = [
  '-I -p tcp -s 100.64.0.2 -d 100.64.0.1 --sport 40000 --dport 22 --state ESTABLISHED -u SEEN_REPLY,ASSURED -t 600',
  '-I -p tcp -s 100.64.0.3 -d 100.64.0.1 --sport 40001 --dport 22 --state ESTABLISHED -u SEEN_REPLY,ASSURED -t 600',
  '-I -p udp -s 100.64.0.1 -d 100.64.0.2 --sport 40002 --dport 53 -t 600',
  '-I -p tcp -s fd7f::2 -d fd7f::1 --sport 40003 --dport 443 --state ESTABLISHED -u SEEN_REPLY -t 600',
  '-I -p icmp -s 100.64.0.2 -d 100.64.0.1 --icmp-type 8 --icmp-code 0 --icmp-id 77 -t 600',
  '-I -p tcp -s 100.64.0.4 -d 100.64.0.1 --sport 40004 --dport 80 --dst-nat 10.0.0.9:8080 --state ESTABLISHED -u SEEN_REPLY -t 600',
  '-I -w 5 -p tcp -s 100.64.0.5 -d 100.64.0.1 --sport 40005 --dport 22 --state ESTABLISHED -u SEEN_REPLY -t 600',
];

/** One that is open, an answered question, and one that has ended. */
const further = [
  '-I -p udp -s 100.64.0.1 -d 100.64.0.2 --sport 40006 --dport 500 -u SEEN_REPLY,ASSURED -t 600',
  '-I -p udp -s 100.64.0.1 -d 100.64.0.2 --sport 40007 --dport 53 -u SEEN_REPLY -t 600',
  '-I -p tcp -s 100.64.0.3 -d 100.64.0.1 --sport 40008 --dport 22 --state TIME_WAIT -u SEEN_REPLY,ASSURED -t 600',
];

const plain = ({ family, protocol, original, reply, isOpen, icmp }: Flow): string =>
  JSON.stringify([family, protocol, original, reply, isOpen, icmp]);

describe('connections over netlink', () => {
  let namespace: Namespace;
  let channel: NetlinkChannel;
  beforeEach(async () => {
    namespace = await Namespace.create();
    channel = new NetlinkChannel({ clock: systemClock, prefix: namespace.inside([]) });
    for (const line of made) await namespace.run(['conntrack', ...line.split(' ')]);
  });
  afterEach(async () => {
    await channel.close();
    await namespace.close();
  });
  const byProgram = async (): Promise<string[]> =>
    parseFlows((await namespace.run(['conntrack', '-L'])).stdout)
      .map(plain)
      .toSorted();

  test('are those that conntrack lists', async () => {
    for (const line of further) await namespace.run(['conntrack', ...line.split(' ')]);
    const flows = await listConnections(channel);
    expect(flows).toHaveLength(made.length + further.length);
    expect(flows.map(plain).toSorted()).toEqual(await byProgram());
    const open = flows.filter(({ isOpen }) => isOpen === true).map(({ original, icmp }) => icmp?.id ?? original.sport);
    expect(open.toSorted((a, b) => a - b)).toEqual([40_000, 40_001, 40_003, 40_004, 40_005, 40_006]);
  });

  test('are only those that a far end began, or answers, where one is asked for', async () => {
    const ports = async (direction: Direction, ...remotes: string[]): Promise<number[]> =>
      (
        await listConnections(
          channel,
          remotes.map((address) => ({ address, direction })),
        )
      )
        .map(({ original, icmp }) => icmp?.id ?? original.sport)
        .toSorted((a, b) => a - b);
    expect(await ports('inbound', '100.64.0.2')).toEqual([77, 40_000]);
    expect(await ports('outbound', '100.64.0.2')).toEqual([40_002]);
    expect(await ports('inbound', 'fd7f::2', '100.64.0.3')).toEqual([40_001, 40_003]);
    expect(await ports('outbound', '10.0.0.9')).toEqual([40_004]);
    expect(await ports('inbound', '100.64.0.99', 'no address')).toEqual([]);
  });

  test('are forgotten one by one, in any zone, and one that is gone already is none the worse', async () => {
    const flows = await listConnections(channel);
    const [kept, ...others] = flows;
    expect(await forgetConnections(channel, others)).toBeUndefined();
    expect(await byProgram()).toEqual(kept === undefined ? [] : [plain(kept)]);
    expect(await forgetConnections(channel, others)).toBeUndefined();
    expect(await byProgram()).toHaveLength(1);
  });

  test('are forgotten by the thousand', async () => {
    const many = Array.from({ length: 1_000 }, (_, i) => {
      const address = `100.65.${i >> 8}.${i & 255}`;
      return `-I -p udp -s ${address} -d 100.64.0.1 --sport ${10_000 + i} --dport 53 -t 600\n`;
    });
    await namespace.run(['sh', '-c', 'cat | conntrack --load-file -'], many.join(''));
    const flows = (await listConnections(channel)).filter(({ protocol }) => protocol === 17);
    expect(flows).toHaveLength(1_001);
    expect(await forgetConnections(channel, flows)).toBeUndefined();
    expect(await byProgram()).toHaveLength(made.length - 1);
  });

  test('are there again after the helper was killed', async () => {
    await listConnections(channel);
    const before = channel.pid;
    if (before === undefined) throw new Error('no helper runs');
    process.kill(before, 'SIGKILL');
    await expect.poll(async () => (await listConnections(channel).catch(() => [])).length).toBe(made.length);
    expect(channel.pid).not.toBe(before);
    // Events of the one before may still be under way.
    expect([before, channel.pid ?? 0, 1].map((pid) => channel.owns(pid))).toEqual([true, true, false]);
  });
});
