/** Proves with packets that an interface whose traffic a bridge takes is reported, never called in force, and judged again once it is free. */
import { afterEach, expect, test } from 'vitest';
import { runQuickly } from '../../../test/lib/batch-runner.ts';
import { Talker } from '../../../test/lib/talker.ts';
import { written } from '../../nft/policies.fixture.ts';
import { reportOf } from '../report/reporter.ts';
import { groupOf } from './agent.fixture.ts';
import { device4, driver, RealWorld } from './real-world.fixture.ts';

let world: RealWorld | undefined;
afterEach(() => world?.close());

const ssh = groupOf(1, [written('tcp', 2_200, 2_200)]);
const reported = ({ agent }: RealWorld) => {
  const { state, code } = reportOf(agent.status, '1') ?? {};
  return code === undefined ? state : `${state} ${code}`;
};
const ip = ({ device }: RealWorld, lines: string): Promise<unknown> =>
  runQuickly(device, ['ip', '-batch', '-'], `${lines}\n`);
const joinBridge = `link add br0 type bridge
link set br0 up
address delete ${device4}/24 dev ${driver}
address add ${device4}/24 dev br0
link set ${driver} master br0`;
const leaveBridge = `link set ${driver} nomaster
address delete ${device4}/24 dev br0
address add ${device4}/24 dev ${driver}`;

const joinMacvlan = `link add mv0 link ${driver} type macvlan mode passthru
link set mv0 up
address delete ${device4}/24 dev ${driver}
address add ${device4}/24 dev mv0`;
const leaveMacvlan = `link delete mv0
address add ${device4}/24 dev ${driver}`;

test.each([
  ['joins a bridge', 'br0', joinBridge, leaveBridge],
  ['has a macvlan in the mode passthru over it', 'mv0', joinMacvlan, leaveMacvlan],
])(
  'a driver interface that %s is failed while that takes its traffic, also at a start, and its connections are judged afterwards',
  async (_, master, join, leave) => {
    world = await RealWorld.open();
    const here = world;
    here.start();
    here.source.know(1, ssh);
    await here.eventually('the policy is in force', () => reported(here) === 'applied');
    await Talker.serve(here.device, 2_200, 2_300);
    await expect(Talker.call(here.peer, device4, 2_300, { within: 1_500 })).rejects.toThrow('never heard');

    await ip(here, join);
    await here.eventually('the membership is reported', () => reported(here) === 'failed interface_enslaved');
    // Its packets are not the driver interface's.
    const slipped = await Talker.call(here.peer, device4, 2_300);
    expect(await slipped.isHeard()).toBe(true);
    expect(here.agent.status.troubles).toMatchObject([
      { message: `${master} receives the traffic of ${driver}: rules for ${driver} have no effect` },
    ]);

    await here.stop();
    here.start();
    await here.eventually('a start reports it too', () => reported(here) === 'failed interface_enslaved');

    await ip(here, leave);
    await here.eventually('the policy is in force again', () => reported(here) === 'applied');
    // The agent before the restart may have judged it already.
    await here.eventually('the connection is ended', () => here.agent.status.endedConnections > 0);
    expect(await slipped.isSilenced(1_500)).toBe(true);
    await expect(Talker.call(here.peer, device4, 2_300, { within: 1_500 })).rejects.toThrow('never heard');
    await Talker.call(here.peer, device4, 2_200);
  },
);
