/** Owns the interface of security groups in the store. */
import type { StandingForbids } from '../../../organization/forbids.ts';
import type { GroupId, OrganizationId, UserId } from '../../../policy/ids.ts';
import type { GroupMode, GuardrailKind, Selector, StoredRule } from '../../../policy/rule.ts';
import type { Actor } from './actor.ts';
import type { NewTrial } from './change/trials.ts';
import type { Expected, RevisionPage, Rows } from './page.ts';
import type { GroupRecord, Stored } from './records.ts';

/**
 * The reader: a user sees the organization's groups, its own, and those that a device holds. Undefined means a device's
 * token, which does not have the rights of its user: it does not see the user's own groups that no device holds.
 */
export type GroupReader = UserId | undefined;

/** Whose groups: the organization's own (the default among them), or one user's. */
export type GroupOwner = 'organization' | UserId;

export interface NewGroup {
  readonly group_name: string;
  readonly group_description: string;
  readonly inbound_rules: readonly StoredRule[];
  readonly outbound_rules: readonly StoredRule[];
  readonly applies_to?: readonly Selector[] | undefined;
  /** Set when the group is made, never changed. */
  readonly guardrail?: GuardrailKind | undefined;
  /** `observe`: watch only. Never on the default group (`application_refused`). */
  readonly mode?: GroupMode | undefined;
}

/** What may be changed of a group. */
export type GroupPatch = Partial<Omit<NewGroup, 'guardrail'>>;

/** A write that is taken back unless somebody confirms it. Nothing else changes the record before: `trial_pending`. */
export interface AsTrial {
  readonly trial?: NewTrial | undefined;
}

export interface SavedGroup extends Stored<GroupRecord> {
  /** Whether a guardrail of the organization forbids anything anywhere, as of the write: otherwise no rule can be void. */
  readonly mayBeVoid: boolean;
}

/** Rules of a group that expire at one moment. */
export interface ExpiringRules {
  readonly group_id: GroupId;
  readonly group_name: string;
  /** As it was written. */
  readonly expires_at: string;
  readonly rules: number;
  /** Since when the group has rules that expire then, in milliseconds since the epoch. */
  readonly since: number;
}

/**
 * Devices that rules name as peers must be in the organization when the rules are written (`device_unknown`); those that the group named before may be
 * gone, and so may those of a state that is restored. A group that applies by label is the organization's, not the default one, in phase 3 (`application_refused`).
 */
export interface Groups {
  /** The organization's groups that `reader` may see; `owner` narrows. */
  list(
    org: OrganizationId,
    query: RevisionPage & { readonly reader: GroupReader; readonly owner?: GroupOwner | undefined },
  ): Promise<Rows<Stored<GroupRecord>>>;
  /** One group that `reader` may see; `not_found` otherwise. */
  get(
    org: OrganizationId,
    id: GroupId,
    query: { readonly reader: GroupReader; readonly owner?: GroupOwner | undefined },
  ): Promise<Stored<GroupRecord>>;
  /** Groups of the organization by their ids; with a query only those that this reader may see. Those that are gone are absent. */
  find(
    org: OrganizationId,
    ids: readonly GroupId[],
    query?: { readonly reader: GroupReader },
  ): Promise<readonly Stored<GroupRecord>[]>;
  /** Fails with `phase_forbids` in phase 1. A user's group needs the user to be a member. */
  create(org: OrganizationId, by: Actor, owner: GroupOwner, group: NewGroup, options?: AsTrial): Promise<SavedGroup>;
  /**
   * `not_found` unless the group belongs to `owner`. `would_open` where a device that has the group would have none, by label or because the group becomes watch only, unless `detach`.
   * `restores`: the patch is what the group was once.
   */
  update(
    org: OrganizationId,
    by: Actor,
    owner: GroupOwner,
    id: GroupId,
    patch: GroupPatch,
    options?: Expected & AsTrial & { readonly restores?: boolean; readonly detach?: boolean | undefined },
  ): Promise<SavedGroup>;
  /**
   * Brings a deleted group back under its id, as it was once. `group_exists` when there is one, here or in another organization.
   */
  recreate(
    org: OrganizationId,
    by: Actor,
    owner: GroupOwner,
    id: GroupId,
    group: NewGroup,
    options?: AsTrial,
  ): Promise<SavedGroup>;
  /**
   * The `forbid` guardrails on devices that have a group, each set of them once with the number of its devices, the most common first; where no
   * device has it, those on all devices. At most a few sets. Undefined where that is not found out quickly.
   */
  forbidsOn(org: OrganizationId, id: GroupId): Promise<readonly StandingForbids[] | undefined>;
  /** The bytes of all groups of the organization together. */
  bytesOf(org: OrganizationId): Promise<number>;
  /** Groups of the owner that have this name, other than the group itself; at most a few. */
  sameName(org: OrganizationId, owner: GroupOwner, name: string, id: GroupId): Promise<readonly GroupId[]>;
  /** Rules that expire between two moments, in milliseconds since the epoch; at most a thousand moments. */
  expiring(
    org: OrganizationId,
    between: { readonly from: number; readonly until: number },
  ): Promise<readonly ExpiringRules[]>;
  /**
   * Gives the record as last known with the revision of its deletion. Held by devices, by list or by label, or enrollment keys: `group_in_use`, or with
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
