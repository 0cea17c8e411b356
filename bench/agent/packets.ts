/** Owns the measure of what a packet that opens a flow costs: under policies of any size, the default chain, and no firewall. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compile } from '../../src/nft/compile.ts';
import { parseInterfaceName } from '../../src/nft/names.ts';
import { install } from '../../src/nft/plan.ts';
import { defaultPolicy } from '../../src/nft/policies.fixture.ts';
import { printCommands } from '../../src/nft/print.ts';
import type { CanonicalPolicy } from '../../src/policy/canonical.ts';
import { connect, hardwareAddress, Namespace } from '../../test/lib/netns.ts';
import { table } from '../lib/table.ts';
import { compile as compileProgram } from '../watch/tools.ts';
import { median, type Goal } from './figures.ts';
import { firstPort, policyOfSize, ports } from './ranges.ts';

const where = { interface: parseInterfaceName('rf0'), neighbourDiscovery: true, salt: '' };
const packets = 100_000;
const rounds = 9;

/** Behind the filter: what passed ends here, so that no flow is remembered and nobody answers. */
const sink = `table inet sink {
  counter passed { packets 0 bytes 0; }
  chain input { type filter hook input priority 100; iifname "rf0" meta l4proto tcp counter name passed drop; }
}
`;

interface Device {
  readonly name: string;
  readonly ranges: number;
  readonly namespace: Namespace;
  readonly peer: Namespace;
  readonly hardware: string;
  readonly times: number[];
}

export async function measurePackets(): Promise<readonly Goal[]> {
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-bench-packets-'));
  const opened: Namespace[] = [];
  try {
    const program = compileProgram('../agent/packets.c', folder);
    const open = async (name: string, ranges: number, policy: CanonicalPolicy | undefined): Promise<Device> => {
      const [namespace, peer] = await Promise.all([Namespace.create(), Namespace.create()]);
      opened.push(namespace, peer);
      await connect(
        { namespace, name: 'rf0', addresses: ['100.64.0.1/24'] },
        { namespace: peer, name: 'rf0', addresses: ['100.64.0.2/24'] },
      );
      await namespace.sysctl({ 'net/ipv4/conf/all/rp_filter': 0, 'net/ipv4/conf/rf0/rp_filter': 0 });
      await namespace.run(['ip', 'route', 'add', '10.0.0.0/8', 'via', '100.64.0.2']);
      await namespace.run(['nft', '-f', '-'], sink);
      if (policy !== undefined) await namespace.run(['nft', '-f', '-'], printCommands(install(compile(policy, where))));
      return { name, ranges, namespace, peer, hardware: await hardwareAddress(namespace, 'rf0'), times: [] };
    };
    const devices = [
      await open('no firewall', 0, undefined),
      await open('default chain', 0, defaultPolicy),
      await open('10 ranges', 10, policyOfSize(10)),
      await open('10,000 ranges', 10_000, policyOfSize(10_000)),
      await open('100,000 ranges', 100_000, policyOfSize(100_000)),
    ];
    // In turn, so that whatever else the machine does weighs on all alike; the best of each counts.
    for (let round = 0; round < rounds; round++) {
      for (const { peer, hardware, ranges, times } of devices) {
        const argv = ['taskset', '-c', '1', program, 'rf0', hardware, packets, ranges, ports, firstPort].map(String);
        times.push(Number((await peer.run(argv)).stdout));
      }
    }
    for (const { name, namespace } of devices) await requireArrival(name, namespace);
    const best = (device: Device | undefined): number => Math.min(...(device?.times ?? []));
    const [none, chain, , ten, hundred] = devices;
    console.log(
      `\nA packet that opens a flow (${rounds} rounds of ${packets.toLocaleString('en-US')} in turn, ns of the processor each, sending included):\n`,
    );
    console.log(
      table(
        ['device', 'best', 'median', '× default chain', '× no firewall'],
        devices.map((device) => [
          device.name,
          best(device),
          median(device.times),
          best(device) / best(chain),
          best(device) / best(none),
        ]),
      ),
    );
    return [
      {
        what: 'new flow at 10,000 ranges, against the default chain',
        goal: 1.25,
        measured: best(ten) / best(chain),
        unit: '×',
      },
      {
        what: 'new flow at 100,000 ranges, against the default chain',
        goal: 1.6,
        measured: best(hundred) / best(chain),
        unit: '×',
      },
    ];
  } finally {
    await Promise.all(opened.map((namespace) => namespace.close()));
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A firewall that drops everything would be quick. */
async function requireArrival(name: string, namespace: Namespace): Promise<void> {
  const { stdout } = await namespace.run(['nft', '-j', 'list', 'counter', 'inet', 'sink', 'passed']);
  const passed = Number(/"packets": (\d+)/.exec(stdout)?.[1]);
  if (!(passed > rounds * packets * 0.99)) throw new Error(`only ${passed} packets passed the filter of: ${name}`);
}
