/** Proves how many packets an agent reports: each once, whatever becomes of its groups and its counters. */
import { describe, expect, it } from 'vitest';
import { groupOf } from '../loop/agent.fixture.ts';
import type { PacketCounts } from '../loop/packet-counts.ts';
import { groupPacketsOf, PacketReports } from './packet-reports.ts';

const [web, guard] = [groupOf(1, []), groupOf(2, [])];
const count = (packets: number) => ({ packets, bytes: 0 });
const inbound = (established: number, refused: number, matched: Readonly<Record<string, number>>): PacketCounts => ({
  inbound: {
    matched: new Map(Object.entries(matched).map(([id, packets]) => [id, count(packets)])),
    reasons: { established: count(established), discovery: count(7), server: count(7), refused: count(refused) },
  },
});
const status = (counts: PacketCounts) => ({
  counts,
  inForce: {
    origin: 'server' as const,
    policy: { source: 'list' as const, groups: [web], guardrails: { forbid: [guard], require: [] } },
  },
});

describe('packets', () => {
  it('are reported from the second report on, each once', () => {
    const reports = new PacketReports();
    const first = status(inbound(100, 10, { [web.id]: 5, [guard.id]: 1 }));
    expect(reports.since(first)).toBeUndefined();
    reports.told(first);
    expect(reports.since(first)).toEqual({ admitted: 0, refused: 0 });
    const second = status(inbound(130, 12, { [web.id]: 8, [guard.id]: 4 }));
    expect(reports.since(second)).toEqual({ admitted: 33, refused: 5 });
    // The report did not arrive: the next one includes its counts.
    expect(reports.since(second)).toEqual({ admitted: 33, refused: 5 });
    reports.told(second);
    expect(reports.since(second)).toEqual({ admitted: 0, refused: 0 });
  });

  it('of a group that left are not taken back, and of one that begins anew all count', () => {
    const reports = new PacketReports();
    reports.told(status(inbound(0, 0, { [web.id]: 500 })));
    expect(reports.since(status(inbound(1, 0, {})))).toEqual({ admitted: 1, refused: 0 });
    expect(reports.since(status(inbound(1, 0, { [web.id]: 3 })))).toEqual({ admitted: 4, refused: 0 });
  });

  it('are not counted where everything passes', () => {
    const reports = new PacketReports();
    reports.told(status({}));
    expect(reports.since(status({}))).toEqual({ admitted: 0, refused: 0 });
  });
});

describe('packets of groups', () => {
  it('are told as they were counted altogether, by direction, the most first', () => {
    const counted = inbound(100, 10, { [web.id]: 5, [guard.id]: 9 });
    const { inbound: outbound } = inbound(0, 0, { [web.id]: 3 });
    const both: PacketCounts = { ...counted, ...(outbound && { outbound }) };
    expect(groupPacketsOf({ counts: both })).toEqual([
      { group_id: guard.id, inbound: 9 },
      { group_id: web.id, inbound: 5, outbound: 3 },
    ]);
  });

  it('are nothing where nothing is counted, and no more than a report may hold', () => {
    expect(groupPacketsOf({ counts: {} })).toEqual([]);
    const many = Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`group-${index}`, index]));
    const told = groupPacketsOf({ counts: inbound(0, 0, many) });
    expect([told.length, told[0]]).toEqual([128, { group_id: 'group-199', inbound: 199 }]);
  });
});
