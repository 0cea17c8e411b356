/** Owns what a scenario names: devices with labels and addresses, peers in its rules, guardrails above its groups. */
import type { Family, Peer } from '../../src/policy/rule.ts';
import type { Random } from '../lib/random.ts';
import { canCarryProbe, drawRange, type DrawnRange } from './addresses.ts';

/** A device as drawn; its addresses are ranges of one. */
export interface DrawnDevice {
  readonly id: string;
  readonly labels: readonly string[];
  readonly addresses: readonly DrawnRange[];
}

const labels = ['db', 'web', 'prod', 'eu'] as const;
const deviceId = (n: number): string => `00000000-0000-4000-9000-${n.toString(16).padStart(12, '0')}`;
/** No device has it. */
const nobody = deviceId(0xfff);

/** Some devices near the anchors of the scenario; some share an address, and some have none. */
export function drawDevices(
  random: Random,
  anchors: Readonly<Record<Family, readonly bigint[]>>,
  before: readonly DrawnRange[],
): DrawnDevice[] {
  const used: DrawnRange[] = [];
  const drawAddress = (): DrawnRange => {
    if (used.length > 0 && random.chance(0.2)) return random.pick(used);
    const family = random.pick<Family>([4, 6]);
    for (let attempts = 0; attempts < 10; attempts++) {
      const { first } = drawRange(random, family, anchors[family], before);
      if (!canCarryProbe(family, first)) continue;
      const range = { family, first, last: first, text: '' };
      used.push(range);
      return range;
    }
    const first = family === 4 ? 0x0a01_0000n + BigInt(used.length) : (0xfd01n << 112n) + BigInt(used.length);
    return { family, first, last: first, text: '' };
  };
  return Array.from({ length: random.int(1, 9) }, (_, i) => ({
    id: deviceId(i + 1),
    labels: labels.filter(() => random.chance(0.45)),
    addresses: random.many(random.int(0, 4), drawAddress),
  }));
}

/** One to three peers, none of them twice. */
export function drawPeers(random: Random, devices: readonly DrawnDevice[]): Peer[] {
  const peers = random.many(random.int(1, 3), (): Peer => {
    const kind = random.bits() % 100;
    if (kind < 12) return { all_devices: true };
    if (kind < 35) return { device_id: random.chance(0.2) ? nobody : random.pick(devices).id };
    return { labels: random.shuffled(labels).slice(0, random.pick([1, 1, 2, 3])) };
  });
  const keys = peers.map((peer) => JSON.stringify('labels' in peer ? peer.labels.toSorted() : peer));
  return peers.filter((_, i) => keys.indexOf(keys[i] ?? '') === i);
}

/** The addresses of the devices that peers name, read naively. */
export const addressesNamed = (peers: readonly Peer[], devices: readonly DrawnDevice[]): DrawnRange[] =>
  devices
    .filter(({ id, labels: carried }) =>
      peers.some((peer) => {
        if ('device_id' in peer) return peer.device_id === id;
        return 'all_devices' in peer || peer.labels.every((label) => carried.includes(label));
      }),
    )
    .flatMap(({ addresses }) => addresses);
