/** Proves that what was recorded is read once, and lost by no failure of the kernel's tools. */
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { tableNames, type TableName } from '../../nft/ast.ts';
import { generationSet, recordSetName, unrecordedCounter, type Generation } from '../../nft/recording.ts';
import { FakeNft } from './fake-nft.fixture.ts';
import { FlowRecorder, type Recorded, type RecordingTable } from './flow-recorder.ts';
import { NftError } from './nft.ts';

const setOf = (generation: Generation) =>
  recordSetName({ direction: 'inbound', verdict: 'refused', family: 4, ports: true, generation });
const kind = 'port4';
const tables: readonly RecordingTable[] = tableNames.map((table) => ({
  table,
  sets: [
    { name: setOf(1), kind },
    { name: setOf(2), kind },
  ],
}));

let nft: FakeNft;
let recorder: FlowRecorder;
beforeEach(async () => {
  nft = new FakeNft();
  recorder = new FlowRecorder({ nft, wait: async () => {} });
  for (const table of tableNames)
    await nft.run([
      { kind: 'addTable', table },
      { kind: 'addCounter', table, name: unrecordedCounter },
      { kind: 'addSet', table, name: generationSet, of: 'generation' },
      { kind: 'addSet', table, name: setOf(1), of: kind },
      { kind: 'addSet', table, name: setOf(2), of: kind },
    ]);
});

/** Packets come by, to this port. */
async function pass(table: TableName, port: number, packets: number): Promise<void> {
  const isSecond = ((await nft.listSet(table, generationSet)) ?? []).length > 0;
  const element = { elem: { val: { concat: ['192.0.2.1', 6, port] }, counter: { packets, bytes: packets * 100 } } };
  nft.record(setOf(isSecond ? 2 : 1), [element], table);
}

/** Packets by port, of calls until each generation was read. */
async function rest(): Promise<{ readonly ports: Readonly<Record<number, number>>; readonly unrecorded: number }> {
  const calls: Recorded[] = [await recorder.take(tables), await recorder.take(tables)];
  const ports: Record<number, number> = {};
  for (const { port = 0, packets } of calls.flatMap(({ tuples }) => tuples)) ports[port] = (ports[port] ?? 0) + packets;
  return { ports, unrecorded: calls.reduce((sum, each) => sum + each.unrecorded, 0) };
}

describe('the recorder', () => {
  beforeEach(async () => {
    await pass('service', 80, 3);
    await pass('service-forward', 80, 4);
    await pass('service-forward', 443, 5);
    await nft.pass(unrecordedCounter, 6);
  });

  test('adds the same tuple of both tables, and gives everything once', async () => {
    const { tuples, unrecorded } = await recorder.take(tables);
    expect(tuples.map(({ port, packets }) => [port, packets])).toEqual([
      [80, 7],
      [443, 5],
    ]);
    expect(unrecorded).toBe(6);
    expect(await rest()).toEqual({ ports: {}, unrecorded: 0 });
  });

  const failure = new NftError('timed_out', 'a test wants it');
  test.each<[string, () => void]>([
    [
      'the sets of the second table cannot be read',
      () => {
        const list = nft.listSet.bind(nft);
        let isFailed = false;
        vi.spyOn(nft, 'listSet').mockImplementation(async (table, set) => {
          if (isFailed || table === 'service' || set === generationSet) return list(table, set);
          isFailed = true;
          throw failure;
        });
      },
    ],
    ['the counters cannot be read', () => void vi.spyOn(nft, 'counters').mockRejectedValueOnce(failure)],
    [
      'the sets cannot be emptied',
      () => {
        const run = nft.run.bind(nft);
        let calls = 0;
        vi.spyOn(nft, 'run').mockImplementation((commands) => {
          // Two batches turn the generations.
          if ((calls += 1) === 3) nft.failNext('timed_out');
          return run(commands);
        });
      },
    ],
  ])('loses nothing when %s', async (_, fail) => {
    fail();
    await expect(recorder.take(tables)).rejects.toThrow(NftError);
    await pass('service', 22, 1);
    expect(await rest()).toEqual({ ports: { 22: 1, 80: 7, 443: 5 }, unrecorded: 6 });
  });
});
