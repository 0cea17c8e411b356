/** Proves the verdict table by the kernel. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { VerdictLab } from '../lib/verdict-lab.ts';
import { optionsFor, productCompiler } from './install.ts';
import { chapters, policyOfGroups } from './table.ts';

describe('the kernel agrees with the verdict table on', () => {
  let lab: VerdictLab;
  beforeAll(async () => {
    lab = await VerdictLab.open();
  });
  afterAll(() => lab?.close());

  test.each(chapters)('$title', async ({ groups, neighbourDiscovery = false, rows }) => {
    await lab.load(productCompiler(policyOfGroups(groups), optionsFor(neighbourDiscovery)));
    const verdicts = await lab.probe(rows.map(([, packet]) => ({ packet })));
    expect(rows.map(([sentence], i) => [sentence, verdicts[i]])).toEqual(
      rows.map(([sentence, , verdict]) => [sentence, verdict]),
    );
  });
});
