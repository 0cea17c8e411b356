/** Owns users in the store: local users, users of an identity provider, and the first administrator. */
import { parseGroupId, parseUserId, type UserId } from '../../../policy/ids.ts';
import { usernameKey } from '../../../policy/names/username.ts';
import type { AuditSubject } from '../write/audit-entry.ts';
import { outsideOrganizations } from '../write/transaction.ts';
import { now } from '../write/stamp.ts';
import type { Runner } from '../postgres/connection.ts';
import { refuse } from '../../problems.ts';
import type { Context } from '../write/context.ts';
import { Coalescer, type CoalescedRead } from '../../scheduling/coalescer.ts';
import { makeOrganization } from './organizations.ts';
import type { UserRecord, OrganizationRecord } from '../data/records.ts';
import { pageValues, statement } from '../postgres/sql.ts';
import { insertToken } from '../write/token.ts';
import { removeUser, type RemoveUser, type RemovedUser } from './user-removal.ts';
import type { Authority } from '../data/actor.ts';
import type { Page } from '../data/page.ts';
import type { Digest } from '../data/tokens.ts';

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

/** Also one who is removed. Values: id, name; one of them is null. */
const findUser = statement<UserRow>('find_user', `${select} WHERE u.id = $1 OR u.username = $2`);
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
  const [row] = await runner.run(findUser, [id, null]);
  return row === undefined || row.removed ? refuse({ code: 'not_found', what: 'user' }) : record(row);
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

interface NamedIdentity extends Identity {
  readonly username: string;
}

export function usersIn(context: Context) {
  const { callers, reads, writes, transactions } = context;
  const identities = new Coalescer<Identity, UserRow | undefined>({
    async read(asked) {
      const values = [asked.map(({ issuer }) => issuer), asked.map(({ subject }) => subject)];
      const byNumber = new Map((await callers.run(usersByIdentity, values)).map((row) => [row.n, row]));
      return asked.map((_, index) => byNumber.get(index + 1));
    },
    nameOf: ({ issuer, subject }) => JSON.stringify([issuer, subject]),
  });
  const forIdentityBy =
    (ask: CoalescedRead<Identity, UserRow | undefined>) =>
    async ({ issuer, subject, username }: NamedIdentity): Promise<UserRecord> => {
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
    async create(user: { readonly username: string; readonly is_admin?: boolean }, by: Authority): Promise<UserRecord> {
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

    async list(query?: Page): Promise<readonly UserRecord[]> {
      return (await reads.run(listUsers, pageValues(query))).map((row) => record(row));
    },

    async get(id: UserId): Promise<UserRecord> {
      return get(reads, id);
    },

    async byName(username: string): Promise<UserRecord | undefined> {
      const [row] = await reads.run(findUser, [null, username]);
      return row === undefined || row.removed ? undefined : record(row);
    },

    /**
     * The user that an identity provider names, made at first sight. The username is what the provider suggests; taken by another,
     * it gets a short suffix. `user_removed` when the user was removed: it does not come back by signing in.
     */
    forIdentity: forIdentityBy(identities.immediate),
    batched: { forIdentity: forIdentityBy(identities.batched) },

    /**
     * Ends every token, every session and the sign-in in one transaction, and hides the user for good: its name and identity stay taken. Then it leaves its
     * organizations, each in a transaction of its own: as `members.remove`; or the organization is deleted or handed over, with the user's devices in it, to
     * somebody who then has to accept. Where an organization is in the way, the user stays hidden, and the removal can be repeated. `last_owner`
     * names the organizations before anything ends.
     */
    async remove(id: UserId, by: Authority, options: RemoveUser = {}): Promise<RemovedUser> {
      // Also one whose removal was interrupted.
      const [row] = await reads.run(findUser, [id, null]);
      if (row === undefined) return refuse({ code: 'not_found', what: 'user' });
      const user = record(row);
      const actor = { ...by, user_id: id, tests: 'report' } as const;
      return removeUser(context, { ...options, user, shown: shown(user), by: actor });
    },

    /** On a database without users makes the administrator, its organization and its token, once, however many servers start; else undefined. */
    async bootstrap(admin: {
      readonly username: string;
      readonly organization: string;
      readonly token: Digest;
    }): Promise<{ readonly user: UserRecord; readonly organization: OrganizationRecord } | undefined> {
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
        const of = [id, null, null, 'first administrator'];
        await tx.run(insertToken, [context.newId(), Buffer.from(admin.token), ...of, 'full', null, now(context)]);
        return { user: await get(tx, id), organization };
      });
    },
  };
}
