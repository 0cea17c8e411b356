/** Owns the interface of security groups in the store. */
import type { GroupId, OrganizationId, UserId } from '../../../policy/ids.ts';
import type { StoredRule } from '../../../policy/rule.ts';
import type { Actor } from './actor.ts';
import type { Expected, RevisionPage } from './page.ts';
import type { GroupRecord, Stored } from './records.ts';

/**
 * Who reads: a user sees the organization's groups, its own, and those that a device holds. Undefined stands for a device's token, which has no
 * rights of its user: it does not see the user's own groups that no device holds.
 */
export type GroupReader = UserId | undefined;

/** Whose groups: the organization's own (the default among them), or one user's. */
export type GroupOwner = 'organization' | UserId;

export interface NewGroup {
  readonly group_name: string;
  readonly group_description: string;
  readonly inbound_rules: readonly StoredRule[];
  readonly outbound_rules: readonly StoredRule[];
}

export interface Groups {
  /** The organization's groups that `reader` may see; `owner` narrows. */
  list(
    org: OrganizationId,
    query: RevisionPage & { readonly reader: GroupReader; readonly owner?: GroupOwner | undefined },
  ): Promise<readonly Stored<GroupRecord>[]>;
  /** One group that `reader` may see; `not_found` otherwise. */
  get(
    org: OrganizationId,
    id: GroupId,
    query: { readonly reader: GroupReader; readonly owner?: GroupOwner | undefined },
  ): Promise<Stored<GroupRecord>>;
  /** Fails with `phase_forbids` in phase 1. A user's group needs the user to be a member. */
  create(org: OrganizationId, by: Actor, owner: GroupOwner, group: NewGroup): Promise<Stored<GroupRecord>>;
  /** `not_found` unless the group belongs to `owner`. */
  update(
    org: OrganizationId,
    by: Actor,
    owner: GroupOwner,
    id: GroupId,
    patch: Partial<NewGroup>,
    options?: Expected,
  ): Promise<Stored<GroupRecord>>;
  /**
   * Brings a deleted group back under its id, as `create` would make it. `group_exists` when there is one.
   */
  recreate(
    org: OrganizationId,
    by: Actor,
    owner: GroupOwner,
    id: GroupId,
    group: NewGroup,
  ): Promise<Stored<GroupRecord>>;
  /**
   * Gives the record as last known with the revision of its deletion. Held by devices or enrollment keys: `group_in_use`, or with
   * `detach` the group is taken off its devices first, each with a revision of its own, and the keys end. The default group is *reset*: it goes, and a
   * fresh one with another id comes in the same transaction (the next revision).
   */
  delete(
    org: OrganizationId,
    by: Actor,
    owner: GroupOwner,
    id: GroupId,
    options?: Expected & { readonly detach?: boolean | undefined },
  ): Promise<Stored<GroupRecord>>;
}
