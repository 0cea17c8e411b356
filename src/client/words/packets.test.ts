/** Proves how packet counts of rules are added up and worded. */
import { expect, test } from 'vitest';
import { addPackets, packetsFor, packetWords } from './packets.ts';

test('a direction that nobody counts stays untold, and one that counted nothing does not', () => {
  const sum = addPackets([{ inbound: 1_200 }, { inbound: 4 }, {}]);
  expect(sum).toEqual({ inbound: 1_204 });
  expect(packetWords(sum ?? {})).toBe('1,204 in');
  expect(packetWords({ inbound: 0, outbound: 3 })).toBe('0 in, 3 out');
  expect(addPackets([])).toBeUndefined();
});

test('a device that tells nothing of a group counts for nothing', () => {
  const group_packets = [{ group_id: 'web', inbound: 7 }];
  expect([packetsFor('web', { group_packets })?.inbound, packetsFor('db', { group_packets })]).toEqual([7, undefined]);
  expect([packetsFor('web', {}), packetsFor('web', undefined)]).toEqual([undefined, undefined]);
});
