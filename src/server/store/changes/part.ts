/** Owns one part of a change set: its actor and right, and its audit entry. */
import type { ChangeSetId } from '../../../policy/ids.ts';
import type { Actor, RightSubject } from '../data/actor.ts';
import type { ChangeOperation, ChangeSetActor, ChangeSetOptions, NewChangeSet } from '../data/change-sets.ts';
import { auditRow, type AuditSubject } from '../write/audit-entry.ts';
import { heldRight } from '../write/caller.ts';
import type { Context } from '../write/context.ts';
import type { Locked } from '../write/transaction.ts';

/** What a change set is written with. */
export interface ChangeSetWrite {
  readonly change_id: ChangeSetId;
  readonly by: ChangeSetActor;
  readonly set: NewChangeSet;
  readonly options: ChangeSetOptions & {
    /** The set makes records what they were: groups come back under their ids, and rules may name devices that are gone. */
    readonly restores?: boolean | undefined;
  };
}

/** What the audit entry of a part says beside its operation. */
export interface PartNote {
  readonly fields?: readonly string[] | undefined;
  /** Another name for the operation. */
  readonly name?: string;
}

/** The actor of one part: the same credential, with the roles that this operation needs. */
export const partActor = (
  { by, change_id }: Pick<ChangeSetWrite, 'by' | 'change_id'>,
  operation: ChangeOperation,
  { fields, name = operation }: PartNote = {},
): Actor => ({
  user_id: by.user_id,
  right: { ...by.right, roles: by.rolesFor(operation) },
  audit: by.audit && { ...by.audit, operation: name, fields, change_id },
});

/** Throws unless the right to this part holds now. */
export async function holdPartRight(
  context: Context,
  locked: Locked,
  actor: Actor,
  subject?: RightSubject,
): Promise<void> {
  await heldRight(context, locked, { ...actor, right: { ...actor.right, subject } });
}

export function notePart(
  context: Context,
  { records, org }: Locked,
  { audit }: Actor,
  subject: Omit<AuditSubject, 'org_id'>,
): void {
  if (audit !== undefined) records.note(auditRow(context, { ...audit, ...subject, organization_id: org }));
}
