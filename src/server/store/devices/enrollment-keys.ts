/** Owns enrollment keys in the store: they expire, have a limited number of uses, and may preset a device's groups and labels. */
import { holdingKeys, holdNewKey } from '../../../organization/decide/enrollment-key.ts';
import type { HoldingKey } from '../../../organization/decide/outcome.ts';
import {
  parseEnrollmentKeyId,
  parseGroupId,
  parseOrganizationId,
  parseUserId,
  type OrganizationId,
  type UserId,
  type EnrollmentKeyId,
  type GroupId,
} from '../../../policy/ids.ts';
import type { Actor } from '../data/actor.ts';
import { refuse } from '../../problems.ts';
import type { Context } from '../write/context.ts';
import { acceptByWriting } from '../write/members.ts';
import { now } from '../write/stamp.ts';
import { knownSince } from '../write/idempotency.ts';
import { auditRow, auditRows, insertAudit } from '../write/audit-entry.ts';
import { inOrganization, type Locked } from '../write/transaction.ts';
import { checkList } from './group-list.ts';
import type { EnrollmentKeyRecord } from '../data/records.ts';
import type { Runner } from '../postgres/connection.ts';
import { inOrg, pageValues, statement } from '../postgres/sql.ts';
import type { Digest } from '../data/tokens.ts';
import type { Page } from '../data/page.ts';

export interface NewEnrollmentKey {
  readonly digest: Digest;
  readonly name: string;
  readonly expires_at: Date;
  readonly uses: number;
  readonly security_groups: readonly GroupId[];
  /** Sorted. A key with labels is an owner's: `labels_by_owner` otherwise. */
  readonly labels: readonly string[];
}

interface KeyRow {
  readonly id: string;
  readonly org_id: string;
  readonly user_id: string;
  readonly name: string;
  readonly expires_at: string;
  readonly uses_left: number;
  readonly security_groups: string[];
  readonly labels: string[];
  readonly created_at: string;
}

const columns = 'id, org_id, user_id, name, expires_at, uses_left, security_groups, labels, created_at';

/**
 * A key without uses left is known for a while, where a device may repeat its last enrollment with an idempotency key: it
 * admits no other device. Values: digest, now, since when idempotency keys are known.
 */
const authenticateKey = statement<KeyRow>(
  'authenticate_key',
  `SELECT ${columns} FROM enrollment_keys k WHERE digest = $1 AND expires_at > $2
   AND (uses_left > 0 OR EXISTS (SELECT 1 FROM idempotency_keys i WHERE i.org_id = k.org_id AND i.caller = k.id AND i.at > $3))`,
);
const insertKey = statement<KeyRow>(
  'insert_key',
  `INSERT INTO enrollment_keys (id, digest, org_id, user_id, name, expires_at, uses_left, security_groups, labels, created_at)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING ${columns}`,
);
/** Null names all. Values: organization, user, after this id, limit, id. */
const listKeys = statement<KeyRow>(
  'list_keys',
  `SELECT ${columns} FROM enrollment_keys
   WHERE org_id = $1 AND ($2::uuid IS NULL OR user_id = $2) AND id > $3 AND ($5::uuid IS NULL OR id = $5) ORDER BY id LIMIT $4`,
);
/** Values: organization, keys. */
const deleteKeys = statement<KeyRow>(
  'delete_keys',
  `DELETE FROM enrollment_keys k WHERE k.id = ANY ($2::uuid[]) AND ${inOrg('k')} RETURNING ${columns}`,
);

function record(row: KeyRow): EnrollmentKeyRecord {
  const groups = row.security_groups.map((id) => parseGroupId(id));
  return {
    id: parseEnrollmentKeyId(row.id),
    organization_id: parseOrganizationId(row.org_id),
    user_id: parseUserId(row.user_id),
    name: row.name,
    expires_at: row.expires_at,
    uses_left: row.uses_left,
    ...(groups.length > 0 ? { security_groups: groups } : {}),
    ...(row.labels.length > 0 ? { labels: row.labels } : {}),
    created_at: row.created_at,
  };
}

const found = (key: EnrollmentKeyRecord | undefined): EnrollmentKeyRecord =>
  key ?? refuse({ code: 'not_found', what: 'enrollment_key' });

/** All keys of the organization, or of one user, or one key. */
async function readKeys(
  runner: Runner,
  org: string,
  { user_id, id, page }: { readonly user_id?: string; readonly id?: string; readonly page?: Page } = {},
): Promise<readonly EnrollmentKeyRecord[]> {
  return (await runner.run(listKeys, [org, user_id ?? null, ...pageValues(page), id ?? null])).map((row) =>
    record(row),
  );
}

/** In a transaction: the keys that still admit devices with this group. */
export const keysWith = async (
  { clock }: Pick<Context, 'clock'>,
  { tx, org }: Pick<Locked, 'tx' | 'org'>,
  group: string,
): Promise<readonly HoldingKey[]> => holdingKeys(await readKeys(tx, org), group, clock());

/** Ends keys with what they would give to devices, each with an audit entry of its own. */
export async function endKeys(
  context: Context,
  { tx, org }: Pick<Locked, 'tx' | 'org'>,
  { audit }: Actor,
  ids: readonly string[],
): Promise<void> {
  const gone = (await tx.run(deleteKeys, [org, ids])).map((row) => record(row));
  if (audit === undefined) return;
  const note = { ...audit, operation: 'revokeEnrollmentKey', fields: undefined, organization_id: org };
  const entries = gone.map((key) => auditRow(context, { ...note, subject_id: key.id, name: key.name, before: key }));
  await tx.run(insertAudit, [auditRows(entries)]);
}

export function enrollmentKeysIn(context: Context) {
  const { callers, reads } = context;
  return {
    /** The key of this digest; undefined when unknown, expired or used up. Using it up happens in `devices.create`. */
    async authenticate(digest: Digest): Promise<EnrollmentKeyRecord | undefined> {
      const [row] = await callers.run(authenticateKey, [Buffer.from(digest), now(context), knownSince(context)]);
      return row === undefined ? undefined : record(row);
    },

    async issue(org: OrganizationId, by: Actor, key: NewEnrollmentKey): Promise<EnrollmentKeyRecord> {
      return inOrganization(
        context,
        org,
        by,
        async (locked) => {
          const asked = { user: by.user_id, list: key.security_groups, oldList: [] };
          const { problems } = await checkList(locked, context, asked);
          const { caller, tx } = locked;
          const quota = { at: context.clock(), limit: context.quotas.enrollment_keys };
          const { spent, asOwner } = holdNewKey(
            { problems, labels: key.labels },
            caller,
            await readKeys(tx, org),
            quota,
          );
          if (asOwner) await acceptByWriting(context, locked, by);
          if (spent.length > 0) await tx.run(deleteKeys, [org, spent]);
          const digest = Buffer.from(key.digest);
          const limits = [key.expires_at.toISOString(), key.uses];
          const values = [
            context.newId(),
            digest,
            org,
            by.user_id,
            key.name,
            ...limits,
            key.security_groups,
            key.labels,
            now(context),
          ];
          return found((await tx.run(insertKey, values)).map(record)[0]);
        },
        (made) => ({ subject_id: made.id, name: made.name, after: made }),
      );
    },

    /** The keys of one user, or all of the organization's. */
    async list(
      org: OrganizationId,
      { user_id, ...page }: Page & { readonly user_id?: UserId | undefined } = {},
    ): Promise<readonly EnrollmentKeyRecord[]> {
      return readKeys(reads, org, { ...(user_id && { user_id }), page });
    },

    async get(org: OrganizationId, id: EnrollmentKeyId): Promise<EnrollmentKeyRecord> {
      return found((await readKeys(reads, org, { id }))[0]);
    },

    async revoke(org: OrganizationId, by: Actor, id: EnrollmentKeyId): Promise<EnrollmentKeyRecord> {
      return inOrganization(
        context,
        org,
        by,
        async ({ tx }) => found((await tx.run(deleteKeys, [org, [id]])).map(record)[0]),
        (gone) => ({ subject_id: id, name: gone.name, before: gone }),
      );
    },
  };
}

export type EnrollmentKeys = ReturnType<typeof enrollmentKeysIn>;
