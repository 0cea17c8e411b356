/** Owns the interface of the audit, and the note that a write passes to it. */
import type { Timestamp } from '../../../organization/decide/records.ts';
import type { ChangeSetId, OrganizationId, UserId, DeviceId } from '../../../policy/ids.ts';
import type { AuditRecord } from './records.ts';
import type { FlowSum } from './flows.ts';

/** What a request is to the audit: what was asked, by whom, with which credential and from where. */
export interface AuditNote {
  readonly operation: string;
  /** Names of the fields that were given, never their values. */
  readonly fields?: readonly string[] | undefined;
  readonly user_id: UserId;
  readonly credential: AuditRecord['credential'];
  readonly address: string;
  readonly request_id: string;
  /** The change set that the write is a part of. */
  readonly change_id?: ChangeSetId | undefined;
}

/** A note, and what came of it. */
export interface NewAuditRecord extends AuditNote {
  readonly organization_id?: string | undefined;
  readonly subject_id?: string | undefined;
  readonly revision?: number | undefined;
}

/** Refused traffic of one device, in its parts as they were stored. */
export interface RefusedReport {
  readonly organization_id: OrganizationId;
  readonly device_id: DeviceId;
  readonly hostname?: string;
  readonly since: Timestamp;
  readonly until: Timestamp;
  readonly part: number;
  /** Each with its place in the part. */
  readonly sums: readonly { readonly place: number; readonly sum: FlowSum }[];
}

export interface WaitingEntries {
  readonly entries: readonly AuditRecord[];
  readonly refused: readonly RefusedReport[];
  /** Entries that can no longer be written: they were removed before. */
  readonly lost: number;
  /** For `written`. */
  readonly places: readonly string[];
}
