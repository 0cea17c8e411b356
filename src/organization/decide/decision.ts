/** Owns what a decision about one record looks at, and what it gives back. It reads no clock, no table and no chance. */
import type { OrganizationId } from '../../policy/ids.ts';
import { takesPendingRole, type Caller, type Writer } from './caller.ts';
import type { Draft, RecordState, Timestamp } from './records.ts';
import { refuse } from './refusal.ts';

/** How much an organization and its records may hold. */
export interface DecisionLimits {
  readonly groups: number;
  readonly devices: number;
  /** Address ranges of a group, and over all groups of a device. */
  readonly group_ranges: number;
  readonly device_ranges: number;
}

export interface Deciding {
  readonly context: { readonly quotas: DecisionLimits };
  readonly org: OrganizationId;
  readonly records: Draft;
  readonly caller: Caller;
  readonly by: Writer;
  /** The moment of the write. */
  readonly at: Timestamp;
}

/** What the audit says of it, besides who asked for what. */
export interface DecisionNote {
  readonly subject_id: string;
  readonly revision: number;
  /** The write was allowed, and the record was already as it asks. */
  readonly unchanged?: true;
  /** The states as JSON, where the audit holds them. */
  readonly texts?: { readonly before: string; readonly after: string | undefined };
}

export interface Decision<State> {
  readonly state: State;
  readonly note: DecisionNote;
  /** Whether the write takes the role of an owner that its writer has not accepted. */
  readonly accepts: boolean;
}

/** A new state was put, for which these roles were needed. */
export const written = <State extends RecordState<unknown>>(
  { by, caller }: Deciding,
  state: State,
  {
    whose,
    asOwner = false,
    ...more
  }: { readonly whose: string | null; readonly asOwner?: boolean } & Pick<DecisionNote, 'texts'>,
): Decision<State> => ({
  state,
  note: { subject_id: state.id, revision: state.revision, ...more },
  accepts: takesPendingRole(by, caller, whose, asOwner),
});

export const unchanged = <State extends RecordState<unknown>>(state: State): Decision<State> => ({
  state,
  note: { subject_id: state.id, revision: state.revision, unchanged: true },
  accepts: false,
});

export function refuseNewer({ isKnown }: Pick<Draft, 'isKnown'>, what: 'device' | 'group', record: object): void {
  if (!isKnown(what, record)) refuse({ code: 'newer_record', what });
}

export function holdRevision(expected: number | undefined, { revision }: Pick<RecordState<unknown>, 'revision'>): void {
  if (expected !== undefined && expected !== revision) refuse({ code: 'precondition_failed', revision });
}
