/** Proves that many ranges are put in force in little of the kernel's memory while its rules are monitored, as the agent does. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../../test/lib/eventually.ts';
import { kernelPeakWhile } from '../../../test/lib/kernel-memory.ts';
import { Namespace } from '../../../test/lib/netns.ts';
import { systemClock } from '../../client/clock.ts';
import { parseInterfaceName } from '../../nft/names.ts';
import { policyOf, written } from '../../nft/policies.fixture.ts';
import { NetlinkChannel } from '../netlink/channel.ts';
import { inetHead, messageTypeOf, netfilter } from '../netlink/nftables/transaction.ts';
import { Enforcer } from './enforcer.ts';
import { FilterMonitor } from './filter-monitor.ts';
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
  let monitor: FilterMonitor;
  let isMonitored = false;
  beforeAll(async () => {
    namespace = await Namespace.create();
    scratch = await mkdtemp(join(tmpdir(), 'ringfence-memory-'));
    const prefix = namespace.inside([]);
    monitor = new FilterMonitor({
      clock: systemClock,
      prefix,
      onEvent: ({ kind }) => {
        if (kind !== 'lost') isMonitored = true;
      },
    });
    monitor.start();
  });
  afterAll(async () => {
    await monitor?.stop();
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
      const peaks: { first: number; repair: number }[] = [];
      // The monitor may have been overrun before, and started anew.
      const monitored = (): Promise<void> => {
        isMonitored = false;
        return eventually('the monitor tells what changes', async () => {
          await nft.run([{ kind: 'addTable' }, { kind: 'deleteTable' }]);
          return isMonitored;
        });
      };
      try {
        while (peaks.length < times && !peaks.some(({ first, repair }) => Math.max(first, repair) < most)) {
          await enforcer.remove();
          await monitored();
          const first = await kernelPeakWhile(() => enforcer.apply(target));
          await monitored();
          const repair = await kernelPeakWhile(() =>
            enforcer.repair({ tables: new Set(['service', 'service-forward'] as const), chains: new Set() }),
          );
          expect((await enforcer.verify()).findings).toEqual([]);
          peaks.push({ first, repair });
        }
        expect(
          Math.min(...peaks.map(({ first, repair }) => Math.max(first, repair))),
          JSON.stringify(peaks),
        ).toBeLessThan(most);
      } finally {
        await enforcer.remove();
        await nft.close();
        await netlink?.close();
      }
    },
  );
});
