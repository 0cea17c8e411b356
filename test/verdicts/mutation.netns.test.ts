/** Proves the proof: every deliberately wrong compiler is caught by the same comparison that the right one passes. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { VerdictLab } from '../lib/verdict-lab.ts';
import { isMismatch, judge, type Compiler } from './compare.ts';
import { mutants } from './mutants.ts';
import { drawScenario } from './scenario.ts';

const firstSeed = 20_240_601;
const policies = 240;

describe('a compiler is caught that', () => {
  let lab: VerdictLab;
  beforeAll(async () => {
    lab = await VerdictLab.open();
  });
  afterAll(() => lab?.close());

  /** How many policies it takes until kernel and oracle differ. */
  async function caughtAfter(compiler: Compiler): Promise<number> {
    for (let seed = firstSeed; seed < firstSeed + policies; seed++) {
      const judged = await judge(lab, drawScenario(seed), compiler);
      if (judged.some(isMismatch)) return seed - firstSeed + 1;
    }
    return Infinity;
  }

  test.each(Object.entries(mutants))('%s', async (_, compiler) => {
    const n = await caughtAfter(compiler);
    console.log(_, n);
    expect(n).toBeLessThanOrEqual(policies);
  });
});
