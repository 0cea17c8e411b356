/** Owns what the store adds to a decision about records: the actor with its note for the audit, and what is kept of what was decided. */
import type { Deciding as PureDeciding, Decision, DecisionNote } from '../../../../organization/decide/decision.ts';
import type { Phase } from '../../../../organization/decide/phase.ts';
import type { RecordState } from '../../../../organization/decide/records.ts';
import type { Actor } from '../../data/actor.ts';
import type { Quotas } from '../../data/quotas.ts';
import type { Stored } from '../../data/records.ts';
import { auditRow } from '../audit-entry.ts';
import type { Stamps } from '../stamp.ts';
import { stored } from '../stored.ts';
import type { Records } from './records.ts';

export interface Deciding extends PureDeciding {
  readonly context: Stamps & { readonly phase: Phase; readonly quotas: Quotas };
  readonly records: Records;
  readonly by: Actor;
  /** Of its entry in the audit, whose order is that of ids; absent: the next one. */
  readonly entryId?: string;
  /** Called where the write takes the role of an owner that its actor has not accepted. */
  readonly onAccepting: () => void;
}

/** The record as it was decided, with its audit entry where the actor has a note. */
export function decided<Content, Record extends Content>(
  deciding: Deciding,
  { state, note, accepts }: Decision<RecordState<Content>>,
  noteOf: (note: DecisionNote) => DecisionNote = (whole) => whole,
): Stored<Record> {
  const { context, org, records, by, at, entryId, onAccepting } = deciding;
  if (accepts) onAccepting();
  if (by.audit !== undefined) {
    const entry = { ...by.audit, ...noteOf(note), organization_id: org };
    records.note(auditRow(context, entry, { at, id: entryId }));
  }
  return stored<Record>(state);
}
