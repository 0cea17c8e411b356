/** Owns organizations in the store: created with their default group, deleted with everything in them. */
import { settled } from '../../../organization/decide/settings.ts';
import {
  parseGroupId,
  parseOrganizationId,
  parseTokenId,
  parseUserId,
  type OrganizationId,
  type TokenId,
  type UserId,
} from '../../../policy/ids.ts';
import { Coalescer } from '../../scheduling/coalescer.ts';
import type { Runner } from '../postgres/connection.ts';
import { refuse } from '../../problems.ts';
import { changeOf } from '../write/audit-entry.ts';
import type { Context } from '../write/context.ts';
import { Records } from '../write/records/records.ts';
import { now } from '../write/stamp.ts';
import { lockNextOwner } from '../write/user-lock.ts';
import { inOrganization, outsideOrganizations, type Locked } from '../write/transaction.ts';
import { revokeOrganizationDeviceTokens } from '../devices/statements.ts';
import { makeDefaultGroup } from '../groups/default-group.ts';
import type { OrganizationRecord } from '../data/records.ts';
import { pageValues, statement } from '../postgres/sql.ts';
import type { Authority, Actor } from '../data/actor.ts';
import type { Page, Expected } from '../data/page.ts';

type Settings = Pick<OrganizationRecord, 'name' | 'description' | 'observe' | 'refuse_with'>;

export type OrganizationPatch = { readonly [Name in keyof Settings]?: Settings[Name] | undefined };

type AgentSettings = Pick<OrganizationRecord, 'observe' | 'refuse_with'>;

interface OrganizationRow {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly owner_id: string;
  readonly security_groups: string[];
  readonly observe: AgentSettings['observe'];
  readonly refuse_with: AgentSettings['refuse_with'];
  readonly revision: number;
  readonly created_at: string;
  readonly updated_at: string;
}

const select = `
  SELECT o.id, o.name, o.description, o.owner_id, o.observe, o.refuse_with, o.created_at, o.updated_at, h.revision,
    ARRAY(SELECT g.id FROM security_groups g WHERE g.org_id = o.id AND g.user_id IS NULL ORDER BY g.is_default DESC, g.id) AS security_groups
  FROM organizations o JOIN heads h ON h.org_id = o.id`;

const readOrganization = statement<OrganizationRow>('get_organization', `${select} WHERE o.id = $1`);

/** Values: member, after this id, limit. */
const listOrganizations = statement<OrganizationRow>(
  'list_organizations',
  `${select} JOIN members m ON m.org_id = o.id AND m.user_id = $1 WHERE o.id > $2 ORDER BY o.id LIMIT $3`,
);

/** Values: after this id, limit. */
const listIds = statement<{ id: string }>(
  'list_organization_ids',
  'SELECT id FROM organizations WHERE id > $1 ORDER BY id LIMIT $2',
);

/** Values: id, name, description, owner, now. No row: no such user. */
const insertOrganization = statement<{ id: string }>(
  'insert_organization',
  `WITH new AS (
     INSERT INTO organizations (id, name, description, owner_id, created_at, updated_at)
     SELECT $1, $2, $3, u.id, $5, $5 FROM users u WHERE u.id = $4 RETURNING id),
   head AS (INSERT INTO heads (org_id, revision, version, purged) SELECT id, 0, 0, 0 FROM new),
   era AS (INSERT INTO era_starts (org_id, first, era) SELECT new.id, 1, e.id FROM new, (SELECT id FROM eras ORDER BY serial DESC LIMIT 1) e),
   owner AS (INSERT INTO members (org_id, user_id, created_at, role, owner_since) SELECT id, $4, $5, 'owner', $5 FROM new)
   SELECT id FROM new`,
);

const readSettings = statement<AgentSettings & { readonly id: string }>(
  'read_agent_settings',
  'SELECT id, observe, refuse_with FROM organizations WHERE id = ANY ($1::uuid[])',
);

/** In a transaction. Values: id, name, description, observe, refuse_with, owner, now. */
const updateOrganization = statement<never>(
  'update_organization',
  `UPDATE organizations SET name = $2, description = $3, observe = $4, refuse_with = $5, owner_id = $6, updated_at = $7 WHERE id = $1`,
);

/** The lists of its devices go with the devices. What hangs on an organization, in the order in which it may go. */
const emptying = [
  'devices',
  'security_groups',
  'enrollment_keys',
  'webhooks',
  'idempotency_keys',
  'members',
  'changes',
  'history',
  'heads',
].map((table) => statement<never>(`empty_${table}`, `DELETE FROM ${table} WHERE org_id = $1`));
const dropOrganization = statement<never>('delete_organization', 'DELETE FROM organizations WHERE id = $1');

const record = (row: OrganizationRow): OrganizationRecord => ({
  id: parseOrganizationId(row.id),
  name: row.name,
  description: row.description,
  owner_id: parseUserId(row.owner_id),
  security_groups: row.security_groups.map((id) => parseGroupId(id)),
  observe: row.observe,
  refuse_with: row.refuse_with,
  revision: row.revision,
  created_at: row.created_at,
  updated_at: row.updated_at,
});

export async function getOrganization(runner: Runner, org: OrganizationId): Promise<OrganizationRecord> {
  const [row] = await runner.run(readOrganization, [org]);
  return row === undefined ? refuse({ code: 'not_found', what: 'organization' }) : record(row);
}

export async function putOrganization(tx: Runner, organization: OrganizationRecord): Promise<void> {
  const { id, name, description, observe, refuse_with, owner_id, updated_at } = organization;
  await tx.run(updateOrganization, [id, name, description, observe, refuse_with, owner_id, updated_at]);
}

/** Within a transaction that may do more: the organization, its owner as a member, its default group. */
export async function makeOrganization(
  context: Context,
  tx: Runner,
  { owner, name, description }: { readonly owner: UserId; readonly name: string; readonly description: string },
): Promise<OrganizationRecord> {
  const at = now(context);
  const id = context.newId();
  await lockNextOwner(tx, owner, context.quotas);
  const made = await tx.run(insertOrganization, [id, name, description, owner, at]);
  if (made.length === 0) return refuse({ code: 'not_found', what: 'user' });
  const records = new Records({ tx, org: id });
  makeDefaultGroup(records, { id: context.newId(), org: id, by: owner, at });
  await records.flush();
  return getOrganization(tx, parseOrganizationId(id));
}

/** The head that the caller believes in must be the head. */
function checkHead({ head }: Locked, expected: number | undefined): void {
  if (expected !== undefined && expected !== head) refuse({ code: 'precondition_failed', revision: head });
}

/** The organization with everything in it. The answer has the last revision, which nothing else can take: the counter goes too. */
export async function deleteOrganization({
  org,
  tx,
  head,
}: Locked): Promise<{ readonly gone: OrganizationRecord; readonly tokens: readonly TokenId[] }> {
  const gone = { ...(await getOrganization(tx, org)), revision: head + 1 };
  const ended = await tx.run(revokeOrganizationDeviceTokens, [org]);
  for (const step of emptying) await tx.run(step, [org]);
  await tx.run(dropOrganization, [org]);
  return { gone, tokens: ended.map(({ token_id }) => parseTokenId(token_id)) };
}

export function organizationsIn(context: Context) {
  const { reads, hints } = context;
  const settings = new Coalescer<OrganizationId, AgentSettings | undefined>({
    read: async (orgs) => {
      const rows = await reads.run(readSettings, [[...orgs]]);
      const known = new Map(rows.map(({ id, ...values }) => [id, values]));
      return orgs.map((org) => known.get(org));
    },
  });
  return {
    /** Makes the organization, its owner's membership and its default group in one transaction. */
    async create(
      owner: UserId,
      organization: { readonly name: string; readonly description: string },
      by: Authority,
    ): Promise<OrganizationRecord> {
      const make = (tx: Runner) => makeOrganization(context, tx, { owner, ...organization });
      return outsideOrganizations(context, by, make, (made) => ({
        subject_id: made.id,
        revision: 1,
        org_id: made.id,
        name: made.name,
        after: made,
      }));
    },

    /** Those that `member` belongs to. */
    async list(query: Page & { readonly member: UserId }): Promise<readonly OrganizationRecord[]> {
      return (await reads.run(listOrganizations, [query.member, ...pageValues(query)])).map((row) => record(row));
    },

    /** All of them, by id: for the server itself. */
    async ids(query: {
      readonly after?: OrganizationId | undefined;
      readonly limit: number;
    }): Promise<readonly OrganizationId[]> {
      return (await reads.run(listIds, [...pageValues(query)])).map(({ id }) => parseOrganizationId(id));
    },

    async get(org: OrganizationId): Promise<OrganizationRecord> {
      return getOrganization(reads, org);
    },

    /** What agents follow; undefined where there is no such organization. Questions that come together are one read. */
    settings: (org: OrganizationId): Promise<AgentSettings | undefined> => settings.batched.get(org),

    /** Takes a revision, which no stream shows. */
    async update(
      org: OrganizationId,
      by: Actor,
      patch: OrganizationPatch,
      options: Expected = {},
    ): Promise<OrganizationRecord> {
      const { after: updated } = await inOrganization(
        context,
        org,
        by,
        async (locked) => {
          checkHead(locked, options.if_match);
          const before = await getOrganization(locked.tx, org);
          const written = settled<Settings>(before, patch);
          if (written === undefined) return { before, after: before };
          const after = { ...before, ...written, updated_at: now(context) };
          await putOrganization(locked.tx, after);
          return { before, after: { ...after, revision: locked.records.logOrganization() } };
        },
        ({ before, after }) => ({
          subject_id: org,
          revision: after.revision,
          name: before.name,
          ...changeOf(before, after),
        }),
      );
      return updated;
    },

    /** Everything in it goes, tokens of its devices included, without events: open streams see the organization gone. */
    async delete(org: OrganizationId, by: Actor, options: Expected = {}): Promise<OrganizationRecord> {
      const { gone, tokens } = await inOrganization(
        context,
        org,
        by,
        async (locked) => {
          checkHead(locked, options.if_match);
          return deleteOrganization(locked);
        },
        // The entry outlives the organization: the administrator of the server reads it.
        ({ gone: last }) => ({ subject_id: org, revision: last.revision, org_id: null, name: last.name, before: last }),
      );
      if (by.isDryRun !== true) hints.tell({ deleted_organizations: [org], credentials: tokens });
      return gone;
    },
  };
}

export type Organizations = ReturnType<typeof organizationsIn>;
