/**
 * Owns the measure of a join and a leave in one kernel: as one small transaction on a map of 100, 10,000 and 100,000 members, alone and
 * beside 10,000 ranges, over netlink and through `nft -i` in the same run; and as the agent's enforcer does it, from the
 * device's record to the kernel's answer.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join as joinPath } from 'node:path';
import { Enforcer } from '../../src/agent/kernel/enforcer.ts';
import { NftSession } from '../../src/agent/kernel/nft-session.ts';
import { RealNft } from '../../src/agent/kernel/real-nft.ts';
import { NetlinkChannel } from '../../src/agent/netlink/channel.ts';
import { batchOf } from '../../src/agent/netlink/nftables/commands.ts';
import type { DesiredPolicy } from '../../src/agent/loop/desired-policy.ts';
import { desiredFrom } from '../../src/agent/loop/follow-source.ts';
import { systemClock } from '../../src/client/clock.ts';
import type { Command } from '../../src/nft/ast.ts';
import { parseInterfaceName, parseObjectName } from '../../src/nft/names.ts';
import { group } from '../../src/nft/policies.fixture.ts';
import { printAddress } from '../../src/policy/address.ts';
import { Fleet } from '../../src/policy/fleet/fleet.ts';
import { deviceIdentity } from '../../src/policy/fleet/identity.ts';
import { resolvePolicy } from '../../src/policy/fleet/resolve.ts';
import { Namespace } from '../../test/lib/netns.ts';
import { at, median, type Goal } from '../lib/goals.ts';
import { figure, table } from '../lib/table.ts';

const rounds = Number(process.env['RINGFENCE_BENCH_ROUNDS'] ?? 200);
const timeout = 60_000;
const firstMember = 0x0a00_0000n;
const joiner = 0x6440_0001n;
const [family, set, counter] = [4, parseObjectName('peers4'), parseObjectName('in-a')] as const;

const rangesBeside = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, i) => {
    const first = 0xac10_0000n + BigInt(i) * 8n;
    return `${printAddress(4, first)}-${printAddress(4, first + 4n)}`;
  });

/** A table as an agent makes it: a map from addresses to a counter, and beside it perhaps a large set of ranges. */
function ruleset(members: number, ranges: number): string {
  const elements = Array.from(
    { length: members },
    (_, i) => `${printAddress(4, firstMember + BigInt(i))} : "${counter}"`,
  );
  const blocks = rangesBeside(ranges);
  const filled = elements.length === 0 ? '' : `elements = { ${elements.join(', ')} };`;
  const wide = blocks.length === 0 ? '' : `ip saddr { ${blocks.join(', ')} } accept`;
  return `flush ruleset
table inet service {
  counter ${counter} { }
  map ${set} { type ipv4_addr : counter; ${filled} }
  chain inbound { counter name ip saddr map @${set} accept
    ${wide}
  }
}
`;
}

/** The agent's way of a change, from the device's record to the kernel's answer, beside a rule with so many ranges. */
async function enforced(
  { namespace, channel }: { readonly namespace: Namespace; readonly channel: NetlinkChannel },
  members: number,
  ranges: number,
): Promise<readonly [joins: readonly number[], leaves: readonly number[]]> {
  await namespace.run(['nft', 'flush', 'ruleset']);
  const folder = await mkdtemp(joinPath(tmpdir(), 'ringfence-bench-peers-'));
  const nft = new RealNft({ clock: systemClock, scratch: folder, prefix: namespace.inside([]), netlink: channel });
  const enforcer = new Enforcer({ nft, random: Math.random });
  const labels = ['app'];
  const memberOf = (value: bigint, id: string) => deviceIdentity({ id, tunnel_ip: printAddress(4, value), labels });
  // Every other address: neighbours would be one range.
  const fleet = new Fleet(Array.from({ length: members }, (_, i) => memberOf(firstMember + 2n * BigInt(i), `d${i}`)));
  const port = { ip_protocol: 'tcp', from_port: 5_432, to_port: 5_432 } as const;
  const wide = { ...port, ip_ranges: rangesBeside(ranges) };
  const policy = {
    source: 'list',
    groups: [group([{ ...port, peers: [{ labels }] }, ...(ranges > 0 ? [wide] : [])])],
  } as const;
  let desired: DesiredPolicy | undefined;
  const apply = async (): Promise<void> => {
    desired = desiredFrom({ kind: 'known', policy: resolvePolicy(policy, fleet), revision: 1 }, desired, {
      at: Date.now(),
      isolationsAt: Date.now(),
    });
    const { canonical, named, membership } = desired;
    await enforcer.apply({
      policy: canonical,
      named,
      membership,
      interface: parseInterfaceName('rf0'),
      neighbourDiscovery: false,
    });
  };
  const [joins, leaves]: [number[], number[]] = [[], []];
  try {
    await apply();
    for (let round = 0; round < rounds + 5; round += 1) {
      for (const [work, list] of [
        [() => fleet.set(memberOf(joiner, 'joiner')), joins],
        [() => fleet.delete('joiner'), leaves],
      ] as const) {
        const from = performance.now();
        work();
        await apply();
        if (round >= 5) list.push(performance.now() - from);
      }
    }
    const { findings } = await enforcer.verify();
    if (findings.length > 0) throw new Error(`the kernel holds something else: ${JSON.stringify(findings)}`);
  } finally {
    await nft.close();
    await rm(folder, { recursive: true, force: true });
  }
  return [joins, leaves];
}

const sizes = [0, 10_000].flatMap((ranges) => [100, 10_000, 100_000].map((members) => [members, ranges] as const));

export async function measureKernel(): Promise<readonly Goal[]> {
  const namespace = await Namespace.create();
  const channel = new NetlinkChannel({ clock: systemClock, prefix: namespace.inside([]) });
  const rows: string[][] = [];
  const goals: Goal[] = [];
  try {
    for (const [members, ranges] of sizes) {
      await namespace.run(['nft', '-f', '-'], ruleset(members, ranges));
      const session = new NftSession({ clock: systemClock, prefix: namespace.inside([]), program: 'nft' });
      const text = printAddress(4, joiner);
      const element = `{ ${text} : "${counter}" }`;
      const ask = async (line: string): Promise<void> => {
        const said = await session.ask(line, timeout);
        if (said.some((each) => each.includes('Error'))) throw new Error(said.join('\n'));
      };
      const change = async (command: Command): Promise<void> => batchOf([command])?.run(channel);
      const ways: readonly [string, () => Promise<void>, () => Promise<void>, number][] = [
        [
          'netlink',
          () => change({ kind: 'addElements', map: set, family, elements: [[joiner, counter]] }),
          () => change({ kind: 'deleteElements', map: set, family, addresses: [joiner] }),
          rounds,
        ],
        [
          'nft -i',
          () => ask(`add element inet service ${set} ${element}`),
          () => ask(`delete element inet service ${set} { ${text} }`),
          Math.ceil(rounds / 10),
        ],
      ];

      for (const [name, join_, leave, times] of ways) {
        const [joins, leaves]: [number[], number[]] = [[], []];
        for (let round = 0; round < times + 5; round += 1) {
          for (const [work, list] of [
            [join_, joins],
            [leave, leaves],
          ] as const) {
            const from = performance.now();
            await work();
            if (round >= 5) list.push(performance.now() - from);
          }
        }

        const cells = [joins, leaves].map((list) => `${figure(median(list))}, ${figure(at(list, 0.99))} ms`);
        rows.push([members.toLocaleString('en-US'), ranges.toLocaleString('en-US'), name, ...cells]);
      }
      await session.end();
    }
    for (const [members, ranges] of sizes) {
      const [joins, leaves] = await enforced({ namespace, channel }, members, ranges);
      const cells = [joins, leaves].map((list) => `${figure(median(list))}, ${figure(at(list, 0.99))} ms`);
      rows.push([members.toLocaleString('en-US'), ranges.toLocaleString('en-US'), 'the agent', ...cells]);
      const where = `${members.toLocaleString('en-US')} members beside ${ranges.toLocaleString('en-US')} ranges`;
      goals.push({ what: `a join at the agent, ${where}`, goal: 1, measured: median(joins), unit: 'ms' });
      goals.push({ what: `a leave at the agent, ${where}`, goal: 1, measured: median(leaves), unit: 'ms' });
    }
    console.log('\nA join and a leave in one kernel:\n');
    console.log(table(['members', 'ranges beside', 'way', 'join p50, p99 or worst', 'leave'], rows));
    return goals;
  } finally {
    await channel.close();
    await namespace.close();
  }
}
