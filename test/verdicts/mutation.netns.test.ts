/** Proves the proof: every deliberately wrong compiler is caught by the same comparison that the right one passes. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { VerdictLab } from '../lib/verdict-lab.ts';
import { explain, isMismatch, judge, type Judged } from './compare.ts';
import { productCompiler, replacing, type Compiler } from './install.ts';
import { mutants } from './mutants.ts';
import { drawScenario, type Scenario } from './scenario.ts';
import { fixedSeeds } from './seeds.ts';

describe('the comparison catches a compiler that', () => {
  let lab: VerdictLab;
  beforeAll(async () => {
    lab = await VerdictLab.open();
  });
  afterAll(() => lab?.close());

  /** The first mismatch, with the policy that showed it. */
  async function caught(compiler: Compiler): Promise<{ scenario: Scenario; wrong: Judged } | undefined> {
    for (const seed of fixedSeeds(100)) {
      const scenario = drawScenario(seed);
      const wrong = (await judge(lab, scenario, replacing(compiler))).find(isMismatch);
      if (wrong !== undefined) return { scenario, wrong };
    }
    return undefined;
  }

  test.each(Object.entries(mutants))('%s', async (_, compiler) => {
    expect(await caught(compiler)).toBeDefined();
  });

  test('forgets the last port of a range, and reduces its policy to the one rule that shows it', async () => {
    const [compiler = productCompiler] = [mutants['forgets the last port of a range']];
    const found = await caught(compiler);
    if (found === undefined) throw new Error('not caught');
    const text = await explain(lab, found.scenario, found.wrong, replacing(compiler));
    expect(text).toMatch(/the oracle says accept \(.*rule 0 of group 1.*\), the kernel says drop\nseed \d+ /);
    expect(text.match(/"ip_protocol"/g)).toHaveLength(2); // the rule in the policy, and in the oracle's reason
    expect(text).toContain('chain service-inbound {');
  });
});
