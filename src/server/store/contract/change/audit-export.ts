/** Owns the interface of what waits for the audit log: committed entries, each until it was written (docs/decisions/audit-and-evidence.md). */
import type { DeviceId, OrganizationId } from '../../../../policy/ids.ts';
import type { FlowSum } from '../flows/flows.ts';
import type { AuditRecord, Timestamp } from '../records.ts';

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

export interface AuditExport {
  /** From now on every committed audit entry waits until it was written, whichever server commits it; with `refused`, reports of traffic too. */
  enable(what: { readonly refused: boolean }): Promise<void>;
  /** What waits, about in the order of its commits. What was read is read again until `written` names it. */
  next(limit: number): Promise<WaitingEntries>;
  written(entries: WaitingEntries): Promise<void>;
  /** Drops the oldest where too many wait, refused traffic before entries of the audit, and counts them as lost. `most`: a million unless given. */
  forget(most?: number): Promise<void>;
}
