/** Owns the input of policy tests: devices, groups and tests of an organization, cached in memory and updated by what changed since. */
import type { OrganizationId } from '../../../policy/ids.ts';
import { TestsTooCostly } from '../../../organization/policy-test/effort.ts';
import { judgeTests, type JudgedTests } from '../../../organization/policy-test/evaluate.ts';
import { testLimits, type PolicyTest } from '../../../policy/policy-test/policy-test.ts';
import { loggedChange } from '../../../organization/read-records.ts';
import {
  emptyOrganization,
  overlay,
  type Organization,
  type OrganizationChange,
} from '../../../organization/organization.ts';
import { refuse } from '../../problems.ts';
import type { ShortSteps } from '../contract/store.ts';
import type { Runner } from '../postgres/connection.ts';
import { statement, withRevision } from '../postgres/sql.ts';

interface StateRow {
  readonly kind: 'head' | 'device' | 'security-groups';
  readonly type: 'change' | 'delete';
  readonly id: string;
  readonly revision: number;
  /** Of the head: the tests, where they are others than those that are known. */
  readonly body: string | null;
  /** Of the head: how often the tests were replaced. */
  readonly tests_revision: number | null;
  /** Of the head: which run of which database this is. */
  readonly era: string | null;
}

/** A row about a device or a group. */
type RecordRow = StateRow & { readonly kind: 'device' | 'security-groups' };

/**
 * One statement, so that all of it is of one moment. Groups of users that no device has decide nothing; they get a revision when a device takes one. Deletions come from the log, which keeps them far longer than this is remembered. Values: organization, greater than this
 * revision, the known revision of the tests.
 */
const readSince = statement<StateRow>(
  'read_tested_state',
  `SELECT 'device' AS kind, 'change' AS type, device_id AS id, revision, body, NULL::bigint AS tests_revision, NULL::text AS era
   FROM device_identities WHERE org_id = $1 AND revision > $2
   UNION ALL SELECT 'security-groups', 'change', id, revision, body, NULL, NULL FROM security_groups WHERE org_id = $1 AND revision > $2 AND (user_id IS NULL OR is_applied)
   UNION ALL SELECT kind, type, id, revision, NULL, NULL, NULL FROM changes
     WHERE org_id = $1 AND revision > $2 AND type = 'delete' AND kind IN ('device', 'security-groups')
   UNION ALL SELECT 'head', 'change', h.org_id, h.revision, CASE WHEN t.revision <> $3 THEN t.tests END, coalesce(t.revision, 0),
     (SELECT id::text FROM eras ORDER BY serial DESC LIMIT 1)
   FROM heads h LEFT JOIN policy_tests t ON t.org_id = h.org_id WHERE h.org_id = $1`,
);

/** An organization at one moment. It never changes: a later one is another. */
export interface OrganizationState {
  readonly snapshot: Organization;
  readonly era: string;
  readonly tests: readonly PolicyTest[];
  readonly testsRevision: number;
}

const nothing: OrganizationState = { snapshot: emptyOrganization, era: '', tests: [], testsRevision: 0 };

const changeOf = ({ kind, type, id, body, revision }: RecordRow): OrganizationChange =>
  loggedChange(kind, id, type === 'delete' || body === null ? undefined : withRevision(body, revision));

const byRevision = (a: RecordRow, b: RecordRow): number => a.revision - b.revision;

/** The state after these rows. Devices and groups that did not change stay the same objects. */
const advance = (state: OrganizationState, head: StateRow, rows: readonly RecordRow[]): OrganizationState => ({
  snapshot: overlay(state.snapshot, rows.toSorted(byRevision).map(changeOf), { revision: head.revision }),
  era: head.era ?? '',
  tests: head.body === null ? state.tests : (JSON.parse(head.body) as readonly PolicyTest[]),
  testsRevision: head.tests_revision ?? 0,
});

/** The organization as it is now for the runner, from what was known of it before. Undefined where there is no such organization. */
export async function readOrganizationState(
  runner: Runner,
  org: OrganizationId,
  known: OrganizationState = nothing,
): Promise<OrganizationState | undefined> {
  const rows = await runner.run(readSince, [org, known.snapshot.revision, known.testsRevision]);
  const head = rows.find(({ kind }) => kind === 'head');
  if (head === undefined) return undefined;
  // Another run of the database may have another history.
  const isOther = known !== nothing && (head.era !== known.era || head.revision < known.snapshot.revision);
  if (isOther) return readOrganizationState(runner, org);
  const others = rows.filter((row): row is RecordRow => row.kind !== 'head');
  const isSame =
    others.length === 0 && head.revision === known.snapshot.revision && head.tests_revision === known.testsRevision;
  if (isSame) return known;
  const next = advance(known, head, others);
  const judged = judgements.get(known);
  if (others.length === 0 && next.tests === known.tests && judged !== undefined) judgements.set(next, judged);
  const before = judged ?? earlier.get(known);
  if (before !== undefined) earlier.set(next, before);
  return next;
}

interface Judgement {
  readonly from: number;
  readonly most: number;
  readonly judged: Promise<JudgedTests>;
}

const judgements = new WeakMap<OrganizationState, Judgement>();
/** The newest judgement before a state. */
const earlier = new WeakMap<OrganizationState, Judgement>();

/** What it came to, if it came to anything. */
async function resultBefore(state: OrganizationState): Promise<JudgedTests | undefined> {
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
  state: OrganizationState,
  { now, slices }: { readonly now: number; readonly slices: ShortSteps },
  most: number = testLimits.steps,
): Promise<JudgedTests> {
  const known = judgements.get(state);
  if (known !== undefined && known.from <= now && known.most >= most) {
    const judged = await known.judged;
    if (judged.changesAt > now) return judged;
  }
  const judged = resultBefore(state)
    .then((before) => slices.run(judgeTests({ ...state.snapshot, at: now }, state.tests, { most, before })))
    .catch((cause: unknown): never => {
      if (cause instanceof TestsTooCostly) return refuse({ code: 'tests_too_costly', tests: cause.tests });
      throw cause;
    });
  judgements.set(state, { from: now, most, judged });
  return judged;
}

/** So many organizations are remembered, and none for longer than this: the log keeps deletions for longer. */
const mostRemembered = 64;
const rememberedMs = 600_000;

/** The newest known states, each of which was committed. */
export class StateMemory {
  readonly clock: () => number;
  /** For the work of judging tests. */
  readonly slices: ShortSteps;
  readonly #states = new Map<OrganizationId, { readonly state: OrganizationState; readonly since: number }>();

  constructor({ clock, slices }: Pick<StateMemory, 'clock' | 'slices'>) {
    this.clock = clock;
    this.slices = slices;
  }

  get(org: OrganizationId): OrganizationState | undefined {
    const known = this.#states.get(org);
    if (known === undefined) return undefined;
    const age = this.clock() - known.since;
    return age >= 0 && age < rememberedMs ? known.state : undefined;
  }

  set(org: OrganizationId, state: OrganizationState): void {
    const known = this.#states.get(org);
    if (known !== undefined && known.state.era === state.era && known.state.snapshot.revision > state.snapshot.revision)
      return;
    this.#states.delete(org);
    this.#states.set(org, { state, since: this.clock() });
    const [oldest] = this.#states.keys();
    if (this.#states.size > mostRemembered && oldest !== undefined) this.#states.delete(oldest);
  }
}
