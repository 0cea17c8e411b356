/** Owns the measure of what a forwarded packet that opens a flow costs: redirected or only routed, with our table and without. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compile } from '../../src/nft/compile/compile.ts';
import { parseInterfaceName } from '../../src/nft/names.ts';
import { install } from '../../src/nft/plan/plan.ts';
import { printCommands } from '../../src/nft/print.ts';
import type { CanonicalPolicy } from '../../src/policy/canonical.ts';
import { connect, hardwareAddress, Namespace } from '../../test/lib/netns.ts';
import { median, type Goal } from '../lib/goals.ts';
import { table } from '../lib/table.ts';
import { compile as compileProgram } from '../watch/tools.ts';
import { packets, ratio, rounds, sendInTurn, type Device } from './packets.ts';
import { policyOfSize } from './ranges.ts';

const where = { interface: parseInterfaceName('rf0'), neighbourDiscovery: true } as const;

/** Behind the filter, before the packet leaves: what passed ends here, so that no flow is remembered. */
const sink = `table inet sink {
  counter passed { packets 0 bytes 0; }
  chain forward { type filter hook forward priority 100; iifname "rf0" meta l4proto tcp counter name passed drop; }
}
`;
const redirection = `table ip nat {
  chain prerouting { type nat hook prerouting priority dstnat; iifname "rf0" meta l4proto tcp dnat to 10.88.0.2:80; }
}
`;

interface Kind {
  readonly name: string;
  readonly ranges: number;
  readonly redirected: boolean;
  readonly policy: CanonicalPolicy;
  /** Without it there is the specified table alone, for which connections are tracked already. */
  readonly guarded: boolean;
}

const [small, large] = [policyOfSize(10), policyOfSize(10_000)];
const kinds: readonly Kind[] = [
  { name: 'routed, containers ignored', ranges: 0, redirected: false, policy: large, guarded: false },
  { name: 'routed, containers guarded', ranges: 0, redirected: false, policy: large, guarded: true },
  { name: 'redirected, containers ignored', ranges: 10, redirected: true, policy: small, guarded: false },
  { name: 'redirected, guarded, 10 ranges', ranges: 10, redirected: true, policy: small, guarded: true },
  { name: 'redirected, guarded, 10,000 ranges', ranges: 10_000, redirected: true, policy: large, guarded: true },
];

async function open({ name, ranges, redirected, policy, guarded }: Kind, opened: Namespace[]): Promise<Device> {
  const [namespace, peer] = await Promise.all([Namespace.create(), Namespace.create()]);
  opened.push(namespace, peer);
  // The load is for 100.64.0.1: an address of the device that it redirects, or one behind it.
  await connect(
    { namespace, name: 'rf0', addresses: [redirected ? '100.64.0.1/24' : '100.64.0.3/24'] },
    { namespace: peer, name: 'rf0', addresses: ['100.64.0.2/24'] },
  );
  await namespace.sysctl({
    'net/ipv4/conf/all/rp_filter': 0,
    'net/ipv4/conf/rf0/rp_filter': 0,
    'net/ipv4/ip_forward': 1,
  });
  const behind = redirected ? '10.88.0.0/24' : '100.64.0.1/32';
  await namespace.run(
    ['ip', '-batch', '-'],
    `link add cni0 type veth peer name cni1\nlink set cni0 up\nlink set cni1 up\nroute add ${behind} dev cni0\nroute add 10.0.0.0/8 via 100.64.0.2\n`,
  );
  await namespace.run(['nft', '-f', '-'], redirected ? `${sink}${redirection}` : sink);
  const ruleset = compile(policy, { ...where, forwarding: guarded ? 'on' : undefined });
  await namespace.run(['nft', '-f', '-'], printCommands(install(ruleset)));
  return {
    name,
    ranges,
    traffic: 'admitted',
    namespace,
    peer,
    hardware: await hardwareAddress(namespace, 'rf0'),
    quiet: [],
    mean: [],
  };
}

export async function measureForwarded(): Promise<readonly Goal[]> {
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-bench-forwarded-'));
  const opened: Namespace[] = [];
  try {
    const program = compileProgram('../agent/packets.c', folder);
    const devices: Device[] = [];
    for (const kind of kinds) devices.push(await open(kind, opened));
    await sendInTurn(devices, program);
    const [routed, guarded, redirected, few, many] = devices;
    const beside = (device: Device | undefined, other: Device | undefined): number =>
      device === undefined ? Number.NaN : ratio(device, other);
    console.log(
      `\nA forwarded packet that opens a flow (${rounds} rounds of ${packets.toLocaleString('en-US')} in turn, ns of the processor each, sending included, as above):\n`,
    );
    console.log(
      table(
        ['device', 'undisturbed', 'mean', '× containers ignored'],
        devices.map((device) => [
          device.name,
          median(device.quiet),
          median(device.mean),
          ratio(device, device === routed || device === guarded ? routed : redirected),
        ]),
      ),
    );
    return [
      {
        what: 'a packet that is only routed, beside containers ignored',
        goal: 1.15,
        measured: beside(guarded, routed),
        unit: '×',
      },
      {
        what: 'a redirected flow, 10 ranges, beside containers ignored',
        goal: 1.35,
        measured: beside(few, redirected),
        unit: '×',
      },
      {
        what: 'a redirected flow, 10,000 ranges, beside containers ignored',
        goal: 1.5,
        measured: beside(many, redirected),
        unit: '×',
      },
    ];
  } finally {
    await Promise.all(opened.map((namespace) => namespace.close()));
    rmSync(folder, { recursive: true, force: true });
  }
}
