/** Owns the order of test files: those that take longest begin first, so that none of them is still running when all others are through. */
import { basename } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** About how many seconds the longest files take on two quiet cores; of the others, larger ones go first. */
const seconds: Readonly<Record<string, number>> = {
  'differential.netns.test.ts': 83,
  'switching.netns.test.ts': 70,
  'looks.browser.test.ts': 59,
  'watch.faults.test.ts': 49,
  'crash.faults.test.ts': 47,
  'replicas.pg.test.ts': 40,
  'first-fleet.netns.test.ts': 38,
  'groups.pg.test.ts': 36,
  'pages.browser.test.ts': 35,
  'crash.netns.test.ts': 33,
  'editor.browser.test.ts': 31,
  'agent.netns.test.ts': 29,
  'program.netns.test.ts': 29,
  'policy.netns.test.ts': 28,
  'mutation.netns.test.ts': 27,
  'memory.pg.test.ts': 25,
  'ends.pg.test.ts': 25,
  'workers.pg.test.ts': 25,
  'credentials.browser.test.ts': 23,
  'faults.netns.test.ts': 22,
  'live.browser.test.ts': 21,
  'lab.netns.test.ts': 17,
  'browser-sign-in.pg.test.ts': 15,
  'revoke.netns.test.ts': 15,
  'kernel.netns.test.ts': 15,
};

const secondsOf = ({ moduleId }: TestSpecification): number => seconds[basename(moduleId)] ?? 0;
const groupOf = ({ project }: TestSpecification): number => project.config.sequence.groupOrder;

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const bySize = await BaseSequencer.prototype.sort.call(this, files);
    return bySize.toSorted((a, b) => groupOf(a) - groupOf(b) || secondsOf(b) - secondsOf(a));
  }
}
