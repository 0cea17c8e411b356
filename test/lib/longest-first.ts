/** Owns the order of test files: those that take longest begin first, so that none of them is still running when all others are through. */
import { basename } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** About how many seconds the longest files take on two quiet cores; of the others, larger ones go first. */
const seconds: Readonly<Record<string, number>> = {
  'budget.pg.test.ts': 150,
  'full-organization.pg.test.ts': 30,
  'tabs.browser.test.ts': 120,
  'pages.browser.test.ts': 90,
  'moved.netns.test.ts': 80,
  'test-costs.pg.test.ts': 50,
  'looks.browser.test.ts': 60,
  'live.browser.test.ts': 60,
  'watch.faults.test.ts': 60,
  'policy.netns.test.ts': 60,
  'rights.pg.test.ts': 60,
  'workers.pg.test.ts': 60,
  'editor.browser.test.ts': 55,
  'changes.browser.test.ts': 55,
  'flows.browser.test.ts': 50,
  'program.netns.test.ts': 50,
  'everywhere.pg.test.ts': 50,
  'program.pg.test.ts': 48,
  'ended-rights.pg.test.ts': 48,
  'convergence.pg.test.ts': 48,
  'crash.faults.test.ts': 45,
  'fuzz.pg.test.ts': 45,
  'walkthroughs.pg.test.ts': 45,
  'everyone.browser.test.ts': 40,
  'nft.netns.test.ts': 40,
  'wait.pg.test.ts': 39,
  'start.netns.test.ts': 36,
  'nodes.pg.test.ts': 35,
  'server-access.netns.test.ts': 35,
  'placeholders.browser.test.ts': 35,
  'credentials.browser.test.ts': 32,
  'sign-in.pg.test.ts': 32,
  'first-fleet.netns.test.ts': 31,
  'peers.netns.test.ts': 31,
  'signs.pg.test.ts': 30,
  'policy.pg.test.ts': 29,
  'pooler.pg.test.ts': 29,
  'agent.netns.test.ts': 28,
  'revoke-flows.netns.test.ts': 28,
  'containers.netns.test.ts': 28,
  'crash.netns.test.ts': 28,
  'recording.netns.test.ts': 28,
  'supervise.pg.test.ts': 27,
  'differential.netns.test.ts': 25,
  'lab.netns.test.ts': 25,
  'faults.netns.test.ts': 25,
  'concurrency.pg.test.ts': 25,
  'webhooks.pg.test.ts': 25,
  'same-list.pg.test.ts': 25,
  'netlink-sets.netns.test.ts': 25,
  'npm.pg.test.ts': 24,
  'groups.pg.test.ts': 23,
  'receipts.netns.test.ts': 22,
  'ended.netns.test.ts': 21,
  'sign-in.browser.test.ts': 20,
  'records.browser.test.ts': 20,
  'switching.netns.test.ts': 20,
  'checked-apply.netns.test.ts': 20,
  'memory.pg.test.ts': 20,
  'demo.pg.test.ts': 20,
  'cut-history.pg.test.ts': 19,
  'disk.faults.test.ts': 19,
  'presence.netns.test.ts': 18,
  'ends.pg.test.ts': 18,
  'restore.pg.test.ts': 17,
  'podman.netns.test.ts': 16,
  'backup.pg.test.ts': 16,
  'replicas.pg.test.ts': 15,
  'trial.pg.test.ts': 15,
  'kernel.netns.test.ts': 14,
  'informer.pg.test.ts': 14,
  'outage.pg.test.ts': 14,
  'cohort.pg.test.ts': 14,
  'requests.pg.test.ts': 14,
  'labels.pg.test.ts': 13,
  'connections.pg.test.ts': 13,
  'patterns.test.ts': 12,
  'at-a-glance.pg.test.ts': 12,
  'monitoring.pg.test.ts': 12,
  'flows.pg.test.ts': 12,
  'mutation.netns.test.ts': 10,
  'layers.test.ts': 10,
};

const secondsOf = ({ moduleId }: TestSpecification): number => seconds[basename(moduleId)] ?? 0;

/**
 * Files with a process of their own first, then those that share processes: a process goes on to the next file only if that is of its
 * project. The unit tests come last; they are many, short and never wait, and fill what the long ones leave of the processors.
 */
const turns = ['faults', 'system', 'unit'];
const turnOf = ({ project }: TestSpecification): number => turns.indexOf(project.name);

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const bySize = await BaseSequencer.prototype.sort.call(this, files);
    return bySize.toSorted((a, b) => turnOf(a) - turnOf(b) || secondsOf(b) - secondsOf(a));
  }
}
