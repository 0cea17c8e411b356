/**
 * Proves that the kernel agrees with the oracle: random policies, real packets, no mismatch. Most of the time of a policy is the
 * kernel's own wait for every processor to have left the old rules, so several labs take their share side by side.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { VerdictLab } from '../lib/verdict-lab.ts';
import { rounds } from '../lib/thorough.ts';
import { tally, tooFew } from './balance.ts';
import { explain, isMismatch, judge, type Judged } from './compare.ts';
import { updating } from './install.ts';
import { forgetRecorded, recordedIn, recordFaults } from './recorded.ts';
import { drawScenario, scenarioText } from './scenario.ts';
import { fixedSeeds, longRun } from './seeds.ts';

describe('the kernel agrees with the oracle', () => {
  const labs: VerdictLab[] = [];
  beforeAll(async () => {
    for (let i = 0; i < 4; i += 1) labs.push(await VerdictLab.open());
  });
  afterAll(() => Promise.all(labs.map((lab) => lab.close())));

  /** Tuples that were recorded. */
  let recorded = 0;

  /** Judges one policy, installed as an update of the lab's one before; says where kernel and oracle differ, and where what was recorded does. */
  async function examine(lab: VerdictLab, seed: number): Promise<Judged[]> {
    const scenario = drawScenario(seed);
    const judged = await judge(lab, scenario, updating);
    const wrong = judged.find(isMismatch);
    if (wrong !== undefined) throw new Error(`seed ${seed}: ${await explain(lab, scenario, wrong, updating)}`);
    if (scenario.observe === 'counters') return judged;
    const record = await recordedIn(lab);
    const faults = recordFaults(judged, scenario, record);
    if (faults.length > 0) throw new Error(`seed ${seed}: ${scenarioText(scenario)}\n${faults.join('\n')}`);
    recorded += record.tuples.length;
    await forgetRecorded(lab);
    return judged;
  }

  const run = longRun(process.env);

  if (run === undefined) {
    const policies = rounds(60, 300);
    test(`on every packet of ${policies} random policies, and on every tuple that is recorded of them`, async () => {
      const judged: Judged[] = [];
      // By turns, not by who is first: which policy follows which is the same in every run.
      const shares = labs.map((_, index) => fixedSeeds(policies).filter((__, turn) => turn % labs.length === index));
      const examineAll = async (lab: VerdictLab, seeds: readonly number[]): Promise<void> => {
        for (const seed of seeds) judged.push(...(await examine(lab, seed)));
      };
      await Promise.all(labs.map((lab, index) => examineAll(lab, shares[index] ?? [])));
      expect(judged.length).toBeGreaterThanOrEqual(policies * 100);
      expect(tooFew(tally(judged), rounds(7, 40))).toEqual([]);
      expect(recorded).toBeGreaterThanOrEqual(policies * 33);
    });
  } else {
    test('on every packet of new policies until it is stopped', { timeout: 0 }, async () => {
      const [first] = labs;
      if (first === undefined) throw new Error('there is no lab');
      const done = { policies: 0, packets: 0 };
      for (const seed of run) {
        done.packets += (await examine(first, seed)).length;
        done.policies += 1;
        if (done.policies % 100 === 0) console.log(`last seed ${seed}: ${JSON.stringify(done)}`);
      }
      expect(done.policies).toBeGreaterThan(0);
    });
  }
});
