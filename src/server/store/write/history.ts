/**
 * Owns how states are recorded: a statement that writes a record also writes its row of the history. So the history has
 * exactly the states that existed. Storage grows with changes of policy, not with time.
 */
import type { WatchKind } from '../../../api/kinds.ts';
import { parseUserId } from '../../../policy/ids.ts';

/** Who made a state that no user asked for, such as the end of a trial whose time was over. No user has this id. */
export const theServer = parseUserId('00000000-0000-0000-0000-000000000000');

interface Kept {
  readonly kind: WatchKind;
  readonly type: 'change' | 'delete';
  /** Rows with `org_id`, `id`, `revision` and `body`: a name, and what may follow it in FROM. */
  readonly from: string;
  readonly join?: string;
  /** Whose it is; NULL: the organization's. */
  readonly owner: string;
  /** Who alone could see it; NULL: every member. */
  readonly onlyFor?: string;
  /** Who made it so, and when. */
  readonly by: string;
  readonly at: string;
  readonly where?: string;
}

export const keepStates = ({ kind, type, from, join = '', onlyFor = 'NULL::uuid', ...rest }: Kept): string => `
  INSERT INTO history (org_id, kind, id, revision, type, owner_id, only_for, user_id, at, body)
  SELECT ${from}.org_id, '${kind}', ${from}.id, ${from}.revision, '${type}', ${rest.owner}, ${onlyFor}, ${rest.by}, ${rest.at}, ${from}.body
  FROM ${from} ${join} ${rest.where === undefined ? '' : `WHERE ${rest.where}`}`;

/** Of a single-statement write that updates: `new` gives back what was asked too, as `askedColumns` of `n`. */
export const askedColumns = 'n.audit_actor, n.audit_at';
export const bySingleUpdate = { from: 'new', by: 'new.audit_actor', at: 'new.audit_at' } as const;

/** Of one that inserts: `new` beside what was asked, which knows who and when. */
export const bySingleInsert = {
  from: 'new',
  join: 'JOIN numbered n ON n.id = new.id',
  by: 'n.audit_actor',
  at: 'n.audit_at',
} as const;
