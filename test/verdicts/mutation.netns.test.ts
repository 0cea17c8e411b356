/** Proves the proof: every deliberately wrong compiler is caught by the same comparison that the right one passes. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { VerdictLab } from '../lib/verdict-lab.ts';
import { isMismatch, judge, type Compiler } from './compare.ts';
import { mutants } from './mutants.ts';
import { drawScenario } from './scenario.ts';
import { fixedSeeds } from './seeds.ts';

describe('the comparison catches a compiler that', () => {
  let lab: VerdictLab;
  beforeAll(async () => {
    lab = await VerdictLab.open();
  });
  afterAll(() => lab?.close());

  async function isCaught(compiler: Compiler): Promise<boolean> {
    for (const seed of fixedSeeds(100)) {
      const judged = await judge(lab, drawScenario(seed), compiler);
      if (judged.some(isMismatch)) return true;
    }
    return false;
  }

  test.each(Object.entries(mutants))('%s', async (_, compiler) => {
    expect(await isCaught(compiler)).toBe(true);
  });
});
