/** Owns the measure of what a packet pays for recording: openings that are admitted and refused, and segments of established connections, with `off`, `refused` and `all` in turn. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Namespace } from '../../test/lib/netns.ts';
import { openDevice, packets, ratio, rounds, sendInTurn, type Device, type Traffic } from '../agent/packets.ts';
import { policyOfSize } from '../agent/ranges.ts';
import { median, type Goal } from '../lib/goals.ts';
import { table } from '../lib/table.ts';
import { compile as compileProgram } from '../watch/tools.ts';

/** From so many ranges of 32 addresses each: the few far ends of a device, and more than a set has room for. */
const [few, many] = [10, 10_000];
const settings = ['off', 'refused', 'all'] as const;
type Setting = (typeof settings)[number];
/** What each kind of packet may cost beside `off`. */
const goals: { readonly [S in Exclude<Setting, 'off'>]: { readonly [T in Traffic]: number } } = {
  refused: { admitted: 1.15, refused: 1.15, established: 1.02 },
  all: { admitted: 1.3, refused: 1.3, established: 1.02 },
};

interface Row {
  readonly traffic: Traffic;
  readonly ranges: number;
  readonly devices: { readonly [S in Setting]: Device };
}

const nameOf = ({ traffic, ranges }: Pick<Row, 'traffic' | 'ranges'>): string =>
  traffic === 'established'
    ? 'a packet of an established connection'
    : `an opening that is ${traffic}${ranges === few ? ', of 320 far ends' : ', with a full set'}`;

export async function measureRecordedPackets(): Promise<readonly Goal[]> {
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-bench-packets-'));
  const opened: Namespace[] = [];
  try {
    const program = compileProgram('../agent/packets.c', folder);
    const rows: Row[] = [];
    for (const [traffic, ranges] of [
      ['admitted', few],
      ['refused', few],
      ['established', few],
      ['admitted', many],
      ['refused', many],
    ] as const) {
      const policy = policyOfSize(ranges);
      const open = (observe: Setting): Promise<Device> =>
        openDevice(opened, { name: `${nameOf({ traffic, ranges })}, ${observe}`, ranges, policy, observe, traffic });
      rows.push({
        traffic,
        ranges,
        devices: { off: await open('off'), refused: await open('refused'), all: await open('all') },
      });
    }
    await sendInTurn(
      rows.flatMap(({ devices }) => settings.map((setting) => devices[setting])),
      program,
    );
    console.log(
      `\nWhat recording costs a packet (${rounds} rounds of ${packets.toLocaleString('en-US')} in turn, ns of the processor each, sending included; ratios round by round, medians):\n`,
    );
    console.log(
      table(
        ['', ...settings, 'refused ÷ off', 'all ÷ off'],
        rows.map((row) => [
          nameOf(row),
          ...settings.map((setting) => median(row.devices[setting].quiet)),
          ratio(row.devices.refused, row.devices.off),
          ratio(row.devices.all, row.devices.off),
        ]),
      ),
    );
    return rows
      .filter(({ ranges }) => ranges === few)
      .flatMap((row) =>
        (['refused', 'all'] as const).map((setting) => ({
          what: `${nameOf(row)}: ${setting} ÷ off`,
          goal: goals[setting][row.traffic],
          measured: ratio(row.devices[setting], row.devices.off),
          unit: '×',
        })),
      );
  } finally {
    await Promise.all(opened.map((namespace) => namespace.close()));
    rmSync(folder, { recursive: true, force: true });
  }
}
