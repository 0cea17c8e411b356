/** Proves that a switch which snoops on multicast listeners goes on sending a closed device what it listens to (reference 1.2 (20)). */
import { expect, test } from 'vitest';
import { eventually } from '../lib/eventually.ts';
import { ask, serve } from '../lib/talk.ts';
import { driver, VerdictLab } from '../lib/verdict-lab.ts';
import { apply } from './device.ts';
import { allow } from './table.ts';

const bridge = 'switch0';
/** The kernel's own count of queries that reach the device, before any filter. */
const counting = `table inet counting {
  counter queries { }
  chain arriving { type filter hook prerouting priority -450; icmpv6 type 130 counter name queries; }
}`;

const ip = (lab: VerdictLab, ...lines: readonly string[]): Promise<unknown> =>
  lab.peer.run(['ip', '-batch', '-'], `${lines.join('\n')}\n`);

/** The peer becomes a switch that asks every second, and forgets after three seconds who did not answer. */
async function becomeSwitch(lab: VerdictLab, version: 1 | 2): Promise<void> {
  await lab.device.run(['nft', counting]);
  await ip(
    lab,
    `link add ${bridge} type bridge forward_delay 0 mcast_mld_version ${version} mcast_query_interval 100 mcast_startup_query_interval 100 mcast_query_response_interval 50 mcast_membership_interval 300 mcast_querier 1`,
    `address flush dev ${driver}`,
    `link set ${driver} master ${bridge}`,
    `link set ${bridge} up`,
    `address add fd7f::2/64 dev ${bridge} nodad`,
  );
}

async function queriesAt(lab: VerdictLab): Promise<number> {
  const { stdout } = await lab.device.run(['nft', 'list', 'counter', 'inet', 'counting', 'queries']);
  return Number(/packets (\d+)/.exec(stdout)?.[1]);
}

/** What the switch sends to the device only: a group that it does not know is sent to routers alone. */
const groupsAt = async (lab: VerdictLab): Promise<string> =>
  (await lab.peer.run(['bridge', 'mdb', 'show', 'dev', bridge])).stdout;

test.concurrent.each([1, 2] as const)(
  'a closed device answers the queries of a switch, and is found by its neighbours ever after: version %i',
  async (version) => {
    const lab = await VerdictLab.open();
    try {
      await lab.device.run(['ip', '-6', 'neigh', 'flush', 'dev', driver, 'nud', 'permanent']);
      await serve({ namespace: lab.device, protocol: 'tcp', address: '::', port: 7_001 });
      await becomeSwitch(lab, version);
      await eventually('the switch knows what the device listens to', async () =>
        (await groupsAt(lab)).includes('ff02::1:ff00:1'),
      );
      await apply(lab, [{ inbound: [allow('tcp', 7_001, 'fd7f::2')], outbound: [allow('tcp', 1, 'fd7f::2')] }], true);
      // One query each second: after eight of them, what was reported before the policy is long forgotten.
      const before = await queriesAt(lab);
      await eventually('the switch asks eight times', async () => (await queriesAt(lab)) >= before + 8);
      expect(await groupsAt(lab)).toContain('ff02::1:ff00:1');
      await lab.peer.run(['ip', '-6', 'neigh', 'flush', 'dev', bridge]);
      expect(await ask({ namespace: lab.peer, protocol: 'tcp', address: 'fd7f::1', port: 7_001 })).toBe('answered');
    } finally {
      await lab.close();
    }
  },
);
