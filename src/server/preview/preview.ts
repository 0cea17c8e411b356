/** Owns the preview of a change: the organization before, the organization after, and the differences between them. */
import type { Phase } from '../../organization/decide/phase.ts';
import type { SimulationWarning } from '../../api/change/simulation.ts';
import { limits } from '../../api/limits.ts';
import type { PolicyTestResult } from '../../api/policy-tests/policy-test.ts';
import type { OrganizationId } from '../../policy/ids.ts';
import { largeGroups, readLarge } from '../../organization/large-groups.ts';
import { testResults } from '../../organization/policy-test/evaluate.ts';
import type { PolicyTest } from '../../policy/policy-test/policy-test.ts';
import type { Organization } from '../../organization/organization.ts';
import type { WorkBudget } from '../scheduling/work-budget.ts';
import type { Store } from '../store/open.ts';
import { plannedSnapshot, type PlannedChange } from './planned-change.ts';
import { affectedDevices, besideDevices, type AffectedDevices, type PageWanted } from './simulation.ts';
import { warningsOf } from './warnings.ts';

export interface PreviewOptions {
  readonly models: Pick<Store['models'], 'read' | 'recent'>;
  readonly phase: Phase;
  /** Lets so many characters of an organization's rules into memory. Gives what takes them out again. */
  readonly enter: (org: string, size: number) => Promise<() => void>;
}

export interface SimulationWanted {
  readonly policyTests: readonly PolicyTest[];
  /** What judging the tests may take. */
  readonly steps: number;
  readonly page: Omit<PageWanted, 'bytes'>;
}

export interface SimulatedChange extends AffectedDevices {
  readonly revision: number;
  readonly warnings: readonly SimulationWarning[];
  readonly tests: readonly PolicyTestResult[];
}

export class Preview {
  readonly #models: PreviewOptions['models'];
  readonly phase: Phase;
  readonly #enter: PreviewOptions['enter'];
  /** How much of it is in already: no more than it takes beyond that waits. */
  readonly #entered = new WeakMap<WorkBudget, number>();

  constructor(options: PreviewOptions) {
    this.phase = options.phase;
    this.#enter = options.enter;
    this.#models = options.models;
  }

  /** For one request: loading it, or what was written since, is shared with others who ask. */
  async read(org: OrganizationId, work: WorkBudget): Promise<Organization> {
    await work.next();
    const organization = await this.#models.read(org);
    await this.#admit(organization, work);
    return organization;
  }

  async #admit(organization: Organization, work: WorkBudget): Promise<void> {
    const groups = await work.run(largeGroups(organization));
    const size = groups.reduce((sum, group) => sum + (group.size ?? 0), 0);
    if (size <= (this.#entered.get(work) ?? 0)) return;
    work.onEnd(await this.#enter(work.owner.organization, size));
    this.#entered.set(work, size);
    const rules = await work.run(readLarge(groups));
    work.onEnd(() => rules.splice(0));
  }

  /** What the change would do to the organization in `before`, for a page of devices, and the results of these tests. */
  async simulate(
    before: Organization,
    change: PlannedChange,
    { policyTests, steps, page }: SimulationWanted,
    work: WorkBudget,
  ): Promise<SimulatedChange> {
    const after = await work.run(plannedSnapshot(before, change));
    await this.#admit(after, work);
    const results = await work.run(testResults(after, policyTests, { most: steps }));
    const tests = policyTests.map((test, index) => ({ ...test, ...(results[index] ?? { state: 'vacuous' as const }) }));
    const warnings = await work.run(warningsOf({ before, after }, change));
    const bytes = limits.answer - Buffer.byteLength(besideDevices({ warnings, tests }));
    const devices = await affectedDevices(before, after, { ...page, bytes }, work);
    return { revision: before.revision, ...devices, warnings, tests };
  }
}
