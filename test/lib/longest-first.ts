/** Owns the order of test files: those that take longest begin first, so that none of them is still running when all others are through. */
import { basename } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** About how many seconds the longest files take on two quiet cores; of the others, larger ones go first. */
const seconds: Readonly<Record<string, number>> = {
  'crash.faults.test.ts': 96,
  'watch.faults.test.ts': 94,
  'looks.browser.test.ts': 86,
  'differential.netns.test.ts': 77,
  'pages.browser.test.ts': 73,
  'receipts.netns.test.ts': 69,
  'kernel.netns.test.ts': 56,
  'containers.netns.test.ts': 52,
  'supervise.pg.test.ts': 45,
  'policy.netns.test.ts': 42,
  'editor.browser.test.ts': 41,
  'live.browser.test.ts': 40,
  'budget.pg.test.ts': 39,
  'program.netns.test.ts': 39,
  'faults.netns.test.ts': 36,
  'everywhere.pg.test.ts': 36,
  'first-fleet.netns.test.ts': 32,
  'server-access.netns.test.ts': 32,
  'program.pg.test.ts': 31,
  'switching.netns.test.ts': 30,
  'agent.netns.test.ts': 27,
  'rights.pg.test.ts': 26,
  'ended-rights.pg.test.ts': 40,
  'held-back.pg.test.ts': 10,
  'cut-history.pg.test.ts': 13,
  'concurrency.pg.test.ts': 25,
  'workers.pg.test.ts': 24,
  'credentials.browser.test.ts': 23,
  'fuzz.pg.test.ts': 23,
  'ends.pg.test.ts': 22,
  'ended.netns.test.ts': 22,
  'revoke-flows.netns.test.ts': 21,
  'peers.netns.test.ts': 21,
  'same-list.pg.test.ts': 21,
  'sign-in.browser.test.ts': 20,
  'forwarded.netns.test.ts': 19,
  'memory.pg.test.ts': 18,
  'webhooks.pg.test.ts': 16,
  'connections.pg.test.ts': 15,
  'crash.netns.test.ts': 18,
  'everyone.browser.test.ts': 18,
  'lab.netns.test.ts': 17,
  'policy.pg.test.ts': 16,
  'podman.netns.test.ts': 16,
  'mutation.netns.test.ts': 16,
  'wait.pg.test.ts': 14,
  'groups.pg.test.ts': 14,
  'readme.pg.test.ts': 13,
  'demo.pg.test.ts': 13,
  'patterns.test.ts': 12,
  'replicas.pg.test.ts': 12,
  'convergence.pg.test.ts': 11,
  'sign-in.pg.test.ts': 10,
};

const secondsOf = ({ moduleId }: TestSpecification): number => seconds[basename(moduleId)] ?? 0;

/**
 * Files with a process of their own first, then those that share processes, project by project: a process goes on to the next file only if
 * that is of its project. The unit tests come last; they are many, short and never wait, and fill what the long ones leave of the processors.
 */
const turns = ['netns', 'pg', 'unit'];
const turnOf = ({ project }: TestSpecification): number => turns.indexOf(project.name);

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const bySize = await BaseSequencer.prototype.sort.call(this, files);
    return bySize.toSorted((a, b) => turnOf(a) - turnOf(b) || secondsOf(b) - secondsOf(a));
  }
}
