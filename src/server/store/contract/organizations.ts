/** Owns the interface of organizations in the store. */
import type { AgentSettings } from '../../../api/organization.ts';
import type { OrganizationId, UserId } from '../../../policy/ids.ts';
import type { Actor, Authority } from './actor.ts';
import type { Expected, Page } from './page.ts';
import type { OrganizationRecord } from './records.ts';

export interface OrganizationPatch {
  readonly name?: string | undefined;
  readonly description?: string | undefined;
  readonly observe?: AgentSettings['observe'] | undefined;
  readonly refuse_with?: AgentSettings['refuse_with'] | undefined;
}

export interface Organizations {
  /** Makes the organization, its owner's membership and its default group in one transaction. */
  create(
    owner: UserId,
    organization: { readonly name: string; readonly description: string },
    by: Authority,
  ): Promise<OrganizationRecord>;
  /** Those that `member` belongs to. */
  list(query: Page & { readonly member: UserId }): Promise<readonly OrganizationRecord[]>;
  /** All of them, by id: for the server itself. */
  ids(query: {
    readonly after?: OrganizationId | undefined;
    readonly limit: number;
  }): Promise<readonly OrganizationId[]>;
  get(org: OrganizationId): Promise<OrganizationRecord>;
  /** What agents follow; undefined where there is no such organization. Questions that come together are one read. */
  settings(org: OrganizationId): Promise<AgentSettings | undefined>;
  /** Takes a revision, which no stream shows. */
  update(org: OrganizationId, by: Actor, patch: OrganizationPatch, options?: Expected): Promise<OrganizationRecord>;
  /** Everything in it goes, tokens of its devices included, without events: open streams see the organization gone. */
  delete(org: OrganizationId, by: Actor, options?: Expected): Promise<OrganizationRecord>;
}
