/** Proves that the kernel agrees with the oracle: random policies, real packets, no mismatch. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { VerdictLab } from '../lib/verdict-lab.ts';
import { tally, tooFew } from './balance.ts';
import { explain, isMismatch, judge, type Judged } from './compare.ts';
import { updating } from './install.ts';
import { drawScenario } from './scenario.ts';
import { fixedSeeds, longRun } from './seeds.ts';

describe('the kernel agrees with the oracle', () => {
  let lab: VerdictLab;
  beforeAll(async () => {
    lab = await VerdictLab.open();
  });
  afterAll(() => lab?.close());

  /** Judges one policy, installed as an update of the one before; says where kernel and oracle differ. */
  async function examine(seed: number): Promise<Judged[]> {
    const scenario = drawScenario(seed);
    const judged = await judge(lab, scenario, updating);
    const wrong = judged.find(isMismatch);
    if (wrong === undefined) return judged;
    throw new Error(`seed ${seed}: ${await explain(lab, scenario, wrong, updating)}`);
  }

  const run = longRun(process.env);

  if (run === undefined) {
    test('on every packet of 300 random policies', async () => {
      const judged: Judged[] = [];
      for (const seed of fixedSeeds(300)) judged.push(...(await examine(seed)));
      expect(judged.length).toBeGreaterThanOrEqual(30_000);
      expect(tooFew(tally(judged), 40)).toEqual([]);
    });
  } else {
    test('on every packet of new policies until it is stopped', { timeout: 0 }, async () => {
      const done = { policies: 0, packets: 0 };
      for (const seed of run) {
        done.packets += (await examine(seed)).length;
        done.policies += 1;
        if (done.policies % 100 === 0) console.log(`last seed ${seed}: ${JSON.stringify(done)}`);
      }
      expect(done.policies).toBeGreaterThan(0);
    });
  }
});
