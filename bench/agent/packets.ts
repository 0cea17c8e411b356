/** Owns the measure of what a packet that opens a flow costs: under policies of any size, the default chain, and no firewall. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compile } from '../../src/nft/compile/compile.ts';
import { parseInterfaceName } from '../../src/nft/names.ts';
import { install } from '../../src/nft/plan/plan.ts';
import { defaultPolicy } from '../../src/nft/policies.fixture.ts';
import { printCommands } from '../../src/nft/print.ts';
import type { Observe } from '../../src/nft/recording.ts';
import type { CanonicalPolicy } from '../../src/policy/canonical.ts';
import { printAddress } from '../../src/policy/address.ts';
import { connect, hardwareAddress, Namespace } from '../../test/lib/netns.ts';
import { table } from '../lib/table.ts';
import { compile as compileProgram } from '../watch/tools.ts';
import { median, type Goal } from '../lib/goals.ts';
import { firstPort, policyOfSize, ports, rangeStart } from './ranges.ts';

const where = { interface: parseInterfaceName('rf0'), neighbourDiscovery: true, salt: '' };
export const packets = 20_000;
/** So many go before, uncounted (`packets.c`). */
const warmUp = packets / 5;
export const rounds = Number(process.env['RINGFENCE_BENCH_ROUNDS'] ?? 31);

/** After the filter: packets that passed are dropped here, so that no flow is tracked and no answer is sent. */
const sink = `table inet sink {
  counter passed { packets 0 bytes 0; }
  chain input { type filter hook input priority 100; iifname "rf0" meta l4proto tcp counter name passed drop; }
}
`;

/** What is sent: openings that the policy admits, openings that it refuses, or segments of connections that exist. */
export type Traffic = 'admitted' | 'refused' | 'established';

export interface Device {
  readonly name: string;
  readonly ranges: number;
  readonly traffic: Traffic;
  readonly namespace: Namespace;
  readonly peer: Namespace;
  readonly hardware: string;
  /** Nanoseconds per packet, one figure per round: while no other process used the core, and on average. */
  readonly quiet: number[];
  readonly mean: number[];
}

/** No policy of a benchmark admits this port or the next ones. */
const refusedPort = 30_000;
const firstPortOf = (traffic: Traffic): number => (traffic === 'refused' ? refusedPort : firstPort);

/** The connections that `packets.c` sends segments of. */
const connections = (ranges: number): string =>
  Array.from({ length: ranges }, (_, i) => {
    const from = printAddress(4, BigInt(rangeStart(i)));
    const to = firstPort + (i % Math.min(ports, ranges));
    return `-I -p tcp -s ${from} -d 100.64.0.1 --sport 1024 --dport ${to} --state ESTABLISHED -u SEEN_REPLY,ASSURED -t 3600\n`;
  }).join('');

interface DeviceOptions extends Pick<Device, 'name' | 'ranges'> {
  readonly policy: CanonicalPolicy | undefined;
  readonly observe?: Observe;
  /** `admitted` unless given. */
  readonly traffic?: Traffic;
}

/** A device under a policy, with what sends to it; `opened` keeps its namespaces, whatever fails here. */
export async function openDevice(
  opened: Namespace[],
  { name, ranges, policy, observe, traffic = 'admitted' }: DeviceOptions,
): Promise<Device> {
  const [namespace, peer] = await Promise.all([Namespace.create(), Namespace.create()]);
  opened.push(namespace, peer);
  await connect(
    { namespace, name: 'rf0', addresses: ['100.64.0.1/24'] },
    { namespace: peer, name: 'rf0', addresses: ['100.64.0.2/24'] },
  );
  await namespace.sysctl({ 'net/ipv4/conf/all/rp_filter': 0, 'net/ipv4/conf/rf0/rp_filter': 0 });
  await namespace.run(['ip', 'route', 'add', '10.0.0.0/8', 'via', '100.64.0.2']);
  await namespace.run(['nft', '-f', '-'], sink);
  if (policy !== undefined) {
    await namespace.run(['nft', '-f', '-'], printCommands(install(compile(policy, { ...where, observe }))));
  }
  if (traffic === 'established') {
    // The kernel has not seen the sequence numbers of these connections.
    await namespace.sysctl({ 'net/netfilter/nf_conntrack_tcp_be_liberal': 1 });
    await namespace.run(['sh', '-c', 'cat | conntrack --load-file -'], connections(ranges));
  }
  const hardware = await hardwareAddress(namespace, 'rf0');
  return { name, ranges, traffic, namespace, peer, hardware, quiet: [], mean: [] };
}

export async function measurePackets(): Promise<readonly Goal[]> {
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-bench-packets-'));
  const opened: Namespace[] = [];
  try {
    const program = compileProgram('../agent/packets.c', folder);
    const open = (name: string, ranges: number, policy: CanonicalPolicy | undefined) =>
      openDevice(opened, { name, ranges, policy });
    const devices = [
      await open('no firewall', 0, undefined),
      await open('default chain', 0, defaultPolicy),
      await open('10 ranges', 10, policyOfSize(10)),
      await open('10,000 prefixes of one length', 10_000, policyOfSize(10_000)),
      await open('10,000 ranges of several sizes', 10_000, policyOfSize(10_000, 0, 'mixed')),
      await open('100,000 prefixes of one length', 100_000, policyOfSize(100_000)),
      await open('100,000 ranges of several sizes', 100_000, policyOfSize(100_000, 0, 'mixed')),
    ];
    await sendInTurn(devices, program);
    const [none, chain] = devices;
    console.log(
      `\nA packet that opens a flow (${rounds} rounds of ${packets.toLocaleString('en-US')} in turn, ns of the processor each, sending included; undisturbed: what the quickest tenth stays below; ratios of those, round by round, medians):\n`,
    );
    console.log(
      table(
        ['device', 'undisturbed', 'mean', '× default chain', '× no firewall'],
        devices.map((device) => [
          device.name,
          median(device.quiet),
          median(device.mean),
          ratio(device, chain),
          ratio(device, none),
        ]),
      ),
    );
    return devices.flatMap((device): Goal[] => {
      if (device.ranges < 10_000) return [];
      const goal = device.ranges === 10_000 ? 1.25 : 1.6;
      return [
        {
          what: `new flow at ${device.name}, against the default chain`,
          goal,
          measured: ratio(device, chain),
          unit: '×',
        },
      ];
    });
  } finally {
    await Promise.all(opened.map((namespace) => namespace.close()));
    rmSync(folder, { recursive: true, force: true });
  }
}

/** In turn, and each time another one first: what else the machine does weighs on all alike. */
export async function sendInTurn(devices: readonly Device[], program: string): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    for (const [place] of devices.entries()) {
      const device = devices[(place + round) % devices.length];
      if (device === undefined) continue;
      const { peer, hardware, ranges, traffic } = device;
      const sent = [
        packets,
        ranges,
        ports,
        firstPortOf(traffic),
        ...(traffic === 'established' ? ['established'] : []),
      ];
      const argv = ['taskset', '-c', '1', program, 'rf0', hardware, ...sent].map(String);
      const [quiet = Number.NaN, mean = Number.NaN] = (await peer.run(argv)).stdout.split(' ').map(Number);
      device.quiet.push(quiet);
      device.mean.push(mean);
    }
  }
  for (const device of devices) await requireArrival(device);
}

/** How much dearer, round by round: the two were measured a moment apart, so what slowed one slowed the other. */
export const ratio = (device: Device, other: Device | undefined): number =>
  median(device.quiet.map((time, round) => time / (other?.quiet[round] ?? Number.NaN)));

/** A firewall that drops everything would be quick. */
async function requireArrival({ name, namespace, traffic }: Device): Promise<void> {
  const { stdout } = await namespace.run(['nft', '-j', 'list', 'counter', 'inet', 'sink', 'passed']);
  const passed = Number(/"packets": (\d+)/.exec(stdout)?.[1]);
  const isRight = traffic === 'refused' ? passed === 0 : passed > rounds * (packets + warmUp) * 0.99;
  if (!isRight) throw new Error(`${passed} packets passed the filter of: ${name}`);
}
