/** Owns change sets in the store: they are written, recorded, read and reverted. */
import { parseChangeSetId, parseUserId, type ChangeSetId, type OrganizationId } from '../../../policy/ids.ts';
import type {
  ChangeSetActor,
  ChangeSetRecord,
  RecordChange,
  WrittenChanges,
  NewChangeSet,
  ChangeSetOptions,
} from '../data/change-sets.ts';
import { refuseEverythingIn } from '../data/forbids-everything.ts';
import { refuse } from '../../problems.ts';
import type { DeviceState, GroupState } from '../write/records/records.ts';
import type { Context } from '../write/context.ts';
import { now } from '../write/stamp.ts';
import { inOrganization, type Locked } from '../write/transaction.ts';
import { replaceTests, testsChange } from '../policy-tests/policy-tests.ts';
import { readTested, type StateMemory, type TestedOrganization } from '../policy-tests/state.ts';
import { applyChangeSet, type AppliedChanges } from './apply.ts';
import { holdPartRight, notePart, partActor, type ChangeSetWrite } from './part.ts';
import { recordKey } from './record-changes.ts';
import { reversalOf, writtenGroup, type CurrentRecords } from './revert.ts';
import * as sql from './statements.ts';

const changesOf = ({ changes }: Pick<sql.ChangeSetRow, 'changes'>): readonly RecordChange[] =>
  JSON.parse(changes) as readonly RecordChange[];

const recordOf = (row: sql.ChangeSetRow): ChangeSetRecord => ({
  change_id: parseChangeSetId(row.id),
  at: row.at,
  user_id: parseUserId(row.user_id),
  username: row.username,
  first_revision: row.first,
  revision: row.last,
  ...(row.reverts === null ? {} : { reverts: parseChangeSetId(row.reverts) }),
  ...(row.reverted_by === null ? {} : { reverted_by: parseChangeSetId(row.reverted_by) }),
  changes: changesOf(row),
});

/** The records that a set wrote, as they are in this transaction. */
async function currentOf(
  { records, org }: Locked,
  changes: readonly RecordChange[],
  tested: TestedOrganization | undefined,
): Promise<CurrentRecords> {
  const ids = (kind: RecordChange['kind']): string[] => changes.filter((one) => one.kind === kind).map(({ id }) => id);
  const wanted = { groups: ids('security-groups'), devices: ids('device') };
  await records.load(wanted);
  const current = new Map<string, Readonly<Record<string, unknown>>>();
  const keep = (kind: RecordChange['kind'], state: GroupState | DeviceState | undefined): void => {
    if (state !== undefined) current.set(recordKey(kind, state.id), { ...state.record, revision: state.revision });
  };
  for (const id of wanted.groups) keep('security-groups', records.group(id));
  for (const id of wanted.devices) keep('device', records.device(id));
  if (tested !== undefined) current.set(recordKey('policy-tests', org), { policy_tests: tested.tests });
  return current;
}

/**
 * A change set is written as a whole or not at all. What a single write requires holds for each of its records, except that everything that depends on
 * other records (`would_open`, `group_in_use`, `device_unknown`, ranges) is judged by the state after the whole set. A refusal names its part:
 * `change_refused`. All revisions of a set are consecutive.
 */
export function changeSetsIn(context: Context, memory: StateMemory) {
  const { reads } = context;

  /** The organization with its tests, as it is in this transaction. */
  const testedIn = async ({ tx, org, model }: Locked): Promise<TestedOrganization> =>
    readTested(tx, org, await model.read(tx), memory.get(org));

  /** Replaces the tests as a part of the set. `before`: the organization before the set. */
  async function writeTests(
    locked: Locked,
    given: ChangeSetWrite,
    before: TestedOrganization,
  ): Promise<RecordChange[]> {
    const actor = { ...partActor(given, 'replacePolicyTests'), tests: given.by.tests };
    await holdPartRight(context, locked, actor);
    const after = await replaceTests(context, memory, locked, actor, { before, tests: given.set.policyTests ?? [] });
    const change = testsChange(before, after);
    if (change.after === undefined) return [];
    notePart(context, locked, actor, { subject_id: locked.org, ...change });
    return [{ kind: 'policy-tests', id: locked.org, ...(change as Pick<RecordChange, 'before' | 'after'>) }];
  }

  /** Writes a set and remembers it, in the transaction that holds the organization's head. */
  async function write(locked: Locked, given: ChangeSetWrite, reverts?: ChangeSetId): Promise<AppliedChanges> {
    const { policyTests, policyTestsRevision } = given.set;
    const before = policyTests === undefined ? undefined : await testedIn(locked);
    if (before !== undefined && policyTestsRevision !== undefined && policyTestsRevision !== before.testsRevision)
      refuse({ code: 'precondition_failed', revision: before.testsRevision });
    const records = await applyChangeSet(context, locked, given);
    const tests = before === undefined ? [] : await writeTests(locked, given, before);
    const applied = { ...records, changes: [...records.changes, ...tests] };
    await locked.tx.run(sql.insertChangeSet, [
      given.change_id,
      locked.org,
      given.by.user_id,
      now(context),
      Math.min(locked.head + 1, applied.revision),
      applied.revision,
      reverts ?? null,
      JSON.stringify(applied.changes),
    ]);
    return applied;
  }

  /** Runs a write of a change set, with one audit entry for the set beside those of its records. */
  async function inSet(
    org: OrganizationId,
    by: ChangeSetActor,
    work: (locked: Locked, change_id: ChangeSetId) => Promise<AppliedChanges>,
  ): Promise<WrittenChanges> {
    await context.models.warm(org);
    const change_id = parseChangeSetId(context.newId());
    const actor = { ...by, audit: by.audit && { ...by.audit, change_id } };
    const {
      tokens,
      changes: _changes,
      ...written
    } = await inOrganization(
      context,
      org,
      actor,
      // With its id: the whole answer is recorded with an idempotency key.
      async (locked) => ({ change_id, ...(await work(locked, change_id)) }),
      ({ revision }) => ({ subject_id: change_id, revision }),
    );
    if (tokens.length > 0 && by.isDryRun !== true) context.hints.tell({ credentials: tokens });
    return written;
  }

  return {
    apply: (
      org: OrganizationId,
      by: ChangeSetActor,
      set: NewChangeSet,
      options: ChangeSetOptions = {},
    ): Promise<WrittenChanges> => inSet(org, by, (locked, change_id) => write(locked, { change_id, by, set, options })),

    /** `not_found` where there is none. */
    async get(org: OrganizationId, id: ChangeSetId): Promise<ChangeSetRecord> {
      const [row] = await reads.run(sql.getChangeSet, [org, id]);
      return row === undefined ? refuse({ code: 'not_found', what: 'change_set' }) : recordOf(row);
    },

    /**
     * Writes what the records were before the set, as another set: only the fields that it changed. `changed_since` where one of these has another value now, or
     * a record cannot come back; with `force` such values are overwritten, and such records left out.
     */
    revert: (
      org: OrganizationId,
      by: ChangeSetActor,
      id: ChangeSetId,
      { force, ...options }: ChangeSetOptions & { readonly force?: boolean | undefined } = {},
    ): Promise<WrittenChanges> =>
      inSet(org, by, async (locked, change_id) => {
        const [row] = await locked.tx.run(sql.getChangeSet, [org, id]);
        if (row === undefined) return refuse({ code: 'not_found', what: 'change_set' });
        const changes = changesOf(row);
        const tested = changes.some(({ kind }) => kind === 'policy-tests') ? await testedIn(locked) : undefined;
        const current = await currentOf(locked, changes, tested);
        const { set, conflicts } = reversalOf(changes, current);
        const records = [
          ...(row.reverted_by === null ? [] : [{ id: row.reverted_by, name: '', why: 'reverted' as const }]),
          ...conflicts,
        ];
        if (records.length > 0 && force !== true) return refuse({ code: 'changed_since', records });
        if (force !== true) refuseEverythingIn(set.groups.map((one) => writtenGroup(one, current)));
        const applied = await write(locked, { change_id, by, set, options: { ...options, restores: true } }, id);
        await locked.tx.run(sql.markReverted, [org, id, change_id]);
        return applied;
      }),
  };
}
