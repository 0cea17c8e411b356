/** Owns the interface of the checks around each write in an organization: before and after it, in its own transaction. */
import type { OrganizationId } from '../../../policy/ids.ts';
import type { Actor } from '../data/actor.ts';
import type { ModelInTransaction } from '../model/organizations.ts';
import type { Runner } from '../postgres/connection.ts';

/** The checks of one transaction, in which several writes may follow each other under the organization's lock. */
export interface WriteCheckSession {
  /** Before a write. */
  before(tx: Runner): Promise<void>;
  /** After it. Throws where the write must be taken back. */
  after(tx: Runner): Promise<void>;
  /** The transaction is committed: what it read and wrote may be remembered. */
  committed(): void;
}

export interface WriteCheck {
  begin(org: OrganizationId, model: ModelInTransaction): WriteCheckSession;
}

/** Whether a person asks for the write, and has it checked. What devices, keys and the server do is never refused. */
export function isChecked({ right, audit, tests }: Actor): boolean {
  const { kind } = right.credential;
  if (kind === 'none' || kind === 'enrollment_key' || audit?.credential.kind === 'device_token') return false;
  return tests === undefined;
}
