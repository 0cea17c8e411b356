/** Proves that many ranges are put in force in little of the kernel's memory while its rules are monitored, as the agent does. */
import type { ChildProcess } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../../test/lib/eventually.ts';
import { kernelMemoryWhile } from '../../../test/lib/kernel-memory.ts';
import { Namespace } from '../../../test/lib/netns.ts';
import { systemClock } from '../../client/clock.ts';
import { parseInterfaceName } from '../../nft/names.ts';
import { policyOf, written } from '../../nft/policies.fixture.ts';
import { NetlinkChannel } from '../netlink/channel.ts';
import { inetHead, messageTypeOf, netfilter } from '../netlink/nftables/transaction.ts';
import { Enforcer } from './enforcer.ts';
import { RealNft } from './real-nft.ts';

const getTables = 1;
const hosts = Array.from({ length: 50_000 }, (_, i) => `10.${i >> 15}.${(i >> 7) & 255}.${(2 * i) & 255}`);
const target = {
  policy: policyOf([written('tcp', 22, 22, ...hosts)]),
  interface: parseInterfaceName('rf0'),
  neighbourDiscovery: true,
};
/** Megabytes; the messages for 50,000 ranges at once take four hundred. */
const most = 150;
/** Other programs take memory of the kernel too, and give it back: one time of these is without them. */
const times = 4;

describe('50,000 ranges, monitored', () => {
  let namespace: Namespace;
  let scratch: string;
  let monitor: ChildProcess;
  beforeAll(async () => {
    namespace = await Namespace.create();
    scratch = await mkdtemp(join(tmpdir(), 'ringfence-memory-'));
    monitor = namespace.spawn(['nft', 'monitor'], { stdio: ['ignore', 'pipe', 'inherit'] });
    let isHeard = false;
    monitor.stdout?.once('data', () => (isHeard = true));
    await eventually('the monitor tells what changes', async () => {
      await namespace.run(['nft', 'add table inet any; delete table inet any']);
      return isHeard;
    });
    // From now on it reads nothing. One that reads is overrun and ends, and while nobody listens the kernel makes no messages.
    monitor.kill('SIGSTOP');
  });
  afterAll(async () => {
    monitor?.kill('SIGKILL');
    await namespace?.close();
    await rm(scratch ?? '', { recursive: true, force: true });
  });

  test.each(['nft', 'netlink'])(
    'are put in force by %s, and again after a flush, in little memory of the kernel',
    async (way) => {
      const prefix = namespace.inside([]);
      const netlink = way === 'nft' ? undefined : new NetlinkChannel({ clock: systemClock, prefix });
      // Only a helper that runs is used.
      await netlink?.dump(netfilter, { type: messageTypeOf(getTables), payload: inetHead }, () => {});
      // Ample: what an agent tries again, this test does once.
      const nft = new RealNft({ clock: systemClock, scratch, prefix, timeout: 600_000, ...(netlink && { netlink }) });
      const enforcer = new Enforcer({ nft, random: Math.random });
      const peaks: number[] = [];
      let least = Number.POSITIVE_INFINITY;
      try {
        while (peaks.length < times && !peaks.some((peak) => peak < most)) {
          await enforcer.remove();
          const { before, peak } = await kernelMemoryWhile(async () => {
            await enforcer.apply(target);
            await enforcer.repair({ tables: new Set(['service', 'service-forward'] as const), chains: new Set() });
          });
          least = Math.min(least, before);
          peaks.push(peak - least);
          expect((await enforcer.verify()).findings).toEqual([]);
        }
        expect(Math.min(...peaks), JSON.stringify(peaks)).toBeLessThan(most);
      } finally {
        await enforcer.remove();
        await nft.close();
        await netlink?.close();
      }
    },
  );
});
