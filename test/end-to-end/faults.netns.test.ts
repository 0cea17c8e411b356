/** Proves end to end what holds when things go wrong, and what becomes of connections: real agents, killed and cut off, real packets. */
import { readFile, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { lostPolicy } from '../../src/agent/loop/desired-policy.ts';
import { driverName } from '../../dev/lab/topology.ts';
import type { CanonicalPolicy } from '../../src/policy/canonical.ts';
import type { SecurityRule } from '../../src/policy/rule.ts';
import { connect, Namespace } from '../lib/netns.ts';
import { signalIfRunning } from '../lib/processes.ts';
import { serve } from '../lib/talk.ts';
import { Fleet, type Probe } from './fleet.ts';

const port = (number: number): SecurityRule => ({ ip_protocol: 'tcp', from_port: number, to_port: number });
const tcp = (from: number, to: number, number: number): Probe => ({ from, to, protocol: 'tcp', port: number });

let fleet: Fleet;
let group: string;
beforeAll(async () => {
  fleet = await Fleet.open({ devices: 3, phase: 3 });
  const made = await fleet.owner.groups.create(fleet.org, { group_name: 'under test', inbound_rules: [port(22)] });
  group = made.id;
  await fleet.attach(2, group);
  await fleet.converged(2);
});
afterAll(() => fleet?.close());

const edit = async (inbound_rules: SecurityRule[], outbound_rules: SecurityRule[] = []): Promise<void> => {
  await fleet.owner.groups.update(fleet.org, group, { inbound_rules, outbound_rules });
  await fleet.converged(2);
};
const agentLog = (): Promise<string> => readFile(fleet.device(2).agentLog, 'utf8');
/** Long enough for a far end that is heard to be heard: a bound on silence, no measure. */
const aWhile = 2_000;
const timeoutMs = 20_000;

describe('connections', () => {
  const hold = async (name: string, number: number): Promise<void> => {
    expect(await fleet.judge([tcp(1, 2, number)])).toEqual(['open']);
    const { driver4: address } = fleet.device(2).addresses;
    expect(await fleet.device(1).perform({ do: 'connect', name, address, port: number, timeoutMs })).toBe('open');
    expect(await fleet.device(1).perform({ do: 'echo', name, timeoutMs })).toBe('open');
  };

  test('end when the rule that admitted them goes; others live on', async () => {
    await edit([port(22), port(23)]);
    await hold('withdrawn', 22);
    await hold('admitted', 23);
    await edit([port(23)]);
    await fleet.eventually(2, 'connections are ended', async () =>
      (await agentLog()).includes('the agent ended connections'),
    );
    expect(await fleet.device(1).perform({ do: 'echo', name: 'withdrawn', timeoutMs: aWhile })).toBe('closed');
    expect(await fleet.device(1).perform({ do: 'echo', name: 'admitted', timeoutMs })).toBe('open');
    expect(await fleet.judge([tcp(1, 2, 22), tcp(1, 2, 23)])).toEqual(['stopped coming in', 'open']);
  });

  test('live on where the agent was told to keep them, and nobody opens a new one', async () => {
    await fleet.device(2).stopAgent();
    await fleet.lab.startAgent(fleet.device(2), ['--keep-established']);
    await edit([port(22), port(23)]);
    await hold('kept', 22);
    await edit([port(23)]);
    expect(await fleet.judge([tcp(1, 2, 22)])).toEqual(['stopped coming in']);
    expect(await fleet.device(1).perform({ do: 'echo', name: 'kept', timeoutMs })).toBe('open');
    await fleet.device(2).stopAgent();
    await fleet.lab.startAgent(fleet.device(2));
  });

  test.each(['10.99.0.2', 'fd99::2'])(
    'find the narrow place on the way to %s though nothing may come in: the error about them is related',
    async (address) => {
      const far = await Namespace.create();
      try {
        const router = fleet.device(3);
        await connect(
          { namespace: router.namespace, name: 'far0', addresses: ['10.99.0.1/24', 'fd99::1/64'] },
          { namespace: far, name: 'far0', addresses: ['10.99.0.2/24', 'fd99::2/64'] },
        );
        // Narrow at both ends, as a cable is: veth drops what its receiving end could not have been sent.
        for (const end of [router.namespace, far]) await end.run(['ip', 'link', 'set', 'far0', 'mtu', '1300']);
        await router.namespace.sysctl({ 'net/ipv4/ip_forward': 1, 'net/ipv6/conf/all/forwarding': 1 });
        // The far end does not tell of the narrow place, so that only the error can.
        const back = 'route add default via 10.99.0.1 advmss 1460\nroute add default via fd99::1 advmss 1440\n';
        await far.run(['ip', '-batch', '-'], back);
        const { driver4, driver6 } = router.addresses;
        const routes = `route replace 10.99.0.0/24 via ${driver4} dev ${driverName}\nroute replace fd99::/64 via ${driver6} dev ${driverName}\n`;
        await fleet.device(2).namespace.run(['ip', '-batch', '-'], routes);
        await serve({ namespace: far, protocol: 'tcp', address: '::', port: 7_005 });
        await edit([], [port(7_005)]);
        const asked = { do: 'probe', protocol: 'tcp', address, port: 7_005, timeoutMs: 60_000, size: 200_000 } as const;
        expect(await fleet.device(2).perform(asked)).toBe('open');
        const { stdout } = await fleet.device(2).namespace.run(['ip', 'route', 'get', address]);
        expect(stdout).toContain('mtu 1300');
      } finally {
        // The kernel takes a namespace's interfaces away in its own time; the next one needs the name now.
        await fleet.device(3).namespace.attempt(['ip', 'link', 'delete', 'far0']);
        await far.close();
      }
    },
  );
});

describe('the server is gone', () => {
  let policy: CanonicalPolicy;
  beforeAll(async () => {
    await edit([port(22)], [port(443)]);
    policy = await fleet.intended(2);
    await fleet.eventually(2, 'the policy is kept', async () => {
      const kept = await readFile(join(fleet.device(2).stateFolder, 'policy.json'), 'utf8').catch(() => '');
      return kept.includes('443');
    });
    await fleet.lab.stopServer('SIGKILL');
  });

  const verdicts = async () => {
    await fleet.enforces(2, policy);
    return fleet.judge([tcp(1, 2, 22), tcp(1, 2, 80), tcp(2, 1, 443), tcp(2, 1, 80)]);
  };
  const asEver = ['open', 'stopped coming in', 'open', 'stopped going out'];

  test('and the rules stay, repaired as ever', async () => {
    expect(await verdicts()).toEqual(asEver);
    await fleet.device(2).namespace.run(['nft', 'insert', 'rule', 'inet', 'service', 'service-inbound', 'accept']);
    expect(await verdicts()).toEqual(asEver);
  });

  test('and nft is killed under the agent: rules stay, and the next change by hand is undone', async () => {
    let programs: readonly number[] = [];
    await fleet.eventually(2, 'nft runs', async () => (programs = await fleet.processes(2, 'nft')).length > 0);
    for (const pid of programs) signalIfRunning(pid, 'SIGKILL');
    await fleet.device(2).namespace.run(['nft', 'flush', 'chain', 'inet', 'service', 'service-outbound']);
    expect(await verdicts()).toEqual(asEver);
  });

  test('and the agent is killed: its rules stay, and a new one puts back what was taken away meanwhile', async () => {
    await fleet.device(2).stopAgent('SIGKILL');
    expect(await verdicts()).toEqual(asEver);
    await fleet.device(2).namespace.run(['nft', 'delete', 'table', 'inet', 'service']);
    expect(await fleet.judge([tcp(1, 2, 80)])).toEqual(['open']);
    await fleet.lab.startAgent(fleet.device(2));
    expect(await verdicts()).toEqual(asEver);
  });

  test('and what the agent kept is half written: the rules in the kernel stay', async () => {
    await fleet.device(2).stopAgent('SIGKILL');
    for (const name of ['policy.json', 'intent.json']) {
      const path = join(fleet.device(2).stateFolder, name);
      const { length } = await readFile(path, 'utf8').catch(() => '');
      if (length > 0) await truncate(path, Math.floor(length / 2));
    }
    await fleet.lab.startAgent(fleet.device(2));
    await fleet.device(2).agent?.waitFor(/in force/);
    expect(await verdicts()).toEqual(asEver);
  });

  test('and neither disk nor kernel knows the policy that there was: both directions are closed until the server tells it', async () => {
    await fleet.device(2).stopAgent('SIGKILL');
    await fleet.device(2).namespace.run(['nft', 'delete', 'table', 'inet', 'service']);
    for (const name of ['policy.json', 'intent.json']) await truncate(join(fleet.device(2).stateFolder, name), 10);
    await fleet.lab.startAgent(fleet.device(2));
    // A table alone is not enough: the chains are staged in it before the rules that bind the interface are.
    await fleet.enforces(2, lostPolicy.canonical);
    expect(await fleet.judge([tcp(1, 2, 22), tcp(1, 2, 80), tcp(2, 1, 443)])).toEqual([
      'stopped coming in',
      'stopped coming in',
      'stopped going out',
    ]);
  });

  test('and comes back: agents follow it again by themselves, and hear what they missed', async () => {
    await fleet.lab.startServer();
    await fleet.enforces(2, policy);
    await edit([port(80)]);
    expect(await fleet.judge([tcp(1, 2, 22), tcp(1, 2, 80), tcp(2, 1, 80)])).toEqual([
      'stopped coming in',
      'open',
      'open',
    ]);
    await fleet.converged(1, 3);
  });
});
