/** Proves that the short way of a join or leave, from what changed, comes to what the whole recalculation comes to. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Command } from '../../nft/ast.ts';
import type { InstalledTables } from '../../nft/read/listing.ts';
import { parseInterfaceName } from '../../nft/names.ts';
import { canonicalize } from '../../policy/canonicalize.ts';
import { policyDigest } from '../../policy/digest/digest.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { fleetChange, guardedPolicy } from '../../policy/fleet/fleet.fixture.ts';
import { Fleet } from '../../policy/fleet/fleet.ts';
import { deviceIdentity, type DeviceIdentity } from '../../policy/fleet/identity.ts';
import { resolvePolicy } from '../../policy/fleet/resolve.ts';
import type { StoredRule } from '../../policy/rule.ts';
import { Enforcer, type Target } from '../kernel/enforcer.ts';
import { FakeNft } from '../kernel/fake-nft.fixture.ts';
import { groupOf } from './agent.fixture.ts';
import type { DesiredPolicy } from './desired-policy.ts';
import { desiredFrom } from './follow-source.ts';
import { remotesOfChange } from './membership-change.ts';

const targetOf = ({ canonical: policy, named, membership }: DesiredPolicy): Target => ({
  policy,
  named,
  membership,
  interface: parseInterfaceName('rf0'),
  neighbourDiscovery: false,
  forwarding: 'on',
});

class Recorder extends FakeNft {
  listings = 0;
  batches: (readonly Command[])[] = [];
  override async list(...args: Parameters<FakeNft['list']>): ReturnType<FakeNft['list']> {
    this.listings += 1;
    return super.list(...args);
  }
  override async run(commands: readonly Command[]): Promise<void> {
    await super.run(commands);
    this.batches.push(commands);
  }
}

/** The agent's way of a policy, without its surroundings. */
class Way {
  readonly nft = new Recorder();
  readonly enforcer = new Enforcer({ nft: this.nft, random: () => 0.5 });
  readonly fleet = new Fleet();
  desired: DesiredPolicy | undefined;

  async follow(policy: EffectivePolicy): Promise<void> {
    this.desired = desiredFrom(
      { kind: 'known', policy: resolvePolicy(policy, this.fleet), revision: 1 },
      this.desired,
      { at: 0, isolationsAt: 0 },
    );
    await this.enforcer.apply(targetOf(this.desired));
  }
}

/** What the maps of both tables hold, by their names. */
async function mapsOf(nft: FakeNft): Promise<unknown> {
  const tables: InstalledTables = {
    service: await nft.list('service'),
    'service-forward': await nft.list('service-forward'),
  };
  return Object.entries(tables).map(([table, installed]) => [
    table,
    new Map(
      (installed?.objects ?? []).flatMap(({ name, members }) =>
        members === undefined ? [] : [[name, new Map(members.elements)] as const],
      ),
    ),
  ]);
}

async function afresh(policy: EffectivePolicy, devices: Iterable<DeviceIdentity>): Promise<Way> {
  const way = new Way();
  for (const device of devices) way.fleet.set(device);
  await way.follow(policy);
  return way;
}

describe('the short way of a join or leave', () => {
  test('comes to the rules, the digest and the far ends of the whole recalculation, whatever joins, leaves, moves or is shared', async () => {
    await fc.assert(
      fc.asyncProperty(
        guardedPolicy,
        fc.array(fc.array(fleetChange, { minLength: 1, maxLength: 3 }), { maxLength: 10 }),
        async (policy, rounds) => {
          const way = new Way();
          const devices = new Map<string, DeviceIdentity>();
          await way.follow(policy);
          for (const changes of rounds) {
            const before = way.desired?.policy;
            for (const change of changes) {
              if ('gone' in change) {
                way.fleet.delete(change.gone);
                devices.delete(change.gone);
              } else {
                way.fleet.set(change);
                devices.set(change.id, change);
              }
            }
            await way.follow(policy);
            const remotes = remotesOfChange(before, way.desired?.policy);
            const compared = remotesOfChange(before && plain(before), resolvePolicy(policy, way.fleet));
            expect(remotes && new Set(remotes)).toEqual(compared && new Set(compared));
          }
          const whole = await afresh(policy, devices.values());
          expect(await mapsOf(way.nft)).toEqual(await mapsOf(whole.nft));
          const { findings, policy: read } = await way.enforcer.verify();
          expect(findings).toEqual([]);
          const resolved = resolvePolicy(policy, new Fleet(devices.values()));
          expect(read && policyDigest(read)).toBe(policyDigest(canonicalize(resolved)));
        },
      ),
      { numRuns: 25 },
    );
  });

  test('counts a device for another group once that names it too, as the whole recalculation does', async () => {
    const from = (label: string): StoredRule => ({
      ip_protocol: 'tcp',
      from_port: 22,
      to_port: 22,
      peers: [{ labels: [label] }],
    });
    const policy: EffectivePolicy = {
      source: 'list',
      groups: [groupOf(1, [from('app')]), groupOf(2, [from('db')])],
      guardrails: { forbid: [groupOf(3, [from('bad')]), groupOf(4, [from('db'), from('app')])], require: [] },
    };
    const way = new Way();
    await way.follow(policy);
    for (const labels of [['db'], ['app', 'db'], ['app'], ['app', 'bad', 'db'], ['db']]) {
      const device = deviceIdentity({ id: 'a', tunnel_ip: '100.64.0.1', labels });
      way.fleet.set(device);
      await way.follow(policy);
      expect(await mapsOf(way.nft)).toEqual(await mapsOf((await afresh(policy, [device])).nft));
    }
  });

  test('asks nothing of the kernel and changes its elements alone', async () => {
    const way = new Way();
    const policy: EffectivePolicy = {
      source: 'list',
      groups: [groupOf(1, [{ ip_protocol: 'tcp', from_port: 22, to_port: 22, peers: [{ labels: ['app'] }] }])],
    };
    const app = (n: number): DeviceIdentity =>
      deviceIdentity({ id: `d${n}`, tunnel_ip: `100.64.0.${n}`, labels: ['app'] });
    way.fleet.set(app(1));
    await way.follow(policy);
    await way.enforcer.verify();
    way.nft.listings = 0;
    way.nft.batches = [];
    way.fleet.set(app(2));
    await way.follow(policy);
    way.fleet.delete('d1');
    await way.follow(policy);
    expect(way.nft.listings).toBe(0);
    expect(way.nft.batches.map((batch) => batch.map(({ kind }) => kind))).toEqual([
      ['addElements', 'addElements'],
      ['deleteElements', 'deleteElements'],
    ]);
  });

  test('is left where the kernel refuses it, and the whole recalculation puts things right', async () => {
    const way = new Way();
    const policy: EffectivePolicy = {
      source: 'list',
      groups: [groupOf(1, [{ ip_protocol: 'tcp', from_port: 22, to_port: 22, peers: [{ labels: ['app'] }] }])],
    };
    way.fleet.set(deviceIdentity({ id: 'a', tunnel_ip: '100.64.0.1', labels: ['app'] }));
    await way.follow(policy);
    for (const failure of ['refused', 'interrupted'] as const) {
      way.nft.failNext(failure);
      way.fleet.set(deviceIdentity({ id: failure, tunnel_ip: '100.64.0.2', labels: ['app'] }));
      await way.follow(policy);
      expect((await way.enforcer.verify()).findings).toEqual([]);
      way.fleet.delete(failure);
      await way.follow(policy);
      expect((await way.enforcer.verify()).findings).toEqual([]);
    }
  });

  test('is not taken where somebody else had a hand in the maps', async () => {
    const way = new Way();
    const policy: EffectivePolicy = {
      source: 'list',
      groups: [groupOf(1, [{ ip_protocol: 'tcp', from_port: 22, to_port: 22, peers: [{ labels: ['app'] }] }])],
    };
    way.fleet.set(deviceIdentity({ id: 'a', tunnel_ip: '100.64.0.1', labels: ['app'] }));
    await way.follow(policy);
    way.nft.tamper(
      (table) =>
        table && {
          ...table,
          objects: table.objects.map(({ members, ...each }) =>
            members === undefined ? each : { ...each, members: { ...members, elements: new Map() } },
          ),
        },
    );
    // As an inspection finds it, and as the monitor reports it.
    expect((await way.enforcer.inspect()).findings).toHaveLength(1);
    const whole = await afresh(policy, [deviceIdentity({ id: 'a', tunnel_ip: '100.64.0.1', labels: ['app'] })]);
    expect(await mapsOf(way.nft)).toEqual(await mapsOf(whole.nft));
    way.enforcer.distrust();
    way.fleet.set(deviceIdentity({ id: 'b', tunnel_ip: '100.64.0.2', labels: ['app'] }));
    await way.follow(policy);
    expect((await way.enforcer.verify()).findings).toEqual([]);
  });
});

/** The policy with its members written out, as it is read from a disk: nothing of their history is known. */
function plain(policy: EffectivePolicy): EffectivePolicy {
  const groups = (list: EffectivePolicy['groups'] = []): EffectivePolicy['groups'] =>
    list.map((group) => {
      const rules = (which: 'inbound' | 'outbound') =>
        group[which].map((rule) =>
          rule.members === undefined ? rule : { ...rule, members: { v4: rule.members.v4, v6: rule.members.v6 } },
        );
      return { ...group, inbound: rules('inbound'), outbound: rules('outbound') };
    });
  const { guardrails } = policy;
  return {
    ...policy,
    groups: groups(policy.groups),
    ...(guardrails && { guardrails: { forbid: groups(guardrails.forbid), require: groups(guardrails.require) } }),
  };
}
