/** Owns what policy tests are judged by: the model of an organization with its tests, and what the tests come to, remembered for as long as it holds. */
import type { OrganizationId } from '../../../policy/ids.ts';
import { TestsTooCostly } from '../../../organization/policy-test/effort.ts';
import { judgeTests, type JudgedTests } from '../../../organization/policy-test/evaluate.ts';
import { testLimits, type PolicyTest } from '../../../policy/policy-test/policy-test.ts';
import { emptyOrganization, type Organization } from '../../../organization/organization.ts';
import { isTooCostly, refuse } from '../../problems.ts';
import type { ShortSteps } from '../data/short-steps.ts';
import type { ModelInTransaction, OrganizationModels } from '../model/organizations.ts';
import type { Runner } from '../postgres/connection.ts';
import { statement } from '../postgres/sql.ts';
import { NeedsTurn } from '../write/turns.ts';

/** Values: organization, the mark of the tests that are known. The tests are given where they are others. */
const findTests = statement<{ revision: number; mark: string; tests: string | null }>(
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

export type TestList = Pick<TestedOrganization, 'tests' | 'testsRevision' | 'mark'>;

/** The tests as they are for the runner. */
export async function readTests(runner: Runner, org: string, known: TestList = nothing): Promise<TestList> {
  const [row] = await runner.run(findTests, [org, known.mark]);
  if (row === undefined) return { tests: nothing.tests, testsRevision: 0, mark: '' };
  const { revision: testsRevision, mark, tests } = row;
  return { tests: tests === null ? known.tests : (JSON.parse(tests) as readonly PolicyTest[]), testsRevision, mark };
}

/** The organization with its tests as they are for the runner. Where nothing changed since `known`, it is that. */
export async function readTested(
  runner: Runner,
  org: OrganizationId,
  organization: Organization,
  known: TestedOrganization = nothing,
): Promise<TestedOrganization> {
  const list = await readTests(runner, org, known);
  if (list.mark === known.mark && isSamePolicy(organization, known.organization)) return known;
  const next = { organization, ...list };
  const before = judgements.get(known) ?? earlier.get(known);
  if (before !== undefined) earlier.set(next, before);
  return next;
}

interface Judgement {
  readonly from: number;
  readonly most: number;
  readonly judged: Promise<JudgedTests>;
  /** What it took; absent while it is worked out, and where it failed. */
  steps?: number;
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
    .then(async (before) => {
      const result = await slices.run(judgeTests({ ...state.organization, at: now }, state.tests, { most, before }));
      judgement.steps = result.steps;
      return result;
    })
    .catch((cause: unknown): never => {
      // With more steps it may come to something.
      if (most < testLimits.steps && judgements.get(state) === judgement) judgements.delete(state);
      if (cause instanceof TestsTooCostly) return refuse({ code: 'tests_too_costly', tests: cause.tests });
      throw cause;
    });
  const judgement: Judgement = { from: now, most, judged };
  judgements.set(state, judgement);
  return judged;
}

/** Without a turn, judging takes no more steps than this: some milliseconds. */
const briefSteps = 200_000;

/** The states of the tests, where that takes a moment; undefined where it takes a turn. */
async function judgeBriefly(
  state: TestedOrganization,
  moment: { readonly now: number; readonly slices: ShortSteps },
): Promise<JudgedTests | undefined> {
  for (const known of [judgements.get(state), earlier.get(state)])
    // Somebody else may be at it just now: to wait for that takes as long as it does.
    if (known !== undefined && (known.steps ?? Number.POSITIVE_INFINITY) > briefSteps) return undefined;
  return judge(state, moment, briefSteps).catch((cause: unknown) => {
    if (isTooCostly(cause)) return undefined;
    throw cause;
  });
}

/** The states of the tests for a write, in its transaction. Throws `NeedsTurn` where that takes long and the transaction has no turn. */
export async function judgeInTransaction(
  state: TestedOrganization,
  { clock, slices }: StateMemory,
  { hasTurn }: Pick<ModelInTransaction, 'hasTurn'>,
  most: number = testLimits.steps,
): Promise<JudgedTests> {
  const moment = { now: clock(), slices };
  if (hasTurn) return judge(state, moment, most);
  const judged = await judgeBriefly(state, moment);
  if (judged === undefined) throw new NeedsTurn();
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
