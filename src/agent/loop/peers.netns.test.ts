/** Proves on a real kernel, with real connections, that rules which name devices hold for these devices at every moment, and guardrails above all rules. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ask } from '../../../test/lib/talk.ts';
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
/** Addresses of the far namespace, which plays several devices. */
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
    await Talker.serve(world.peer, port);
  });
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
  /** Whether each of these addresses may connect: what is open has time to open, what is closed has a while to prove otherwise. */
  const expectOpens = async (expected: Readonly<Record<string, boolean>>, number = port): Promise<void> => {
    const asked = Object.entries(expected).map(async ([from, isOpen]) => {
      const address = from.includes(':') ? device6 : device4;
      const bound = isOpen ? {} : { within: aWhile };
      const question = {
        namespace: world.peer,
        protocol: 'tcp',
        address,
        port: number,
        size: 1,
        from,
        ...bound,
      } as const;
      return [from, (await ask(question)) === 'answered'];
    });
    expect(Object.fromEntries(await Promise.all(asked))).toEqual(expected);
  };
  const hold = (from: string, number = port): Promise<Talker> =>
    Talker.call(world.peer, from.includes(':') ? device6 : device4, number, { from });
  const change = async (work: Promise<void>): Promise<void> => {
    await work;
    await settled();
  };
  const ended = async (talker: Talker): Promise<void> => {
    expect(await talker.isSilenced(aWhile)).toBe(true);
    talker.hangUp();
  };

  test('admits them by label, and a label that goes ends the connection that it had admitted, and no other', async () => {
    await expectOpens({ [first4]: true, [second4]: false, [second6]: false });
    await change(server.device(3, { labels: ['app', 'prod'] }));
    await expectOpens({ [first4]: true, [second4]: true, [second6]: true });
    const leaving = [await hold(second4), await hold(second6)];
    const staying = [await hold(first4), await hold(second4, other)];
    await change(server.device(3, { labels: ['prod'] }));
    await Promise.all(leaving.map(ended));
    for (const talker of staying) {
      expect(await talker.isHeard()).toBe(true);
      talker.hangUp();
    }
    await expectOpens({ [first4]: true, [second4]: false, [second6]: false });
  });

  test('follows an address that moves, and a shared one until the last device that has it', async () => {
    const moved = await hold(first4);
    await change(server.device(2, { tunnel_ip: third4 }));
    await ended(moved);
    await expectOpens({ [first4]: false, [third4]: true });
    await change(server.device(3, { addresses: [third4], labels: ['app'] }));
    const shared = await hold(third4);
    await change(server.device(2, { tunnel_ip: first4 }));
    expect(await shared.isHeard()).toBe(true);
    await change(server.remove(deviceId(3)));
    await ended(shared);
    await expectOpens({ [first4]: true, [third4]: false });
  });

  test('refuses what a guardrail forbids, ends its connections, and admits what one requires', async () => {
    const forbidden = await hold(first4);
    const admitted = await hold(first4, other);
    const rules: Fields = { inbound_rules: [to(port, label('app'))], applies_to: [{ all_devices: true }] };
    await change(server.group(7, { guardrail: 'forbid', ...rules }));
    await ended(forbidden);
    expect(await admitted.isHeard()).toBe(true);
    admitted.hangUp();
    await expectOpens({ [first4]: false });
    await expectOpens({ [first4]: true }, other);
    await server.remove(groupId(7));
    await server.group(2, { inbound_rules: [] });
    await change(server.group(8, { guardrail: 'require', ...rules }));
    await expectOpens({ [first4]: true, [second4]: false });
    await expectOpens({ [first4]: false }, other);
    await change(server.remove(groupId(8)));
    await expectOpens({ [first4]: false });
  });

  const isolated = (fields: object = {}): Fields => ({
    isolated: { since: '2026-01-01T00:00:00Z', by: deviceId(9), reason: 'test', ...fields },
  });
  /** Whether this device may connect to the address. */
  const reaches = async (address: string, isOpen: boolean): Promise<boolean> => {
    const bound = isOpen ? {} : { within: aWhile };
    const question = { namespace: world.device, protocol: 'tcp', address, port, size: 1, ...bound } as const;
    return (await ask(question)) === 'answered';
  };

  test('refuses an isolated device that enforces nothing itself, in both directions and before what is required, and ends its connections', async () => {
    await server.group(2, { inbound_rules: [{ ip_protocol: 'tcp', from_port: port, to_port: port }] });
    await server.group(8, {
      guardrail: 'require',
      applies_to: [{ all_devices: true }],
      inbound_rules: [to(port, { all_devices: true })],
    });
    await settled();
    await expectOpens({ [first4]: true, [second4]: true, [second6]: true });
    expect(await reaches(second4, true)).toBe(true);
    const ending = [await hold(second4), await hold(second6)];
    const staying = await hold(first4);
    await change(server.device(3, isolated()));
    await Promise.all(ending.map(ended));
    expect(await staying.isHeard()).toBe(true);
    await expectOpens({ [first4]: true, [second4]: false, [second6]: false });
    expect(await reaches(second4, false)).toBe(false);
    expect(await reaches(first4, true)).toBe(true);

    await change(server.device(2, isolated()));
    await ended(staying);
    await change(server.device(2, { isolated: undefined }));
    await change(server.device(3, isolated({ allow: [label('forensics')] })));
    await expectOpens({ [first4]: true, [second4]: false });
    await change(server.device(1, { labels: ['forensics'] }));
    await expectOpens({ [second4]: true });
    expect(await reaches(second4, true)).toBe(true);
    await change(server.device(3, { isolated: undefined }));
    await change(server.remove(groupId(8)));
  });

  test('follows isolated devices also where its rules name none', async () => {
    await server.group(2, { inbound_rules: [{ ip_protocol: 'tcp', from_port: port, to_port: port }] });
    await change(server.device(3, isolated()));
    await expectOpens({ [first4]: true, [second4]: false });
    await change(server.remove(deviceId(3)));
    await expectOpens({ [first4]: true, [second4]: true });
  });

  test('that is isolated itself talks to what it allows and to no other, until its time is over, also without the server', async () => {
    await server.group(2, { inbound_rules: [{ ip_protocol: 'tcp', from_port: port, to_port: port }] });
    await settled();
    const [ending, allowed] = [await hold(second4), await hold(first4)];
    const allow = [label('app')];
    await change(server.device(1, isolated({ until: new Date(Date.now() + 3_600_000).toISOString(), allow })));
    await ended(ending);
    expect(await allowed.isHeard()).toBe(true);
    allowed.hangUp();
    await expectOpens({ [first4]: true, [second4]: false });
    expect(await reaches(first4, true)).toBe(true);
    expect(await reaches(second4, false)).toBe(false);
    await change(server.device(1, isolated({ until: new Date(Date.now() + 2_000).toISOString(), allow })));
    await world.stop();
    server.away = true;
    world.start();
    await world.eventually('the isolation is over', () => world.agent.status.inForce?.policy?.isolation === undefined);
    await expectOpens({ [first4]: true, [second4]: true });
    server.away = false;
    await change(server.device(1, { isolated: undefined }));
  });

  test('has a group while its own label says so', async () => {
    await server.group(2, { inbound_rules: [] });
    await change(server.group(9, { applies_to: [label('db')], inbound_rules: [to(port, label('app'))] }));
    await expectOpens({ [first4]: false });
    await change(server.device(1, { labels: ['db'] }));
    const talker = await hold(first4);
    await change(server.device(1, { labels: [] }));
    await ended(talker);
    await expectOpens({ [first4]: false });
    await change(server.remove(groupId(9)));
  });

  test('starts without its server with the devices that it knew', async () => {
    await change(server.device(3, { labels: ['app'] }));
    await world.stop();
    await world.device.run(['nft', 'delete', 'table', 'inet', 'service']);
    server.away = true;
    const from = world.logged.length;
    world.start();
    // By the log: what the source remembers is taken up right after, and says the same.
    await world.eventually('the kept policy is in force', () =>
      world.logged.slice(from).some((line) => line.includes('applied a policy origin=kept')),
    );
    await expectOpens({ [first4]: true, [second4]: true, [third4]: false });
    server.away = false;
    await change(server.device(3, { labels: [] }));
    await expectOpens({ [first4]: true, [second4]: false });
  });
});
