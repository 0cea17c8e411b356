/** Owns the columns of the table of operations: one for each fact about an operation. */
import type { TArray, TObject, TSchema } from 'typebox';
import type { ErrorCode } from './codes.ts';

export type Tag = 'users' | 'organizations' | 'devices' | 'security groups' | 'changes' | 'events' | 'alerts' | 'audit';

/**
 * What the path names besides its organization. `user group`: these paths know user-owned groups only. `current or deleted group`: also one that is
 * in the history alone.
 */
export type SubjectKind =
  | 'group'
  | 'user group'
  | 'current or deleted group'
  | 'device'
  | 'token'
  | 'enrollment key'
  | 'user';

export interface Row {
  readonly tag: Tag;
  readonly summary: string;
  /**
   * `read`: changes nothing, so a read-only token may do it. `write`: leaves an audit entry. `report`: an agent's own status, which
   * comes from every device each minute, takes no revision and leaves no audit entry.
   */
  readonly effect: 'read' | 'write' | 'report';
  /**
   * What its work grows with. `fixed`: with the request, as for a record, a write, or a list that is sent as it is read. `shared`: with the organization,
   * and it is worked out once for all who ask at the same time (whether policies are in force). `organization`: with the organization, for each request:
   * it runs under a `WorkBudget`, which refuses what is too costly (422 `too_costly`) and more than a few questions at a time (429). The type of
   * the handler follows from it: only this last kind reaches what works answers out.
   */
  readonly cost: 'fixed' | 'shared' | 'organization';
  readonly subject?: SubjectKind;
  /** One record; of a list, one entry; of a stream, one document. */
  readonly answer: TSchema;
  /** Whether the answer carries `ETag: "<revision>"`. */
  readonly etag?: true;
  readonly query?: TObject;
  readonly body?: TObject | TArray;
  /** An absent body is the same as `{}`. */
  readonly bodyOptional?: true;
  /** A body that holds rules or sums of traffic may be large; every other is small. */
  readonly bodySize?: 'rules';
  /** The handler reads the body by rules that know more than the schema; else the schema decides before the handler runs. */
  readonly bodyReader?: 'handler';
  /** Whether `If-Match` is honoured. */
  readonly conditional?: true;
  /** Whether `Idempotency-Key` is honoured. `secret`: the answer holds a secret, so it is stored encrypted. */
  readonly idempotent?: 'plain' | 'secret';
  /** It comes from all devices of a fleet at once, as when a server comes back: what is read to let it in is asked for together. */
  readonly coalesced?: true;
  /** Failures besides those that follow from the shape of the operation. */
  readonly fails?: readonly ErrorCode[];
}
