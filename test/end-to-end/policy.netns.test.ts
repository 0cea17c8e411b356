/** Proves end to end what a device enforces (reference 1.2): records in the server, agents that follow, real packets between devices. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { AddSecurityGroup } from '../../src/api/group.ts';
import type { SecurityRule } from '../../src/policy/rule.ts';
import { rounds } from '../lib/thorough.ts';
import { Fleet, type Probe, type Verdict } from './fleet.ts';

const rule = (
  ip_protocol: SecurityRule['ip_protocol'],
  from_port = 0,
  to_port = from_port,
  ...ip_ranges: string[]
): SecurityRule => ({
  ip_protocol,
  from_port,
  to_port,
  ...(ip_ranges.length === 0 ? {} : { ip_ranges }),
});
const tcp = (from: number, to: number, port: number, family: 4 | 6 = 4): Probe => ({
  from,
  to,
  protocol: 'tcp',
  port,
  family,
});
const udp = (from: number, to: number, port: number, family: 4 | 6 = 4): Probe => ({
  from,
  to,
  protocol: 'udp',
  port,
  family,
});
const echo = (from: number, to: number, family: 4 | 6 = 4): Probe => ({ from, to, protocol: 'icmp', family });

const dropIn: Verdict = 'stopped coming in';
const dropOut: Verdict = 'stopped going out';

let fleet: Fleet;
let count = 0;
beforeAll(async () => {
  fleet = await Fleet.open({ devices: 3, phase: 1 });
});
afterAll(() => fleet?.close());

const expectVerdicts = async (rows: readonly (readonly [Probe, Verdict])[]): Promise<void> => {
  const verdicts = await fleet.judge(rows.map(([probe]) => probe));
  expect(rows.map(([probe], i) => [probe, verdicts[i]])).toEqual(rows.map(([probe, verdict]) => [probe, verdict]));
};
const group = (rules: Pick<AddSecurityGroup, 'inbound_rules' | 'outbound_rules'>, owner: 'mine' | 'ours' = 'ours') =>
  (owner === 'ours' ? fleet.owner.groups : fleet.owner.userGroups).create(fleet.org, {
    group_name: `group ${(count += 1)}`,
    ...rules,
  });
/** Another server on the same data: agents go on where they were. */
const enterPhase = async (phase: 1 | 2 | 3): Promise<void> => {
  await fleet.lab.stopServer();
  await fleet.lab.startServer(['--phase', String(phase)]);
};

describe('phase I: the default group', () => {
  test('reference 1.2 (2), (10), (11): at first everything comes in, through chains in the order of the reference', async () => {
    await fleet.converged(1, 2, 3);
    await expectVerdicts([
      [tcp(1, 2, 22), 'open'],
      [udp(1, 2, 53, 6), 'open'],
      [udp(3, 1, 53), 'open'],
      [tcp(2, 3, 443, 6), 'open'],
      [echo(1, 3), 'open'],
      [echo(3, 2, 6), 'open'],
    ]);
    const { stdout } = await fleet.device(1).nft('list', 'table', 'inet', 'service');
    const lines = stdout.split('\n').map((line) => line.trim());
    expect(lines.filter((line) => line.startsWith('chain') || line.startsWith('type'))).toEqual([
      'chain service-inbound {',
      'type filter hook input priority filter; policy accept;',
      'chain service-outbound {',
      'type filter hook output priority filter; policy accept;',
    ]);
    expect(
      lines.filter((line) => line.startsWith('iifname')).map((line) => line.replace('iifname "rf0" ', '')),
    ).toEqual([
      'ct state established,related accept',
      'icmpv6 type { echo-request, echo-reply } accept',
      'icmp type { echo-reply, echo-request } accept',
      'meta nfproto ipv4 accept',
      'meta nfproto ipv6 accept',
      'drop',
    ]);
  });

  test('reference 1.2 (1), (3): a change of the default group reaches every device, at the driver interface only', async () => {
    const { id } = await fleet.defaultGroup();
    await fleet.owner.groups.update(fleet.org, id, { inbound_rules: [rule('tcp', 22), rule('icmpv6')] });
    await fleet.converged(1, 2, 3);
    await expectVerdicts([
      [tcp(1, 2, 22), 'open'],
      [tcp(2, 3, 22, 6), 'open'],
      [tcp(1, 2, 80), dropIn],
      [udp(2, 1, 22, 6), dropIn],
      [echo(1, 3), dropIn],
      [echo(1, 3, 6), 'open'],
    ]);
    // The uplink is none of its business: the same port, over the other interface.
    const { uplink } = fleet.device(2).addresses;
    await expectVerdicts([[tcp(1, 2, 81), dropIn]]);
    const asked = { do: 'probe', protocol: 'tcp', address: uplink, port: 81, timeoutMs: 20_000 } as const;
    expect(await fleet.device(1).perform(asked)).toBe('open');
  });

  test('there is one group, and no device has another', async () => {
    await expect(group({})).rejects.toMatchObject({ status: 409 });
    await expect(group({}, 'mine')).rejects.toMatchObject({ status: 409 });
  });

  test('deleting the default group resets it: everything is open again', async () => {
    await fleet.owner.groups.delete(fleet.org, (await fleet.defaultGroup()).id);
    await fleet.converged(1, 2, 3);
    await expectVerdicts([
      [tcp(1, 2, 80), 'open'],
      [echo(1, 3), 'open'],
    ]);
  });
});

describe('phase II: a group of one’s own', () => {
  beforeAll(() => enterPhase(2));

  test('stands in the place of the default group on that device alone, and goes again', async () => {
    const own = await group({ inbound_rules: [rule('udp', 5_000)] }, 'mine');
    await fleet.attach(2, own.id);
    await fleet.converged(1, 2, 3);
    await expectVerdicts([
      [udp(1, 2, 5_000), 'open'],
      [tcp(1, 2, 80), dropIn],
      [tcp(2, 1, 80), 'open'],
      [tcp(1, 3, 80), 'open'],
    ]);
    const second = await group({}, 'mine');
    await expect(fleet.attach(2, own.id, second.id)).rejects.toMatchObject({ status: 422 });
    await fleet.attach(2);
    await fleet.converged(2);
    await expectVerdicts([[tcp(1, 2, 80), 'open']]);
  });
});

describe('phase III: a list of groups', () => {
  beforeAll(() => enterPhase(3));
  beforeEach(async () => {
    await fleet.attach(2);
  });

  const rows: readonly {
    readonly what: string;
    readonly groups: readonly Pick<AddSecurityGroup, 'inbound_rules' | 'outbound_rules'>[];
    readonly verdicts: readonly (readonly [Probe, Verdict])[];
  }[] = [
    {
      what: 'the list replaces the default group, and the union of its groups holds (reference 1.1)',
      groups: [{ inbound_rules: [rule('tcp', 22)] }, { inbound_rules: [rule('udp', 53)] }],
      verdicts: [
        [tcp(1, 2, 22), 'open'],
        [udp(1, 2, 53), 'open'],
        [tcp(1, 2, 53), dropIn],
        [echo(1, 2), dropIn],
      ],
    },
    {
      what: 'reference 1.2 (4): ranges are sources of what comes in and destinations of what goes out',
      groups: [
        {
          inbound_rules: [rule('tcp', 22, 22, '100.64.0.1', 'fd7f::3')],
          outbound_rules: [rule('tcp', 80, 80, '100.64.0.3', 'fd7f::1')],
        },
      ],
      verdicts: [
        [tcp(1, 2, 22), 'open'],
        [tcp(3, 2, 22), dropIn],
        [tcp(3, 2, 22, 6), 'open'],
        [tcp(1, 2, 22, 6), dropIn],
        [tcp(2, 3, 80), 'open'],
        [tcp(2, 1, 80), dropOut],
        [tcp(2, 1, 80, 6), 'open'],
        [tcp(2, 3, 80, 6), dropOut],
      ],
    },
    {
      what: 'reference 1.2 (5), (7): ports are those of the destination; one, a range with both ends, or any',
      groups: [
        {
          inbound_rules: [rule('tcp', 8_000, 8_010), rule('udp', 0)],
          outbound_rules: [rule('tcp', 443), rule('udp', 53)],
        },
      ],
      verdicts: [
        [tcp(1, 2, 8_000), 'open'],
        [tcp(1, 2, 8_010, 6), 'open'],
        [tcp(1, 2, 7_999), dropIn],
        [tcp(1, 2, 8_011), dropIn],
        [udp(1, 2, 9), 'open'],
        [tcp(2, 1, 443), 'open'],
        [tcp(2, 1, 8_000), dropOut],
        [udp(2, 3, 53, 6), 'open'],
        [udp(2, 3, 54), dropOut],
      ],
    },
    {
      what: 'reference 1.2 (8), (9): without ranges any address; without outbound rules everything goes out',
      groups: [{ inbound_rules: [rule('ipv6')] }],
      verdicts: [
        [tcp(1, 2, 80, 6), 'open'],
        [udp(3, 2, 80, 6), 'open'],
        [tcp(1, 2, 80), dropIn],
        [tcp(2, 1, 80), 'open'],
        [udp(2, 3, 99), 'open'],
        [echo(2, 3), 'open'],
      ],
    },
    {
      what: 'reference 1.2 (9): one outbound rule closes everything else that goes out, replies excepted',
      groups: [{ inbound_rules: [rule('tcp', 22)], outbound_rules: [rule('icmp')] }],
      verdicts: [
        [echo(2, 1), 'open'],
        [echo(2, 1, 6), dropOut],
        [tcp(2, 1, 22), dropOut],
        [tcp(1, 2, 22), 'open'],
      ],
    },
    {
      what: 'reference 1.2 (6), (14): rules have no order, and ranges may overlap',
      groups: [
        { inbound_rules: [rule('tcp', 1_000, 2_000, '100.64.0.0/24'), rule('tcp', 1_500, 1_600, '100.64.0.1')] },
        {
          inbound_rules: [rule('tcp', 1_550, 2_500, '100.64.0.0-100.64.0.1', '100.64.0.1/32', 'fd7f::/64', 'fd7f::3')],
        },
      ],
      verdicts: [
        [tcp(1, 2, 1_550), 'open'],
        [tcp(3, 2, 1_550), 'open'],
        [tcp(1, 2, 2_400), 'open'],
        [tcp(3, 2, 2_400), dropIn],
        [tcp(3, 2, 2_400, 6), 'open'],
        [tcp(3, 2, 1_000, 6), dropIn],
      ],
    },
    {
      what: 'reference 1.2 (15): `ip` with ports is TCP and UDP, without them both families; `icmp` follows its ranges',
      groups: [{ inbound_rules: [rule('ip', 700, 701), rule('ip', 0, 0, 'fd7f::3'), rule('icmp', 0, 0, 'fd7f::1')] }],
      verdicts: [
        [tcp(1, 2, 700), 'open'],
        [udp(1, 2, 701, 6), 'open'],
        [tcp(1, 2, 702), dropIn],
        [tcp(3, 2, 702, 6), 'open'],
        [tcp(3, 2, 702), dropIn],
        [echo(1, 2, 6), 'open'],
        [echo(1, 2), dropIn],
      ],
    },
    {
      what: 'a group without rules lets nothing in and everything out (reference 1.2 (16))',
      groups: [{}],
      verdicts: [
        [tcp(1, 2, 22, 6), dropIn],
        [echo(3, 2), dropIn],
        [tcp(2, 1, 22), 'open'],
        [udp(2, 3, 53, 6), 'open'],
      ],
    },
  ];
  test.each(rows.map((row) => [row.what, row] as const))('%s', async (_, { groups, verdicts }) => {
    const made = [];
    for (const each of groups) made.push(await group(each));
    await fleet.attach(2, ...made.map(({ id }) => id));
    await fleet.converged(2);
    await expectVerdicts(verdicts);
    if (made.length > 1) {
      await fleet.attach(2, ...made.map(({ id }) => id).toReversed());
      await fleet.converged(2);
      await expectVerdicts(verdicts);
    }
  });

  test('reference 1.2 (12): an edit takes the place of what was, attach and detach too, and a group in use stays', async () => {
    const [ssh, web] = [
      await group({ inbound_rules: [rule('tcp', 22)] }),
      await group({ inbound_rules: [rule('tcp', 80)] }),
    ];
    await fleet.attach(2, ssh.id);
    await fleet.converged(2);
    await expectVerdicts([
      [tcp(1, 2, 22), 'open'],
      [tcp(1, 2, 80), dropIn],
    ]);
    await fleet.owner.groups.update(fleet.org, ssh.id, { inbound_rules: [rule('tcp', 2_222)] });
    await fleet.attach(2, ssh.id, web.id);
    await fleet.converged(2);
    await expectVerdicts([
      [tcp(1, 2, 22), dropIn],
      [tcp(1, 2, 2_222), 'open'],
      [tcp(1, 2, 80), 'open'],
    ]);
    await expect(fleet.owner.groups.delete(fleet.org, web.id)).rejects.toMatchObject({ status: 409 });
    await expectVerdicts([[tcp(1, 2, 80), 'open']]);
    await fleet.owner.groups.delete(fleet.org, web.id, { detach: true });
    await fleet.converged(2);
    await expectVerdicts([
      [tcp(1, 2, 80), dropIn],
      [tcp(1, 2, 2_222), 'open'],
    ]);
    await fleet.attach(2);
    await fleet.converged(2);
    await expectVerdicts([[tcp(1, 2, 80), 'open']]);
  });

  test('reference 1.2 (13): what somebody else does to the table is undone', async () => {
    const closed = await group({});
    await fleet.attach(2, closed.id);
    await fleet.converged(2);
    for (const change of [
      ['insert', 'rule', 'inet', 'service', 'service-inbound', 'accept'],
      ['flush', 'chain', 'inet', 'service', 'service-inbound'],
      ['delete', 'table', 'inet', 'service'],
    ]) {
      await fleet.device(2).namespace.run(['nft', ...change]);
      await fleet.converged(2);
      await expectVerdicts([[tcp(1, 2, 22), dropIn]]);
    }
  });

  test('reference 1.2 (16): the command line writes rules that devices enforce; a device token writes none', async () => {
    const { token } = fleet.lab.place;
    const env = { RINGFENCE_SERVER: fleet.lab.url, RINGFENCE_TOKEN: token, RINGFENCE_ORG: fleet.org };
    for (const words of [
      'group create typed',
      'group allow typed in tcp 6000 from 100.64.0.1',
      'device groups set device-2 typed',
    ]) {
      expect(await fleet.program.run(words.split(' '), env).ended).toMatchObject({ code: 0 });
    }
    await fleet.converged(2);
    await expectVerdicts([
      [tcp(1, 2, 6_000), 'open'],
      [tcp(3, 2, 6_000), dropIn],
    ]);
    const registered = await fleet.owner.devices.create(fleet.org, {
      public_key: 'a key of its own',
      hostname: 'spare',
    });
    const device = fleet.lab.client(registered.device_token);
    const { id } = await fleet.defaultGroup();
    await expect(device.groups.update(fleet.org, id, { inbound_rules: [] })).rejects.toMatchObject({ status: 403 });
  });
});

describe('policy by name', () => {
  const timeoutMs = 20_000;
  const app = [{ labels: ['app'] }];
  const label = async (number: number, ...labels: string[]): Promise<void> => {
    await fleet.owner.devices.update(fleet.org, await fleet.idOf(number), { labels });
    await fleet.converged(1, 2, 3);
  };

  test('a label admits a device to what names it, and one that goes ends the connection that it had admitted', async () => {
    const { id } = await group({ inbound_rules: [{ ...rule('tcp', 5_432), peers: app }] });
    await fleet.attach(2, id);
    await fleet.converged(2);
    await expectVerdicts([
      [tcp(1, 2, 5_432), dropIn],
      [tcp(3, 2, 5_432), dropIn],
    ]);
    await label(1, 'app', 'prod');
    await expectVerdicts([
      [tcp(1, 2, 5_432), 'open'],
      [tcp(3, 2, 5_432), dropIn],
    ]);
    const { driver4: address } = fleet.device(2).addresses;
    const perform = fleet.device(1).perform.bind(fleet.device(1));
    expect(await perform({ do: 'connect', name: 'labelled', address, port: 5_432, timeoutMs })).toBe('open');
    expect(await perform({ do: 'echo', name: 'labelled', timeoutMs })).toBe('open');
    await label(1, 'prod');
    await fleet.eventually(
      2,
      'the connection ends',
      async () => (await perform({ do: 'echo', name: 'labelled', timeoutMs: 500 })) === 'closed',
    );
    await expectVerdicts([[tcp(1, 2, 5_432), dropIn]]);
    await fleet.attach(2);
  });

  test('a group applies by label, and a guardrail stands above every group', async () => {
    const made = [
      await fleet.owner.groups.create(fleet.org, {
        group_name: 'databases',
        applies_to: [{ labels: ['db'] }],
        inbound_rules: [rule('tcp', 5_432), rule('tcp', 5_433)],
      }),
      await fleet.owner.groups.create(fleet.org, {
        group_name: 'never from app',
        guardrail: 'forbid',
        applies_to: [{ all_devices: true }],
        inbound_rules: [{ ...rule('tcp', 5_433), peers: app }],
      }),
    ];
    await label(1, 'app');
    await label(2, 'db');
    await expectVerdicts([
      [tcp(1, 2, 5_432), 'open'],
      [tcp(1, 2, 5_433), dropIn],
      [tcp(3, 2, 5_433), 'open'],
      [tcp(3, 2, 22), dropIn],
      [tcp(1, 3, 5_433), dropIn],
    ]);
    for (const { id } of made) await fleet.owner.groups.delete(fleet.org, id, { detach: true });
    await label(2);
    await expectVerdicts([[tcp(1, 2, 5_433), 'open']]);
  });

  test('a change set that renames labels everywhere resets no connection, and no packet sees half of it', async () => {
    // So much else that the set takes many writes to each stream: groups come first, devices last.
    const text = 'x'.repeat(2_000);
    const { id: standard, inbound_rules: open = [] } = await fleet.defaultGroup();
    const { security_groups: written } = await fleet.owner.changes.apply(fleet.org, {
      security_groups: [
        // A device that had no group of its own for a moment would end its connections.
        { id: standard, inbound_rules: [rule('tcp', 1)] },
        {
          group_name: 'databases',
          applies_to: [{ labels: ['db'] }],
          inbound_rules: [{ ...rule('tcp', 5_432), peers: app }],
        },
        ...Array.from({ length: 300 }, (_, n) => ({ group_name: `filler ${n}`, group_description: `0 ${text}` })),
      ],
    });
    const [, databases, ...fillers] = written;
    const [client, server] = [await fleet.idOf(1), await fleet.idOf(2)];
    await fleet.attach(2);
    await label(1, 'app');
    await label(2, 'db');
    const { driver4: address } = fleet.device(2).addresses;
    const perform = fleet.device(1).perform.bind(fleet.device(1));
    const judged = [tcp(1, 2, 5_432), tcp(3, 2, 5_432), tcp(3, 2, 22)];
    const verdicts = ['open', dropIn, dropIn];
    expect(await fleet.judge(judged)).toEqual(verdicts);
    expect(await perform({ do: 'connect', name: 'renamed', address, port: 5_432, timeoutMs })).toBe('open');
    for (let round = 1; round <= rounds(1, 3); round += 1) {
      const [from, to] = [`app-${round}`, `db-${round}`];
      const over = new AbortController();
      const seen = (async () => {
        const all: (readonly Verdict[])[] = [];
        do all.push(await fleet.judge(judged));
        while (!over.signal.aborted);
        return all;
      })();
      const { revision } = await fleet.owner.changes.apply(fleet.org, {
        security_groups: [
          {
            id: databases?.id ?? '',
            applies_to: [{ labels: [to] }],
            inbound_rules: [{ ...rule('tcp', 5_432), peers: [{ labels: [from] }] }],
          },
          ...fillers.map(({ id }) => ({ id, group_description: `${round} ${text}` })),
        ],
        devices: [
          { id: client, labels: [from] },
          { id: server, labels: [to] },
        ],
      });
      await fleet.eventually(2, 'the set is in force', async () => {
        const { pending } = await fleet.owner.statuses.convergence(fleet.org, { revision });
        return !pending.some(({ hostname }) => [1, 2, 3].some((number) => fleet.device(number).name === hostname));
      });
      over.abort();
      for (const one of await seen) expect(one).toEqual(verdicts);
      expect(await perform({ do: 'echo', name: 'renamed', timeoutMs })).toBe('open');
    }
    await fleet.converged(1, 2, 3);
    await fleet.owner.changes.apply(
      fleet.org,
      {
        devices: [
          { id: client, labels: [] },
          { id: server, labels: [] },
        ],
        security_groups: [{ id: standard, inbound_rules: open }],
        delete: [databases, ...fillers].map((one) => one?.id ?? ''),
      },
      { detach: true },
    );
    await fleet.converged(1, 2, 3);
  });

  test('an isolated device whose root flushes its rules reaches no other device, and every device proves that it refuses it', async () => {
    await label(1);
    const id = await fleet.idOf(1);
    await label(3, 'forensics');
    const isolated = await fleet.owner.devices.isolate(fleet.org, id, {
      reason: 'test',
      allow: [{ labels: ['forensics'] }],
    });
    await fleet.converged(1, 2, 3);
    // A device without an agent proves nothing, and is not among these.
    await fleet.eventually(2, 'every device proves it', async () => {
      const { pending } = await fleet.owner.statuses.convergence(fleet.org, { revision: isolated.revision });
      return pending.every(({ in_force }) => in_force === 'never_seen');
    });
    await expectVerdicts([
      [tcp(1, 2, 5_433), dropOut],
      [tcp(2, 1, 5_433), dropOut],
      [tcp(3, 1, 5_433), 'open'],
      [tcp(1, 3, 5_433), 'open'],
    ]);
    await fleet.device(1).stopAgent('SIGKILL');
    await fleet.device(1).nft('delete', 'table', 'inet', 'service');
    // In both families: the agent has enrolled with all addresses of its interface.
    await expectVerdicts([
      [tcp(1, 2, 5_433), dropIn],
      [tcp(1, 2, 5_433, 6), dropIn],
      [tcp(1, 3, 5_433), 'open'],
    ]);
    await fleet.lab.startAgent(fleet.device(1));
    await fleet.owner.devices.liftIsolation(fleet.org, id);
    await label(3);
    await expectVerdicts([[tcp(1, 2, 5_433), 'open']]);
  });

  test('a device that lists the address of a server which others need does not take it from them when it is isolated', async () => {
    const id = await fleet.idOf(1);
    const server = fleet.device(3).addresses.driver4;
    const before = await fleet.owner.devices.get(fleet.org, id);
    await fleet.owner.devices.update(fleet.org, id, { addresses: [...(before.addresses ?? []), server] });
    const { refused_addresses: refused } = await fleet.owner.devices.isolate(fleet.org, id, { reason: 'test' });
    await fleet.converged(1, 2, 3);
    await expectVerdicts([[udp(2, 3, 53), dropOut]]);
    const addresses = refused.map(({ address }) => address).filter((address) => address !== server);
    await fleet.owner.devices.isolate(fleet.org, id, { reason: 'test', addresses });
    await fleet.converged(1, 2, 3);
    await expectVerdicts([
      [udp(2, 3, 53), 'open'],
      [tcp(1, 2, 5_433), dropOut],
      [tcp(2, 1, 5_433), dropOut],
    ]);
    await fleet.owner.devices.liftIsolation(fleet.org, id);
    await fleet.owner.devices.update(fleet.org, id, { addresses: before.addresses ?? [] });
    await fleet.converged(1, 2, 3);
  });

  test('refused and admitted packets are at the server with both devices and the nearest rule, with reject too; with off nothing is sent', async () => {
    const { owner, org } = fleet;
    const [own, far] = [fleet.device(2), fleet.device(1)];
    const id = await fleet.idOf(2);
    const observed = await group({ inbound_rules: [rule('tcp', 6_022), rule('icmp')] });
    await fleet.attach(2, observed.id);
    /** Whether the rules of the device record and answer. */
    const settled = async (isRecording: boolean): Promise<void> => {
      await fleet.eventually(2, isRecording ? 'it records' : 'it does not record', async () => {
        const { stdout } = await own.nft('list', 'table', 'inet', 'service');
        return (/chain admit-/.test(stdout) && /reject with tcp reset/.test(stdout)) === isRecording;
      });
      await fleet.converged(2);
    };
    /** The agent reports when it stops. The next one goes on with the rules in force. */
    const report = async (): Promise<void> => {
      await own.stopAgent();
      await fleet.lab.startAgent(own);
      await own.agent?.waitFor(/connected to the server/);
    };
    const flowsOf = async (...ports: readonly (number | undefined)[]) =>
      (await owner.flows.list(org, { device_id: id })).filter(({ port }) => ports.includes(port));

    await owner.organizations.update(org, { observe: 'all', refuse_with: 'reject' });
    await settled(true);
    await expectVerdicts([
      [tcp(1, 2, 6_022), 'open'],
      [tcp(1, 2, 6_080), dropIn],
      [udp(1, 2, 6_053), dropIn],
    ]);
    await report();
    const far_devices = [{ device_id: await fleet.idOf(1), hostname: far.name }];
    const common = { device_id: id, hostname: own.name, direction: 'in', far: far.addresses.driver4, far_devices };
    const nearest = { group_id: observed.id, index: 0 };
    const shown = await flowsOf(6_022, 6_080, 6_053);
    expect(shown.toSorted((a, b) => (a.port ?? 0) - (b.port ?? 0))).toMatchObject([
      { ...common, protocol: 'tcp', verdict: 'admitted', decision: { rule: nearest } },
      { ...common, protocol: 'udp', verdict: 'refused', decision: { nearest: { index: 1, differs: ['ip_protocol'] } } },
      { ...common, protocol: 'tcp', verdict: 'refused', decision: { nearest: { ...nearest, differs: ['port'] } } },
    ]);
    const admin = fleet.lab.client(fleet.lab.adminToken);
    const { id: user_id } = await admin.users.create({ username: 'member' });
    await owner.members.add(org, { user_id });
    const member = fleet.lab.client((await admin.tokens.createFor(user_id)).token);
    expect(await member.flows.list(org, { device_id: id })).toEqual([]);

    const address = own.addresses.driver4;
    expect(await far.perform({ do: 'probe', protocol: 'tcp', address, port: 6_081, timeoutMs })).toBe('ECONNREFUSED');
    expect(await far.perform({ do: 'connect', name: 'ended', address, port: 6_022, timeoutMs })).toBe('open');
    expect(await far.perform({ do: 'echo', name: 'ended', timeoutMs })).toBe('open');
    await owner.groups.update(org, observed.id, { inbound_rules: [rule('icmp')] });
    await fleet.converged(2);
    await fleet.eventually(2, 'the connection is ended', async () => {
      return (await far.perform({ do: 'echo', name: 'ended', timeoutMs: 1_000 })) === 'closed';
    });
    expect(await far.perform({ do: 'probe', protocol: 'tcp', address, port: 6_022, timeoutMs })).toBe('ECONNREFUSED');
    await report();
    expect((await flowsOf(6_081)).map(({ verdict }) => verdict)).toEqual(['refused']);
    expect((await flowsOf(6_022)).map(({ verdict }) => verdict)).toContain('refused');

    await owner.organizations.update(org, { observe: 'off', refuse_with: 'drop' });
    await settled(false);
    const before = (await owner.flows.list(org, { device_id: id })).length;
    await expectVerdicts([[tcp(1, 2, 6_082), dropIn]]);
    await report();
    expect(await owner.flows.list(org, { device_id: id })).toHaveLength(before);
    await fleet.attach(2);
  });
});
