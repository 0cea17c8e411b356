/** Owns the wording of packet counts of groups, added up over devices. */
import type { GroupPackets } from '../../api/enforcement/overview.ts';
import { grouped } from './number.ts';

/** A direction is absent where nothing is counted. */
export interface PacketSum {
  readonly inbound?: number;
  readonly outbound?: number;
}

/** The sum of what several devices counted for one group; undefined where none did. */
export function addPackets(counted: readonly PacketSum[]): PacketSum | undefined {
  if (counted.length === 0) return undefined;
  const sum: { inbound?: number; outbound?: number } = {};
  for (const one of counted) {
    for (const direction of ['inbound', 'outbound'] as const) {
      const packets = one[direction];
      if (packets !== undefined) sum[direction] = (sum[direction] ?? 0) + packets;
    }
  }
  return sum;
}

/** What one device counted for a group. */
export const packetsFor = (
  group: string,
  status: { readonly group_packets?: readonly GroupPackets[] } | undefined,
): GroupPackets | undefined => status?.group_packets?.find(({ group_id }) => group_id === group);

/** `1,204 in, 3 out`. */
export function packetWords({ inbound, outbound }: PacketSum): string {
  const words = [
    ...(inbound === undefined ? [] : [`${grouped(inbound)} in`]),
    ...(outbound === undefined ? [] : [`${grouped(outbound)} out`]),
  ];
  return words.join(', ');
}
