/** Proves that the kernel agrees with the oracle: random policies, real packets, no mismatch. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { VerdictLab } from '../lib/verdict-lab.ts';
import { tally, tooFew } from './balance.ts';
import { isMismatch, judge, mismatchText, productCompiler, shrink, type Judged } from './compare.ts';
import { drawScenario } from './scenario.ts';

const firstSeed = 20_240_601;

describe('the kernel agrees with the oracle', () => {
  let lab: VerdictLab;
  beforeAll(async () => {
    lab = await VerdictLab.open();
  });
  afterAll(() => lab?.close());

  /** Judges one policy; where kernel and oracle differ, says so for the smallest policy that shows it. */
  async function examine(seed: number): Promise<Judged[]> {
    const scenario = drawScenario(seed);
    const judged = await judge(lab, scenario, productCompiler);
    const wrong = judged.find(isMismatch);
    if (wrong === undefined) return judged;
    const smallest = await shrink(lab, scenario, wrong, productCompiler);
    throw new Error(`seed ${seed}: ${mismatchText(smallest, wrong, productCompiler)}`);
  }

  test('on every packet of 240 random policies', async () => {
    const judged: Judged[] = [];
    for (let seed = firstSeed; seed < firstSeed + 240; seed++) judged.push(...(await examine(seed)));
    expect(judged.length).toBeGreaterThanOrEqual(20_000);
    expect(tooFew(tally(judged), 30)).toEqual([]);
  });
});
