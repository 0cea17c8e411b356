/** Owns who acts: the user behind a write, and what the audit is told of it. */
import type { UserId } from '../../../policy/ids.ts';
import type { AuditNote } from './audit.ts';

/** Who acts. Where an operation takes one, that user must be a member of the organization when it commits: `not_a_member`. */
export interface Actor {
  readonly user_id: UserId;
  /** Tells the write in the audit, in its own transaction: both happen or neither. A refused write is not told. */
  readonly audit?: AuditNote | undefined;
}
