/** Owns the measure of what a new flow pays for rules that name devices: 1, 16 and 64 selectors of a thousand members, beside the default chain. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defaultPolicy, group } from '../../src/nft/policies.fixture.ts';
import { printAddress } from '../../src/policy/address.ts';
import type { CanonicalPolicy } from '../../src/policy/canonical.ts';
import { canonicalizeNames } from '../../src/policy/canonicalize.ts';
import { Fleet } from '../../src/policy/fleet/fleet.ts';
import { deviceIdentity } from '../../src/policy/fleet/identity.ts';
import { resolvePolicy } from '../../src/policy/fleet/resolve.ts';
import type { Namespace } from '../../test/lib/netns.ts';
import { openDevice, packets, ratio, rounds, sendInTurn, type Device } from '../agent/packets.ts';
import { firstPort, ports, rangeStart } from '../agent/ranges.ts';
import { median, type Goal } from '../lib/goals.ts';
import { table } from '../lib/table.ts';
import { compile as compileProgram } from '../watch/tools.ts';

/** The generator sends from the first 32 addresses of each block; so many blocks are a thousand members. */
const [hosts, blocks] = [32, 31];

/** Every selector is one rule of its own, for all ports that are sent to. */
function policyOfSelectors(selectors: number): CanonicalPolicy {
  const fleet = new Fleet(
    Array.from({ length: selectors * blocks * hosts }, (_, i) => {
      const [block, host] = [Math.floor(i / hosts), i % hosts];
      const tunnel_ip = printAddress(4, BigInt(rangeStart(block) + host));
      return deviceIdentity({ id: `d${i}`, tunnel_ip, labels: [`s${Math.floor(block / blocks)}`] });
    }),
  );
  const rules = Array.from({ length: selectors }, (_, i) => ({
    ip_protocol: 'tcp' as const,
    from_port: firstPort,
    to_port: firstPort + ports - 1,
    peers: [{ labels: [`s${i}`] }],
  }));
  const named = canonicalizeNames(resolvePolicy({ source: 'list', groups: [group(rules)] }, fleet));
  if (named === undefined) throw new Error('a policy that names devices has a form by names');
  return named;
}

export async function measurePeerPackets(): Promise<readonly Goal[]> {
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-bench-packets-'));
  const opened: Namespace[] = [];
  try {
    const program = compileProgram('../agent/packets.c', folder);
    const open = (name: string, ranges: number, policy: CanonicalPolicy) =>
      openDevice(opened, { name, ranges, policy });
    const chain = await open('default chain', 0, defaultPolicy);
    const devices: Device[] = [];
    for (const selectors of [1, 16, 64]) {
      const name = `${selectors} selector${selectors === 1 ? '' : 's'} of 1,000 members`;
      devices.push(await open(name, selectors * blocks, policyOfSelectors(selectors)));
    }
    await sendInTurn([chain, ...devices], program);
    console.log(
      `\nA packet that opens a flow (${rounds} rounds of ${packets.toLocaleString('en-US')} in turn, ns of the processor each, sending included):\n`,
    );
    console.log(
      table(
        ['device', 'undisturbed', 'mean', '× default chain'],
        [chain, ...devices].map((device) => [
          device.name,
          median(device.quiet),
          median(device.mean),
          ratio(device, chain),
        ]),
      ),
    );
    return devices.map((device) => ({
      what: `new flow at ${device.name}, against the default chain`,
      goal: 1.25,
      measured: ratio(device, chain),
      unit: '×',
    }));
  } finally {
    await Promise.all(opened.map((namespace) => namespace.close()));
    rmSync(folder, { recursive: true, force: true });
  }
}
