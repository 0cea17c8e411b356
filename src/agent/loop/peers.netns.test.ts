/** Proves on a real kernel, with real connections, that rules which name devices hold for these devices at every moment, and guardrails above all rules. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { Talker } from '../../../test/lib/talker.ts';
import { systemClock } from '../../client/clock.ts';
import { deviceId, groupId, organization } from '../../client/records.fixture.ts';
import { InformerSource } from '../source/informer-policy-source.ts';
import { StreamServer, type Fields } from '../source/stream-server.fixture.ts';
import { device4, device6, driver, RealWorld } from './real-world.fixture.ts';

const port = 5_432;
const other = 8_000;
const to = (number: number, ...peers: object[]) => ({ ip_protocol: 'tcp', from_port: number, to_port: number, peers });
const label = (...labels: string[]) => ({ labels });
/** Addresses of the far namespace, which stands for several devices. */
const [first4, second4, third4, second6] = ['100.64.0.2', '100.64.0.3', '100.64.0.4', 'fd7f::3'];
/** Long enough for several retransmissions: a bound on silence, no measure. */
const aWhile = 1_000;

describe('a device whose rules name others', () => {
  let world: RealWorld;
  let server: StreamServer;
  beforeAll(async () => {
    server = new StreamServer({ clock: systemClock, random: Math.random });
    const { client } = server.network;
    const onFault = (fault: unknown): void => void world.logged.push(String(fault));
    const source = new InformerSource({ client, organization, device: deviceId(1), onFault });
    world = await RealWorld.open({ source });
    for (const address of [`${second4}/24`, `${third4}/24`, `${second6}/64`]) {
      const quick = address.includes(':') ? ['nodad'] : [];
      await world.peer.run(['ip', 'address', 'add', address, 'dev', driver, ...quick]);
    }
    await server.group(1, { is_default: true });
    await server.device(1, { tunnel_ip: device4, security_groups: [groupId(2)] });
    world.start();
    await Talker.serve(world.device, port, other);
  }, 120_000);
  afterAll(() => world?.close());
  beforeEach(async () => {
    await server.group(2, { inbound_rules: [to(port, label('app')), to(other, { all_devices: true })] });
    await server.device(1, { labels: [], security_groups: [groupId(2)] });
    await server.device(2, { tunnel_ip: first4, labels: ['app'], addresses: [] });
    await server.device(3, { tunnel_ip: second4, labels: [], addresses: [second6] });
    await settled();
  });

  /** Waits until what the server says is in force, and what it takes away is gone. */
  const settled = (): Promise<void> =>
    world.eventually('the newest policy is in force', () => {
      const { pending, inForce, held, troubles } = world.agent.status;
      return !pending && held === undefined && troubles.length === 0 && inForce?.revision === server.revision;
    });
  const opens = async (from: string, number = port): Promise<boolean> => {
    const { code } = await world.peer.attempt([
      process.execPath,
      '-e',
      `const [host, port, localAddress] = process.argv.slice(1);
       require('node:net').connect({ host, port, localAddress }, () => process.exit(0)).on('error', () => process.exit(1));
       setTimeout(() => process.exit(1), ${aWhile});`,
      from.includes(':') ? device6 : device4,
      String(number),
      from,
    ]);
    return code === 0;
  };
  const hold = (from: string, number = port): Promise<Talker> =>
    Talker.call(world.peer, from.includes(':') ? device6 : device4, number, { from });
  const change = async (work: Promise<void>): Promise<void> => {
    await work;
    await settled();
  };
  const ended = async (talker: Talker): Promise<void> => {
    await world.eventually('the connection ends', async () => !(await talker.isHeard(200)));
    expect(await talker.isHeard(aWhile)).toBe(false);
    talker.hangUp();
  };

  test('admits them by label, and a label that goes ends the connection that it had admitted, and no other', async () => {
    expect([await opens(first4), await opens(second4), await opens(second6)]).toEqual([true, false, false]);
    await change(server.device(3, { labels: ['app', 'prod'] }));
    expect([await opens(first4), await opens(second4), await opens(second6)]).toEqual([true, true, true]);
    const leaving = [await hold(second4), await hold(second6)];
    const staying = [await hold(first4), await hold(second4, other)];
    await change(server.device(3, { labels: ['prod'] }));
    for (const talker of leaving) await ended(talker);
    for (const talker of staying) {
      expect(await talker.isHeard()).toBe(true);
      talker.hangUp();
    }
    expect([await opens(first4), await opens(second4), await opens(second6)]).toEqual([true, false, false]);
  });

  test('follows an address that moves, and a shared one until the last device that has it', async () => {
    const moved = await hold(first4);
    await change(server.device(2, { tunnel_ip: third4 }));
    await ended(moved);
    expect([await opens(first4), await opens(third4)]).toEqual([false, true]);
    await change(server.device(3, { addresses: [third4], labels: ['app'] }));
    const shared = await hold(third4);
    await change(server.device(2, { tunnel_ip: first4 }));
    expect(await shared.isHeard()).toBe(true);
    await change(server.remove(deviceId(3)));
    await ended(shared);
    expect([await opens(first4), await opens(third4)]).toEqual([true, false]);
  });

  test('refuses what a guardrail forbids, ends its connections, and admits what one requires', async () => {
    const forbidden = await hold(first4);
    const admitted = await hold(first4, other);
    const rules: Fields = { inbound_rules: [to(port, label('app'))], applies_to: [{ all_devices: true }] };
    await change(server.group(7, { guardrail: 'forbid', ...rules }));
    await ended(forbidden);
    expect(await admitted.isHeard()).toBe(true);
    admitted.hangUp();
    expect([await opens(first4), await opens(first4, other)]).toEqual([false, true]);
    await server.remove(groupId(7));
    await server.group(2, { inbound_rules: [] });
    await change(server.group(8, { guardrail: 'require', ...rules }));
    expect([await opens(first4), await opens(second4), await opens(first4, other)]).toEqual([true, false, false]);
    await change(server.remove(groupId(8)));
    expect(await opens(first4)).toBe(false);
  });

  test('has a group while its own label says so', async () => {
    await server.group(2, { inbound_rules: [] });
    await change(server.group(9, { applies_to: [label('db')], inbound_rules: [to(port, label('app'))] }));
    expect(await opens(first4)).toBe(false);
    await change(server.device(1, { labels: ['db'] }));
    const talker = await hold(first4);
    await change(server.device(1, { labels: [] }));
    await ended(talker);
    expect(await opens(first4)).toBe(false);
    await change(server.remove(groupId(9)));
  });

  test('starts without its server with the devices that it knew', async () => {
    await change(server.device(3, { labels: ['app'] }));
    await world.eventually('the policy is saved', () => world.logged.every((line) => !line.startsWith('error')));
    await world.stop();
    await world.device.run(['nft', 'delete', 'table', 'inet', 'service']);
    server.away = true;
    world.start();
    await world.eventually('the kept policy is in force', () => world.agent.status.inForce?.origin === 'kept');
    expect([await opens(first4), await opens(second4), await opens(third4)]).toEqual([true, true, false]);
    server.away = false;
    await change(server.device(3, { labels: [] }));
    expect([await opens(first4), await opens(second4)]).toEqual([true, false]);
  });
});
