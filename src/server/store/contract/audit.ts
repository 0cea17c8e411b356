/** Owns the interface of the audit, and the note that a write passes to it. */
import type { ChangeSetId, OrganizationId, UserId } from '../../../policy/ids.ts';
import type { Page, Rows } from './page.ts';
import type { AuditRecord } from './records.ts';

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

export interface Audit {
  /** For what is no write, such as a sign-in. Resolves when the entry is durable. */
  record(entry: NewAuditRecord): Promise<void>;
  /**
   * Newest first, of the times from `since` to `until`; `after` is the last id seen. Without an organization: what concerns the whole server. With a reader, the states before and
   * after as well, where the history has them and the reader could see them.
   */
  list(
    org: OrganizationId | undefined,
    page?: Page & {
      readonly reader?: UserId | undefined;
      readonly since?: string | undefined;
      readonly until?: string | undefined;
    },
  ): Promise<Rows<AuditRecord>>;
  /** Forgets entries past their retention. */
  forget(): Promise<void>;
}
