/** Owns users in the store: local users, users of an identity provider, and the first administrator. */
import {
  parseGroupId,
  parseOrganizationId,
  parseTokenId,
  parseUserId,
  type OrganizationId,
} from '../../../policy/ids.ts';
import { usernameKey } from '../../../policy/names/username.ts';
import { auditValue, insertAudit, type AuditSubject } from '../write/audit-entry.ts';
import { outsideOrganizations } from '../write/transaction.ts';
import { holdRight } from '../write/right.ts';
import { now } from '../write/stamp.ts';
import type { Runner } from '../postgres/connection.ts';
import { refuse } from '../contract/errors.ts';
import type { Context } from '../write/context.ts';
import { Coalescer, type CoalescedRead } from '../../scheduling/coalescer.ts';
import { makeOrganization } from './organizations.ts';
import type { UserRecord } from '../contract/records.ts';
import { endUserSessions } from './sessions.ts';
import { pageValues, statement } from '../postgres/sql.ts';
import type { Members } from '../contract/members.ts';
import type { Users } from '../contract/users.ts';
import type { Batched } from '../contract/caller-lookups.ts';
import { revokeUserTokens, insertToken } from './tokens.ts';

interface UserRow {
  readonly id: string;
  readonly username: string;
  readonly is_admin: boolean;
  readonly security_groups: string[];
  readonly created_at: string;
  readonly removed: boolean;
}

const columns = `u.id, u.username, u.is_admin, u.created_at, u.removed_at IS NOT NULL AS removed,
    ARRAY(SELECT g.id FROM security_groups g WHERE g.user_id = u.id ORDER BY g.id) AS security_groups`;
const select = `SELECT ${columns} FROM users u`;

const getUser = statement<UserRow>('get_user', `${select} WHERE u.id = $1 AND u.removed_at IS NULL`);
const userByName = statement<UserRow>('user_by_name', `${select} WHERE u.username = $1 AND u.removed_at IS NULL`);
/** Values: issuers, subjects. `n` says which of them, from 1. */
const usersByIdentity = statement<UserRow & { readonly n: number }>(
  'users_by_identity',
  `SELECT i.n, ${columns} FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS i (issuer, subject, n)
   JOIN users u ON u.issuer = i.issuer AND u.subject = i.subject`,
);
const listUsers = statement<UserRow>(
  'list_users',
  `${select} WHERE u.id > $1 AND u.removed_at IS NULL ORDER BY u.id LIMIT $2`,
);

/** Values: id, name, is administrator, issuer, subject, now, key of the name. No row: the identity, the name or one that looks like it is taken. */
const insertUser = statement<{ id: string }>(
  'insert_user',
  `INSERT INTO users (id, username, is_admin, issuer, subject, created_at, username_key) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING RETURNING id`,
);

/** Blocks transactions that would give the user an organization or a membership at the same moment. */
const lockUser = statement<never>('lock_user', 'SELECT id FROM users WHERE id = $1 FOR UPDATE');
const belongsTo = statement<{ org_id: string; is_last_owner: boolean }>(
  'belongs_to',
  `SELECT m.org_id, m.role = 'owner' AND NOT EXISTS (
     SELECT FROM members o WHERE o.org_id = m.org_id AND o.role = 'owner' AND o.user_id <> m.user_id) AS is_last_owner
   FROM members m WHERE m.user_id = $1`,
);
const hideUser = statement<never>('hide_user', 'UPDATE users SET removed_at = $2 WHERE id = $1');

/** Any constant will do; it is ours alone in this database. */
const lockBootstrap = statement<never>('lock_bootstrap', 'SELECT pg_advisory_xact_lock(7264651001)');
const anyUser = statement<{ id: string }>('any_user', 'SELECT id FROM users LIMIT 1');

function record(row: UserRow): UserRecord {
  const { id, username, is_admin, created_at } = row;
  const groups = row.security_groups.map((group) => parseGroupId(group));
  return {
    id: parseUserId(id),
    username,
    is_admin,
    ...(groups.length > 0 ? { security_groups: groups } : {}),
    created_at,
  };
}

async function get(runner: Runner, id: string): Promise<UserRecord> {
  const [row] = await runner.run(getUser, [id]);
  return row === undefined ? refuse({ code: 'not_found', what: 'user' }) : record(row);
}

const auditSubject = ({ id, username }: UserRecord): AuditSubject => ({ subject_id: id, org_id: null, name: username });

/** What the audit shows of a user. The user's own groups are not part of it. */
const shown = ({ username, is_admin, created_at }: UserRecord): object => ({
  username,
  ...(is_admin && { is_administrator: true }),
  created_at,
});

interface Identity {
  readonly issuer: string;
  readonly subject: string;
}

export function usersIn(context: Context, members: Members): Users & Batched<Users, 'forIdentity'> {
  const { callers, reads, writes, transactions, hints } = context;
  const identities = new Coalescer<Identity, UserRow | undefined>({
    async read(asked) {
      const values = [asked.map(({ issuer }) => issuer), asked.map(({ subject }) => subject)];
      const byNumber = new Map((await callers.run(usersByIdentity, values)).map((row) => [row.n, row]));
      return asked.map((_, index) => byNumber.get(index + 1));
    },
    nameOf: ({ issuer, subject }) => JSON.stringify([issuer, subject]),
  });
  const forIdentityBy =
    (ask: CoalescedRead<Identity, UserRow | undefined>): Users['forIdentity'] =>
    async ({ issuer, subject, username }) => {
      // Here, because the question is asked together with those of others.
      if (`${issuer}${subject}`.includes('\0')) return refuse({ code: 'invalid_text' });
      // Another server may make the same user at the same moment, or the name may be taken: look, try, look again.
      for (let attempt = 0; attempt < 5; attempt += 1) {
        const known = await ask.get({ issuer, subject });
        if (known?.removed) return refuse({ code: 'user_removed' });
        if (known !== undefined) return record(known);
        const id = context.newId();
        const name = attempt === 0 ? username : `${username}-${id.slice(-4)}`;
        await writes.run(insertUser, [id, name, false, issuer, subject, now(context), usernameKey(name)]);
      }
      return refuse({ code: 'username_taken' });
    };
  return {
    async create(user, by) {
      const id = context.newId();
      const make = async (runner: Runner) => {
        const made = await runner.run(insertUser, [
          id,
          user.username,
          user.is_admin === true,
          null,
          null,
          now(context),
          usernameKey(user.username),
        ]);
        return made.length === 0 ? refuse({ code: 'username_taken' }) : get(runner, id);
      };
      return outsideOrganizations(context, by, make, (made) => ({ ...auditSubject(made), after: shown(made) }));
    },

    async list(query) {
      return (await reads.run(listUsers, pageValues(query))).map((row) => record(row));
    },

    async get(id) {
      return get(reads, id);
    },

    async byName(username) {
      const [row] = await reads.run(userByName, [username]);
      return row === undefined ? undefined : record(row);
    },

    forIdentity: forIdentityBy(identities.immediate),
    batched: { forIdentity: forIdentityBy(identities.batched) },

    async remove(id, by) {
      const { right, audit } = by;
      const user = await get(reads, id);
      const changed = new Map<OrganizationId, number>();
      // Somebody may add the user elsewhere meanwhile: leave, then look again under a lock that keeps others from it.
      for (let attempt = 0; attempt < 5; attempt += 1) {
        const places = await reads.run(belongsTo, [id]);
        if (places.some(({ is_last_owner }) => is_last_owner)) return refuse({ code: 'last_owner' });
        for (const { org_id } of places) {
          const org = parseOrganizationId(org_id);
          const { revision } = await members.remove(org, { ...by, user_id: id, tests: 'report' }, id);
          if (revision !== undefined) changed.set(org, revision);
        }
        const ended = await transactions.run(async (tx) => {
          await holdRight(tx, right, now(context));
          await tx.run(lockUser, [id]);
          if ((await tx.run(belongsTo, [id])).length > 0) return undefined;
          await tx.run(hideUser, [id, now(context)]);
          if (audit !== undefined)
            await tx.run(insertAudit, [auditValue(context, audit, { ...auditSubject(user), before: shown(user) })]);
          return [...(await tx.run(revokeUserTokens, [id])), ...(await tx.run(endUserSessions, [id]))];
        });
        if (ended === undefined) continue;
        hints.tell({ credentials: ended.map((token) => parseTokenId(token.id)) });
        return { user, changed: [...changed].map(([organization_id, revision]) => ({ organization_id, revision })) };
      }
      return refuse({ code: 'unavailable' });
    },

    async bootstrap(admin) {
      return transactions.run(async (tx) => {
        await tx.run(lockBootstrap, []);
        if ((await tx.run(anyUser, [])).length > 0) return undefined;
        const id = parseUserId(context.newId());
        await tx.run(insertUser, [id, admin.username, true, null, null, now(context), usernameKey(admin.username)]);
        const organization = await makeOrganization(context, tx, {
          owner: id,
          name: admin.organization,
          description: '',
        });
        await tx.run(insertToken, [
          context.newId(),
          Buffer.from(admin.token),
          id,
          'first administrator',
          'full',
          null,
          now(context),
        ]);
        return { user: await get(tx, id), organization };
      });
    },
  };
}
