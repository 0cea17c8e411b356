/** Proves that pages of traffic have every sum once, newest first, and that one busy device among many does not make a search take many reads. */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { parseDeviceId, parseOrganizationId, type DeviceId } from '../../../policy/ids.ts';
import type { FlowQuery, StoredFlow } from '../data/flows.ts';
import type { Runner } from '../postgres/connection.ts';
import type { LookedRow } from './statements.ts';
import { writeBlock } from './sum-block.ts';
import { readPage } from './walk.ts';

const org = parseOrganizationId(randomUUID());
const start = Date.UTC(2026, 10, 18);
const time = (minute: number): string => new Date(start + minute * 60_000).toISOString();

type Block = Omit<LookedRow, 'place'> & { readonly block: Buffer; readonly wanted: boolean };

/** Blocks with one sum each, as the statements would answer for them. */
function stored(minutes: readonly (readonly [DeviceId, number, boolean])[]) {
  const blocks = minutes
    .map(([device_id, minute, wanted], index): Block => {
      const far = BigInt(index);
      const sum = { direction: 'in', verdict: 'refused', family: 4, far, protocol: 6, port: 1, packets: 1 } as const;
      return {
        id: String(index + 1),
        device_id,
        since: time(minute - 1),
        until: time(minute),
        block: writeBlock([sum]),
        wanted,
      };
    })
    .toSorted((a, b) => (a.until === b.until ? Number(b.id) - Number(a.id) : a.until < b.until ? 1 : -1));
  const ofDevice = new Map<string, Block[]>();
  for (const block of blocks) ofDevice.set(block.device_id, [...(ofDevice.get(block.device_id) ?? []), block]);
  let reads = 0;
  const runner = {
    run: (_: unknown, values: readonly unknown[]) => {
      reads += 1;
      const [, , , untils, , ids, limit, , devices] = values as [
        ...[unknown, unknown, unknown],
        readonly string[],
        unknown,
        readonly string[],
        number,
        unknown,
        readonly string[],
      ];
      const rows = devices.flatMap((device, lane) => {
        const [until = '', id = ''] = [untils[lane], ids[lane]];
        return (ofDevice.get(device) ?? [])
          .filter((one) => one.until < until || (one.until === until && BigInt(one.id) <= BigInt(id)))
          .slice(0, limit)
          .map(({ wanted, ...row }, index) => ({ ...row, place: index + 1, block: wanted ? row.block : null }));
      });
      return Promise.resolve(rows.filter(({ block, place }) => block !== null || place === limit));
    },
  } as unknown as Runner;
  const all = async (query: Omit<FlowQuery, 'after'>): Promise<readonly StoredFlow[]> => {
    const flows: StoredFlow[] = [];
    for (let after: string | undefined; ;) {
      const page = await readPage(runner, org, { ...query, after });
      flows.push(...page.flows);
      if (page.next === undefined) return flows;
      after = page.next;
    }
  };
  const wanted = blocks.filter((one) => one.wanted).map(({ until }) => until);
  return { all, wanted, reads: () => reads };
}

const devices = Array.from({ length: 200 }, () => parseDeviceId(randomUUID()));
const busy = parseDeviceId(randomUUID());

test('every sum is on one page, newest first, however unevenly devices report', async () => {
  const minutes = devices
    .slice(0, 40)
    .flatMap((device, index) =>
      Array.from(
        { length: 1 + ((index * 7) % 40) },
        (_, n) => [device, (n * (1 + (index % 5))) % 90, (index + n) % 3 > 0] as const,
      ),
    );
  const { all, wanted } = stored(minutes);
  for (const limit of [1_000, 37]) {
    const flows = await all({ devices: devices.slice(0, 40), limit });
    expect(flows.map(({ until }) => until)).toEqual(wanted);
    expect(new Set(flows.map(({ far }) => far)).size).toBe(wanted.length);
  }
});

test('one busy device among many does not make a search take many reads', async () => {
  const quiet = devices
    .slice(1)
    .flatMap((device) => Array.from({ length: 9 }, (_, n) => [device, -1_000 * n, false] as const));
  const { all, reads } = stored([
    ...quiet,
    ...Array.from({ length: 3_000 }, (_, minute) => [busy, minute + 1, minute === 0] as const),
  ]);
  expect(await all({ devices: [busy, ...devices], limit: 100 })).toHaveLength(1);
  expect(reads()).toBeLessThan(30);
});
