/** Owns what a decision about records looks at: the records, who decides, and the moment. It reads nothing else. */
import type { OrganizationId } from '../../../../policy/ids.ts';
import type { Actor } from '../../data/actor.ts';
import type { Phase } from '../../data/phase.ts';
import type { Quotas } from '../../data/quotas.ts';
import { auditRow, type AuditSubject } from '../audit-entry.ts';
import { takesPendingRole, type Caller } from '../caller.ts';
import type { Stamps } from '../stamp.ts';
import type { Records } from './records.ts';

export interface Deciding {
  readonly context: Stamps & { readonly phase: Phase; readonly quotas: Quotas };
  readonly org: OrganizationId;
  readonly records: Records;
  readonly caller: Caller;
  readonly by: Actor;
  /** The moment of the write. */
  readonly at: string;
  /** Of its entry in the audit, whose order is that of ids; absent: the next one. */
  readonly entryId?: string;
  /** Called where the write takes the role of an owner that its actor has not accepted. */
  readonly onAccepting: () => void;
}

/** The audit entry of a decision, where its actor has a note. */
export function note(
  { context, org, records, by, at, entryId }: Deciding,
  subject: Omit<AuditSubject, 'org_id'>,
): void {
  if (by.audit === undefined) return;
  const entry = auditRow(context, { ...by.audit, ...subject, organization_id: org });
  records.note({ ...entry, at, ...(entryId !== undefined && { id: entryId }) });
}

/** After all refusals: an ownership that is pending is accepted by what only an owner may do. */
export function acceptsFor({ by, caller, onAccepting }: Deciding, whose: string | null, asOwner = false): void {
  if (takesPendingRole(by, caller, whose, asOwner)) onAccepting();
}
