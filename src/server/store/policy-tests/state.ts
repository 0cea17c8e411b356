/** Owns what policy tests are judged by: the model of an organization with its tests, and what the tests come to, remembered for as long as it holds. */
import type { OrganizationId } from '../../../policy/ids.ts';
import { TestsTooCostly } from '../../../organization/policy-test/effort.ts';
import { judgeTests, type JudgedTests } from '../../../organization/policy-test/evaluate.ts';
import { testLimits, type PolicyTest } from '../../../policy/policy-test/policy-test.ts';
import { emptyOrganization, type Organization } from '../../../organization/organization.ts';
import { refuse } from '../../problems.ts';
import type { ShortSteps } from '../contract/store.ts';
import type { OrganizationModels } from '../model/organizations.ts';
import type { Runner } from '../postgres/connection.ts';
import { statement } from '../postgres/sql.ts';

/** Values: organization, the mark of the tests that are known. The tests are given where they are others. */
const readTests = statement<{ revision: number; mark: string; tests: string | null }>(
  'read_changed_policy_tests',
  `SELECT t.revision, m.mark, CASE WHEN m.mark <> $2 THEN t.tests END AS tests
   FROM policy_tests t CROSS JOIN LATERAL (SELECT concat(t.revision, ' ', t.updated_at) AS mark) m WHERE t.org_id = $1`,
);

/** An organization with its tests at one moment. It never changes: a later one is another. */
export interface TestedOrganization {
  readonly organization: Organization;
  readonly tests: readonly PolicyTest[];
  readonly testsRevision: number;
  /** Another one for other tests. */
  readonly mark: string;
}

const nothing: TestedOrganization = { organization: emptyOrganization, tests: [], testsRevision: 0, mark: '' };

/** Whether policy tests see no difference. */
export const isSamePolicy = (a: Organization, b: Organization): boolean =>
  a.devices === b.devices && a.groups === b.groups && a.defaultGroup === b.defaultGroup;

/** The organization with its tests as they are for the runner. Where nothing changed since `known`, it is that. */
export async function readTested(
  runner: Runner,
  org: OrganizationId,
  organization: Organization,
  known: TestedOrganization = nothing,
): Promise<TestedOrganization> {
  const [row] = await runner.run(readTests, [org, known.mark]);
  const tests =
    row === undefined
      ? nothing.tests
      : row.tests === null
        ? known.tests
        : (JSON.parse(row.tests) as readonly PolicyTest[]);
  const mark = row?.mark ?? '';
  if (mark === known.mark && isSamePolicy(organization, known.organization)) return known;
  const next = { organization, tests, testsRevision: row?.revision ?? 0, mark };
  const before = judgements.get(known) ?? earlier.get(known);
  if (before !== undefined) earlier.set(next, before);
  return next;
}

interface Judgement {
  readonly from: number;
  readonly most: number;
  readonly judged: Promise<JudgedTests>;
}

const judgements = new WeakMap<TestedOrganization, Judgement>();
/** The newest judgement before a state. */
const earlier = new WeakMap<TestedOrganization, Judgement>();

/** What it came to, if it came to anything. */
async function resultBefore(state: TestedOrganization): Promise<JudgedTests | undefined> {
  try {
    return await earlier.get(state)?.judged;
  } catch {
    return undefined;
  }
}

/**
 * The states of the tests at a moment, worked out once for as long as they hold, a slice in each turn of the event loop. Refuses with `tests_too_costly`
 * where they take more than `most` steps.
 */
export async function judge(
  state: TestedOrganization,
  { now, slices }: { readonly now: number; readonly slices: ShortSteps },
  most: number = testLimits.steps,
): Promise<JudgedTests> {
  const known = judgements.get(state);
  if (known !== undefined && known.from <= now && known.most >= most) {
    const judged = await known.judged;
    if (judged.changesAt > now) return judged;
  }
  const judged = resultBefore(state)
    .then((before) => slices.run(judgeTests({ ...state.organization, at: now }, state.tests, { most, before })))
    .catch((cause: unknown): never => {
      if (cause instanceof TestsTooCostly) return refuse({ code: 'tests_too_costly', tests: cause.tests });
      throw cause;
    });
  judgements.set(state, { from: now, most, judged });
  return judged;
}

/** So many organizations are remembered, of those whose models are kept. */
const mostRemembered = 64;

/** The newest known states, each of which was committed. */
export class StateMemory {
  readonly clock: () => number;
  /** For the work of judging tests. */
  readonly slices: ShortSteps;
  readonly models: OrganizationModels;
  readonly #states = new Map<OrganizationId, TestedOrganization>();

  constructor({ clock, slices, models }: Pick<StateMemory, 'clock' | 'slices' | 'models'>) {
    this.clock = clock;
    this.slices = slices;
    this.models = models;
  }

  get(org: OrganizationId): TestedOrganization | undefined {
    return this.#states.get(org);
  }

  set(org: OrganizationId, state: TestedOrganization): void {
    this.#states.delete(org);
    this.#states.set(org, state);
    for (const known of this.#states.keys())
      if (this.#states.size > mostRemembered || !this.models.keeps(known)) this.#states.delete(known);
  }
}
