/** Proves that a report of traffic is written as blocks, a block in each step. */
import { expect, test } from 'vitest';
import type { FlowSum } from '../data/flows.ts';
import { blocksOf } from './reports.ts';
import { sumsPerBlock } from './sum-block.ts';

test('the largest report is made ready block by block, so that others get a turn in between', () => {
  const sums = Array.from({ length: 16_384 }, (_, index): FlowSum => {
    const [direction, verdict] = [index % 2 === 0 ? 'in' : 'out', index % 4 === 0 ? 'refused' : 'admitted'] as const;
    return { direction, verdict, family: 4, far: BigInt(index), protocol: 6, port: 443, packets: 2 };
  });
  const steps = blocksOf(sums);
  let pauses = 0;
  let step = steps.next();
  for (; step.done !== true; step = steps.next()) pauses += 1;
  expect(pauses).toBe(16_384 / sumsPerBlock);
  expect(step.value).toHaveLength(pauses);
  expect(step.value[0]).toMatchObject({ sums: sumsPerBlock, packets: 2 * sumsPerBlock, refused: sumsPerBlock / 2 });
});
