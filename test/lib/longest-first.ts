/** Owns the order of test files: those that take longest begin first, so that none of them is still running when all others are through. */
import { basename } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** About how many seconds the longest files take on two quiet cores; of the others, larger ones go first. */
const seconds: Readonly<Record<string, number>> = {
  'watch.faults.test.ts': 70,
  'looks.browser.test.ts': 60,
  'crash.faults.test.ts': 60,
  'receipts.netns.test.ts': 60,
  'containers.netns.test.ts': 50,
  'replicas.pg.test.ts': 48,
  'switching.netns.test.ts': 45,
  'groups.pg.test.ts': 40,
  'policy.netns.test.ts': 40,
  'budget.pg.test.ts': 38,
  'server-access.netns.test.ts': 35,
  'program.netns.test.ts': 35,
  'everywhere.pg.test.ts': 35,
  'program.pg.test.ts': 33,
  'supervise.pg.test.ts': 32,
  'editor.browser.test.ts': 31,
  'differential.netns.test.ts': 30,
  'pages.browser.test.ts': 29,
  'first-fleet.netns.test.ts': 27,
  'kernel.netns.test.ts': 25,
  'memory.pg.test.ts': 25,
  'ends.pg.test.ts': 25,
  'concurrency.pg.test.ts': 25,
  'faults.netns.test.ts': 25,
  'credentials.browser.test.ts': 24,
  'unsafe-names.pg.test.ts': 24,
  'surroundings.pg.test.ts': 23,
  'policy.pg.test.ts': 23,
  'agent.netns.test.ts': 22,
  'live.browser.test.ts': 22,
  'revoke-flows.netns.test.ts': 22,
  'same-list.pg.test.ts': 20,
  'account.pg.test.ts': 20,
  'fuzz.pg.test.ts': 20,
  'peers.netns.test.ts': 20,
  'crash.netns.test.ts': 17,
  'demo.pg.test.ts': 17,
  'lab.netns.test.ts': 16,
  'workers.pg.test.ts': 16,
  'sign-in.pg.test.ts': 16,
  'rights.pg.test.ts': 16,
  'mutation.netns.test.ts': 15,
  'browser-sign-in.pg.test.ts': 15,
  'forwarded.netns.test.ts': 15,
  'podman.netns.test.ts': 13,
  'patterns.test.ts': 10,
};

const secondsOf = ({ moduleId }: TestSpecification): number => seconds[basename(moduleId)] ?? 0;

/**
 * Files with a process of their own first, then those that share processes, project by project: a process goes on to the next file only if
 * that is of its project. The unit tests come last; they are many, short and never wait, and fill what the long ones leave of the processors.
 */
const turns = ['pg', 'unit'];
const turnOf = ({ project }: TestSpecification): number => turns.indexOf(project.name);

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const bySize = await BaseSequencer.prototype.sort.call(this, files);
    return bySize.toSorted((a, b) => turnOf(a) - turnOf(b) || secondsOf(b) - secondsOf(a));
  }
}
