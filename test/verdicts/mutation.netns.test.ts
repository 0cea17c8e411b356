/**
 * Proves the proof: every deliberately wrong compiler is caught by the same comparison that the right one passes. Some are
 * tried side by side, each in a lab that no other has meanwhile: the kernel waits more than it works.
 */
import { afterAll, describe, expect, test } from 'vitest';
import { decompile } from '../../src/nft/read/decompile.ts';
import { canonicalize } from '../../src/policy/canonicalize.ts';
import { policyDigest } from '../../src/policy/digest/digest.ts';
import { VerdictLab } from '../lib/verdict-lab.ts';
import { sample } from '../lib/thorough.ts';
import { explain, isMismatch, judge, type Judged } from './compare.ts';
import { installed, optionsFor, productCompiler, replacing, type Compiler } from './install.ts';
import { mutants } from './mutants.ts';
import { drawScenario, policyOf, type Scenario } from './scenario.ts';
import { fixedSeeds } from './seeds.ts';

describe('the comparison catches a compiler that', () => {
  const [labs, idle]: [VerdictLab[], VerdictLab[]] = [[], []];
  afterAll(() => Promise.all(labs.map((lab) => lab.close())));

  async function newLab(): Promise<VerdictLab> {
    const lab = await VerdictLab.open();
    labs.push(lab);
    return lab;
  }
  async function inLab<T>(work: (lab: VerdictLab) => Promise<T>): Promise<T> {
    const lab = idle.pop() ?? (await newLab());
    try {
      return await work(lab);
    } finally {
      idle.push(lab);
    }
  }

  interface Caught {
    readonly scenario: Scenario;
    readonly wrong: Judged;
  }
  /** The first mismatch, with the policy that showed it. */
  async function caught(lab: VerdictLab, compiler: Compiler): Promise<Caught | undefined> {
    for (const seed of fixedSeeds(100)) {
      const scenario = drawScenario(seed);
      const wrong = (await judge(lab, scenario, replacing(compiler))).find(isMismatch);
      if (wrong !== undefined) return { scenario, wrong };
    }
    return undefined;
  }

  /**
   * Whether an agent that reads the kernel back, or the server by its digest, would notice that the rules are not the
   * policy.
   */
  async function isFoundByReceipt(lab: VerdictLab, scenario: Scenario): Promise<boolean> {
    const held = await installed(lab);
    const enforced = held && decompile(held).enforced;
    if (enforced === undefined) return true;
    const wanted = optionsFor(scenario.neighbourDiscovery, scenario.few);
    const isOther = (['interface', 'neighbourDiscovery'] as const).some(
      (name) => enforced[name] !== undefined && enforced[name] !== wanted[name],
    );
    return isOther || policyDigest(enforced.policy) !== policyDigest(canonicalize(policyOf(scenario)));
  }

  test.concurrent('makes a mistake, and not the right one, by its receipt', async () => {
    const found = await inLab(async (lab) => {
      const answers: boolean[] = [];
      for (const seed of fixedSeeds(10)) {
        const scenario = drawScenario(seed);
        await judge(lab, scenario, replacing(productCompiler));
        answers.push(await isFoundByReceipt(lab, scenario));
      }
      return answers;
    });
    expect(found).toEqual(Array.from({ length: 10 }, () => false));
  });

  test.concurrent.each(sample(Object.entries(mutants), 3))(
    '%s, and so does the receipt of an agent with it',
    async (_, compiler) => {
      const found = await inLab(async (lab) => {
        const one = await caught(lab, compiler);
        return one && { ...one, byReceipt: await isFoundByReceipt(lab, one.scenario) };
      });
      expect(found).toMatchObject({ byReceipt: true });
    },
  );

  test.concurrent('forgets the last port of a range, and reduces its policy to the one rule that shows it', async () => {
    const [compiler = productCompiler] = [mutants['forgets the last port of a range']];
    const text = await inLab(async (lab) => {
      const found = await caught(lab, compiler);
      if (found === undefined) throw new Error('not caught');
      return explain(lab, found.scenario, found.wrong, replacing(compiler));
    });
    expect(text).toMatch(/the oracle says accept \(.*rule 0 of group 1.*\), the kernel says drop\nseed \d+ /);
    expect(text.match(/"ip_protocol"/g)).toHaveLength(2); // the rule in the policy, and in the oracle's reason
    expect(text).toContain('chain service-inbound {');
  });
});
