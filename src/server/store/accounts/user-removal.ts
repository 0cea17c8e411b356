/**
 * Owns the removal of a user for good. Its credentials and its sign-in end first, in one transaction, so that it writes
 * nothing more, whatever happens next. Then it leaves its organizations, one after the other.
 */
import { isLastOwner, memberIn } from '../../../organization/decide/member.ts';
import {
  parseOrganizationId,
  parseTokenId,
  type OrganizationId,
  type TokenId,
  type UserId,
} from '../../../policy/ids.ts';
import type { Actor } from '../data/actor.ts';
import type { AuditNote } from '../data/audit.ts';
import { refuse } from '../../problems.ts';
import type { UserRecord } from '../data/records.ts';
import { refuseOpenedByHandOver } from '../devices/hand-over.ts';
import type { Runner } from '../postgres/connection.ts';
import { statement } from '../postgres/sql.ts';
import { auditValue, insertAudit, type AuditSubject } from '../write/audit-entry.ts';
import type { Context } from '../write/context.ts';
import { loadMembers } from '../write/members.ts';
import { findPlaces } from '../write/user-lock.ts';
import { holdRight } from '../write/right.ts';
import { now } from '../write/stamp.ts';
import { committed, inOrganization, type Locked } from '../write/transaction.ts';
import { removeMember } from './member-removal.ts';
import { makeMemberOwner } from './members.ts';
import { deleteOrganization, getOrganization } from './organizations.ts';
import { endOwnership } from './owners.ts';
import { endSessions } from './sessions.ts';
import { endTokens } from './tokens.ts';

export interface NamedOrganization {
  readonly id: OrganizationId;
  readonly name: string;
}

/** A user who is gone, where policy went along, and what became of the organizations that it owned alone. */
export interface RemovedUser {
  readonly user: UserRecord;
  readonly changed: readonly { readonly organization_id: OrganizationId; readonly revision: number }[];
  readonly deleted: readonly NamedOrganization[];
  readonly handedOver: readonly NamedOrganization[];
}

export interface RemoveUser {
  /** What becomes of the organizations that the user owns alone: absent, they are in the way (`last_owner`). */
  readonly organizations?: 'delete' | { readonly to: UserId } | undefined;
  /** Also where a device that is handed over is left with no group of its own, so that the default group applies to it (`would_open` otherwise). */
  readonly detach?: boolean | undefined;
}

/** Blocks transactions that would give the user an organization or a membership at the same moment. */
const lockUser = statement<never>('lock_user', 'SELECT id FROM users WHERE id = $1 FOR UPDATE');
/** No row: it is hidden already. */
const hideUser = statement<{ id: string }>(
  'hide_user',
  'UPDATE users SET removed_at = $2 WHERE id = $1 AND removed_at IS NULL RETURNING id',
);
interface Removal extends RemoveUser {
  readonly user: UserRecord;
  readonly shown: object;
  readonly by: Actor;
}

/** What became of one organization. */
interface Left {
  readonly fate: 'deleted' | 'handed over' | 'goes on';
  readonly name: string;
  readonly revision?: number | undefined;
  readonly tokens: readonly TokenId[];
}

async function ownedAlone(runner: Runner, user: string): Promise<readonly NamedOrganization[]> {
  const places = await runner.run(findPlaces, [user]);
  return places.flatMap(({ id, name, is_last_owner }) =>
    is_last_owner ? [{ id: parseOrganizationId(id), name }] : [],
  );
}

/** Ends what the user can sign in and write with. Refused where nobody said what becomes of the organizations that it owns alone. */
async function endCredentials(context: Context, tx: Runner, removal: Removal): Promise<readonly TokenId[]> {
  const { user, shown, by, organizations, detach } = removal;
  const { right, audit } = by;
  const { id } = user;
  await holdRight(tx, right, now(context));
  await tx.run(lockUser, [id]);
  const alone = await ownedAlone(tx, id);
  if (alone.length > 0 && organizations === undefined) return refuse({ code: 'last_owner', organizations: alone });
  if (typeof organizations === 'object' && detach !== true)
    for (const { id: org } of alone)
      await refuseOpenedByHandOver({ tx, org, model: context.models.inTransaction(org) }, id);
  const isFirst = (await tx.run(hideUser, [id, now(context)])).length > 0;
  const isMember = (await tx.run(findPlaces, [id])).length > 0;
  // A removal that was interrupted goes on.
  if (!isFirst && !isMember) return refuse({ code: 'not_found', what: 'user' });
  const entry: AuditSubject = { subject_id: id, org_id: null, name: user.username, before: shown };
  if (isFirst && audit !== undefined) await tx.run(insertAudit, [auditValue(context, audit, entry)]);
  // Devices that are handed over keep their tokens; those of the others end with their devices.
  const withDevices = typeof organizations !== 'object';
  const tokens = await tx.run(endTokens, [null, id, withDevices, null]);
  const ended = [...tokens, ...(await tx.run(endSessions, [null, id]))];
  return ended.map((token) => parseTokenId(token.id));
}

/** Under the organization's lock: whether the user owns it alone is decided here. */
async function leave(context: Context, locked: Locked, removal: Removal): Promise<Left> {
  const { org, tx } = locked;
  const { user, by, organizations, detach } = removal;
  const { audit } = by;
  const write = async (entry: AuditSubject, operation?: string): Promise<void> => {
    if (audit === undefined) return;
    const note: AuditNote = operation === undefined ? audit : { ...audit, operation };
    await tx.run(insertAudit, [auditValue(context, note, entry)]);
  };
  const { name } = await getOrganization(tx, org);
  const members = await loadMembers(tx, org, [user.id], { owners: true });
  const member = memberIn(members, user.id);
  const { role } = member;
  const isAlone = isLastOwner(members, user.id);
  if (isAlone && organizations === undefined) return refuse({ code: 'last_owner', organizations: [{ id: org, name }] });
  if (isAlone && organizations === 'delete') {
    const { gone, tokens } = await deleteOrganization(locked);
    await write({ subject_id: org, revision: gone.revision, org_id: null, name, before: gone }, 'deleteOrganization');
    return { fate: 'deleted', name, tokens };
  }
  const heir = isAlone && typeof organizations === 'object' ? organizations.to : undefined;
  if (heir !== undefined) {
    const { operation, ...entry } = await makeMemberOwner(context, locked, heir);
    await write({ ...entry, org_id: org }, operation);
  }
  if (role === 'owner')
    await endOwnership(context, locked, await loadMembers(tx, org, [user.id], { owners: true }), member, {
      evenLast: heir !== undefined,
    });
  const kept = heir === undefined ? {} : { keepDevices: true, heir, detach };
  const { revision, tokens } = await removeMember(context, locked, { by, user: user.id, ...kept });
  await write({ subject_id: user.id, org_id: org, name: user.username, before: { user_id: user.id, role } });
  return { fate: heir === undefined ? 'goes on' : 'handed over', name, revision, tokens };
}

export async function removeUser(context: Context, removal: Removal): Promise<RemovedUser> {
  const { reads } = context;
  const { user } = removal;
  const tell: typeof context.hints.tell = (hint) => {
    if (removal.by.isDryRun !== true) context.hints.tell(hint);
  };
  const credentials = await committed(context, removal.by, (tx) => endCredentials(context, tx, removal));
  tell({ credentials });
  const changed: { organization_id: OrganizationId; revision: number }[] = [];
  const deleted: NamedOrganization[] = [];
  const handedOver: NamedOrganization[] = [];
  // Nothing adds the user to an organization any more. A dry run judges one organization after the other.
  for (const place of await reads.run(findPlaces, [user.id])) {
    const org = parseOrganizationId(place.id);
    // Its entries are written with what became of the organization.
    const by = { ...removal.by, audit: undefined };
    const work = (locked: Locked) => leave(context, locked, removal);
    const { fate, name, revision, tokens } = await inOrganization(context, org, by, work, () => ({ subject_id: org }));
    if (fate === 'deleted') {
      deleted.push({ id: org, name });
      tell({ deleted_organizations: [org], credentials: tokens });
      continue;
    }
    if (fate === 'handed over') handedOver.push({ id: org, name });
    if (revision !== undefined) changed.push({ organization_id: org, revision });
    tell({ removed_members: [{ organization_id: org, user_id: user.id }], credentials: tokens });
  }
  return { user, changed, deleted, handedOver };
}
