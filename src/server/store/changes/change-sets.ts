/** Owns change sets in the store: written, remembered, read and undone. */
import { parseChangeSetId, parseUserId, type ChangeSetId, type OrganizationId } from '../../../policy/ids.ts';
import type {
  ChangeSetActor,
  ChangeSetRecord,
  ChangeSets,
  RecordChange,
  WrittenChanges,
} from '../contract/change/change-sets.ts';
import { refuse } from '../contract/errors.ts';
import { withRevision } from '../postgres/sql.ts';
import type { Context } from '../write/context.ts';
import { now } from '../write/stamp.ts';
import { inOrganization, type Locked } from '../write/transaction.ts';
import { applyChangeSet, type AppliedChanges, type ChangeSetWrite } from './apply.ts';
import { reversalOf, type CurrentRecords } from './revert.ts';
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
async function currentOf({ tx, org }: Locked, changes: readonly RecordChange[]): Promise<CurrentRecords> {
  const ids = (kind: RecordChange['kind']): string[] => changes.filter((one) => one.kind === kind).map(({ id }) => id);
  const rows = [
    ...(await tx.run(sql.groupsBefore, [org, ids('security-groups')])),
    ...(await tx.run(sql.devicesBefore, [org, ids('device'), []])),
  ];
  return new Map(
    rows.map(({ id, body, revision }) => [id, JSON.parse(withRevision(body, revision)) as Record<string, unknown>]),
  );
}

export function changeSetsIn(context: Context, keepMs: number): ChangeSets {
  const { reads, writes } = context;

  /** Writes a set and remembers it, in the transaction that holds the organization's head. */
  async function write(locked: Locked, given: ChangeSetWrite, reverts?: ChangeSetId): Promise<AppliedChanges> {
    const applied = await applyChangeSet(context, locked, given);
    await locked.tx.run(sql.insertChangeSet, [
      given.change_id,
      locked.org,
      given.by.user_id,
      now(context),
      locked.head + 1,
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
      (locked) => work(locked, change_id),
      ({ revision }) => ({ subject_id: change_id, revision }),
    );
    if (tokens.length > 0) context.hints.tell({ credentials: tokens });
    return { change_id, ...written };
  }

  return {
    apply: (org, by, set, options = {}) =>
      inSet(org, by, (locked, change_id) => write(locked, { change_id, by, set, options })),

    async get(org, id) {
      const [row] = await reads.run(sql.getChangeSet, [org, id]);
      return row === undefined ? refuse({ code: 'not_found', what: 'change_set' }) : recordOf(row);
    },

    revert: (org, by, id, { force, ...options } = {}) =>
      inSet(org, by, async (locked, change_id) => {
        const [row] = await locked.tx.run(sql.getChangeSet, [org, id]);
        if (row === undefined) return refuse({ code: 'not_found', what: 'change_set' });
        const changes = changesOf(row);
        const { set, conflicts } = reversalOf(changes, await currentOf(locked, changes));
        const records = [
          ...(row.reverted_by === null ? [] : [{ id: row.reverted_by, name: '', why: 'reverted' as const }]),
          ...conflicts,
        ];
        if (records.length > 0 && force !== true) return refuse({ code: 'changed_since', records });
        const applied = await write(locked, { change_id, by, set, options: { ...options, restores: true } }, id);
        await locked.tx.run(sql.markReverted, [org, id, change_id]);
        return applied;
      }),

    async forget() {
      await writes.run(sql.forgetChangeSets, [new Date(context.clock() - keepMs).toISOString()]);
    },
  };
}
