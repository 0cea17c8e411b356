/** Owns tokens in the store: the digests of their secrets, their users or devices, and when they were last used. */
import {
  parseDeviceId,
  parseOrganizationId,
  parseTokenId,
  parseUserId,
  type UserId,
  type OrganizationId,
  type TokenId,
} from '../../../policy/ids.ts';
import type { AuditSubject } from '../write/audit-entry.ts';
import { insertToken } from '../write/token.ts';
import { lockUser } from '../write/user-lock.ts';
import { outsideOrganizations } from '../write/transaction.ts';
import { drainWrites } from './drain-writes.ts';
import { refuse } from '../../problems.ts';
import type { Context } from '../write/context.ts';
import { now } from '../write/stamp.ts';
import type { Runner } from '../postgres/connection.ts';
import { Coalescer, type CoalescedRead } from '../../scheduling/coalescer.ts';
import type { Credential, TokenRecord, TokenScope } from '../data/records.ts';
import { noteRevoked } from '../schema/fragments.ts';
import { pageValues, statement, type Statement } from '../postgres/sql.ts';
import { type Subject, type VisibleSubject, subjectQuery, visibleSubject, type VisibleRow } from './access.ts';
import type { Digest, NewToken } from '../data/tokens.ts';
import type { Authority } from '../data/actor.ts';
import type { Page } from '../data/page.ts';

interface TokenRow {
  readonly id: string;
  readonly user_id: string;
  readonly org_id: string | null;
  readonly device_id: string | null;
  readonly name: string;
  readonly scope: TokenScope;
  readonly expires_at: string | null;
  readonly last_used_at: string | null;
  readonly created_at: string;
}

const columns = 'id, user_id, org_id, device_id, name, scope, expires_at, last_used_at, created_at';

interface AuthenticatedRow extends TokenRow {
  readonly username: string;
  readonly is_admin: boolean;
  readonly secret_since: string;
  readonly renewal_asked: boolean;
}

/** The tokens of the digests `d.hex` that are good at `$2`. `d.n` says which of them, from 1. */
const known = (asked: string, visible?: { readonly columns: string; readonly from: string }): string =>
  `SELECT d.n, t.id, t.user_id, t.org_id, t.device_id, t.scope, t.expires_at, coalesce(t.renewed_at, t.created_at) AS secret_since, t.renewal_asked, u.username, u.is_admin ${visible === undefined ? '' : `, ${visible.columns}`}
   FROM ${asked} JOIN tokens t ON t.digest = decode(d.hex, 'hex') JOIN users u ON u.id = t.user_id ${visible?.from ?? ''}
   WHERE (t.expires_at IS NULL OR t.expires_at > $2) AND u.removed_at IS NULL`;

type WithNumber<Row> = Row & { readonly n: number };

/** Values: digests in hexadecimal, now. */
const authenticate = statement<WithNumber<AuthenticatedRow>>(
  'authenticate',
  known('unnest($1::text[]) WITH ORDINALITY AS d (hex, n)'),
);

/** Values: digests in hexadecimal, now, an organization for each, a thing in it for each. */
function authenticateFor(kind: Subject['kind']): Statement<WithNumber<AuthenticatedRow & VisibleRow>> {
  // The same rule as `groupReader`: a device's token does not show the user's own groups.
  const reader = '(CASE WHEN t.device_id IS NULL THEN t.user_id END)';
  const seen = subjectQuery({ kind, org: 'd.org_id', id: 'd.id', user: 't.user_id', reader });
  const asked = 'unnest($1::text[], $3::uuid[], $4::uuid[]) WITH ORDINALITY AS d (hex, org_id, id, n)';
  return statement(`authenticate_for_${kind}`, known(asked, seen));
}
const authenticateForEach = { device: authenticateFor('device'), group: authenticateFor('group') } as const;

/** Values: user, after this id, limit, whether of devices (null: both). */
const listTokens = statement<TokenRow>(
  'list_tokens',
  `SELECT ${columns} FROM tokens WHERE user_id = $1 AND id > $2 AND coalesce((device_id IS NOT NULL) = $4::boolean, true) ORDER BY id LIMIT $3`,
);
const getToken = statement<TokenRow>('get_token', `SELECT ${columns} FROM tokens WHERE id = $1`);

const revoked = noteRevoked('id', 'gone');
const rotateToken = statement<TokenRow>(
  'rotate_token',
  `WITH gone AS (UPDATE tokens SET digest = $2, next_digest = NULL, renewal_asked = false, last_used_at = NULL WHERE id = $1 RETURNING ${columns}), log AS (${revoked}) SELECT * FROM gone`,
);
const askRenewal = statement<TokenRow>(
  'ask_renewal',
  `UPDATE tokens SET renewal_asked = true WHERE id = $1 AND device_id IS NOT NULL RETURNING ${columns}`,
);
/** Values: token, its present digest in hexadecimal, the digest of the secret that is to follow. */
const offerSecret = statement<never>(
  'offer_secret',
  `UPDATE tokens SET next_digest = $3 WHERE id = $1 AND digest = decode($2, 'hex') AND device_id IS NOT NULL`,
);
/** Whether a device offered a secret with this digest in hexadecimal. */
const offered = statement<{ readonly id: string }>(
  'offered_secret',
  `SELECT id FROM tokens WHERE next_digest = decode($1, 'hex')`,
);
/** Values: a digest in hexadecimal, now. */
const takeOffered = statement<{ readonly id: string }>(
  'take_offered_secret',
  `WITH gone AS (UPDATE tokens SET digest = next_digest, next_digest = NULL, renewed_at = $2, renewal_asked = false WHERE next_digest = decode($1, 'hex') RETURNING id),
     log AS (${revoked}) SELECT id FROM gone`,
);
/** One token, or those of a user. Values: id, user, whether those of its devices too, only those that have expired by then (null: all). */
export const endTokens = statement<TokenRow>(
  'end_tokens',
  `WITH gone AS (DELETE FROM tokens WHERE id = $1
     OR user_id = $2 AND ($3 OR device_id IS NULL) AND ($4::timestamptz IS NULL OR expires_at <= $4) RETURNING ${columns}),
   log AS (${revoked}) SELECT * FROM gone`,
);
const countTokens = statement<{ count: number }>(
  'count_tokens',
  'SELECT count(*) AS count FROM tokens WHERE user_id = $1 AND device_id IS NULL',
);
const recordUse = statement<never>(
  'record_use',
  `UPDATE tokens t SET last_used_at = u.at FROM unnest($1::uuid[], $2::timestamptz[]) AS u (id, at)
   WHERE t.id = u.id AND (t.last_used_at IS NULL OR t.last_used_at < u.at)`,
);

function record(row: TokenRow): TokenRecord {
  return {
    id: parseTokenId(row.id),
    kind: row.device_id === null ? 'user' : 'device',
    user_id: parseUserId(row.user_id),
    ...(row.device_id === null ? {} : { device_id: parseDeviceId(row.device_id) }),
    name: row.name,
    scope: row.scope,
    ...(row.expires_at === null ? {} : { expires_at: row.expires_at }),
    ...(row.last_used_at === null ? {} : { last_used_at: row.last_used_at }),
    created_at: row.created_at,
  };
}

function credential(row: AuthenticatedRow, digest: string): Credential {
  const common = {
    digest,
    token_id: parseTokenId(row.id),
    user_id: parseUserId(row.user_id),
    username: row.username,
    scope: row.scope,
    ...(row.expires_at === null ? {} : { expires_at: row.expires_at }),
  };
  if (row.device_id === null || row.org_id === null) return { kind: 'user', ...common, is_admin: row.is_admin };
  return {
    kind: 'device',
    ...common,
    device_id: parseDeviceId(row.device_id),
    organization_id: parseOrganizationId(row.org_id),
    secret_since: row.secret_since,
    renewal_asked: row.renewal_asked,
  };
}

const existing = (row: TokenRow | undefined): TokenRecord =>
  row === undefined ? refuse({ code: 'not_found', what: 'token' }) : record(row);

/** Uses seen since they were last written down: a request must not cost a write. */
export class UseLog {
  readonly #context: Context;
  /** By token: when, in milliseconds. */
  readonly #seen = new Map<string, number>();

  constructor(context: Context) {
    this.#context = context;
  }

  saw(id: string): void {
    this.#seen.set(id, this.#context.clock());
  }

  async flush(): Promise<void> {
    if (this.#seen.size === 0) return;
    const entries = [...this.#seen];
    this.#seen.clear();
    await this.#context.writes.run(recordUse, [
      entries.map(([id]) => id),
      entries.map(([, at]) => new Date(at).toISOString()),
    ]);
  }
}

/** Under the user's lock. Expired tokens make room first. */
async function checkCount(tx: Runner, context: Context, user: string): Promise<void> {
  const limit = context.quotas.tokens;
  const isFull = async (): Promise<boolean> => ((await tx.run(countTokens, [user]))[0]?.count ?? 0) >= limit;
  if (!(await isFull())) return;
  await tx.run(endTokens, [null, user, false, now(context)]);
  if (await isFull()) refuse({ code: 'limit_reached', what: 'tokens', limit });
}

interface TokenLookup {
  readonly hex: string;
  readonly org: string;
  readonly id: string;
}

const hexOf = (digest: Digest): string => Buffer.from(digest).toString('hex');

/** The row of each that was asked about, by its number. */
function inOrder<Row>(asked: readonly unknown[], rows: readonly WithNumber<Row>[]): readonly (Row | undefined)[] {
  const byNumber = new Map(rows.map((row) => [row.n, row]));
  return asked.map((_, index) => byNumber.get(index + 1));
}

const auditSubject = ({ id, name }: TokenRecord): AuditSubject => ({ subject_id: id, org_id: null, name });
/** The secret is no part of a record. When a token was last used is not written by people. */
const shown = ({ last_used_at: _used, ...token }: TokenRecord): object => token;

export function tokensIn(context: Context, uses: UseLog) {
  const { callers, reads, writes, hints } = context;
  /** Resolves when nothing can be written by the token any more. */
  const ended = async (token: TokenRecord, { isDryRun }: Authority): Promise<TokenRecord> => {
    if (isDryRun === true) return token;
    hints.tell({ credentials: [token.id] });
    await drainWrites(context, token.user_id);
    return token;
  };
  const found = new Coalescer<string, AuthenticatedRow | undefined>({
    async read(digests) {
      return inOrder(digests, await callers.run(authenticate, [digests, now(context)]));
    },
  });
  /** Reads; an unknown secret that a device offered becomes its token's, and is read again. */
  const reading = async <Row>(hex: string, read: () => Promise<Row | undefined>): Promise<Row | undefined> => {
    const row = await read();
    if (row !== undefined || (await callers.run(offered, [hex])).length === 0) return row;
    const taken = await writes.run(takeOffered, [hex, now(context)]);
    hints.tell({ credentials: taken.map(({ id }) => parseTokenId(id)) });
    return read();
  };
  const authenticateBy =
    (ask: CoalescedRead<string, AuthenticatedRow | undefined>) =>
    async (digest: Digest): Promise<Credential | undefined> => {
      const hex = hexOf(digest);
      const row = await reading(hex, () => ask.get(hex));
      if (row === undefined) return undefined;
      uses.saw(row.id);
      return credential(row, hex);
    };
  const foundFor = (kind: Subject['kind']) =>
    new Coalescer<TokenLookup, (AuthenticatedRow & VisibleRow) | undefined>({
      nameOf: ({ hex, org, id }) => `${hex}/${org}/${id}`,
      // A group may be a megabyte. A lookup does not wait for the group of another.
      concurrent: true,
      async read(asked) {
        const values = [
          asked.map(({ hex }) => hex),
          now(context),
          asked.map(({ org }) => org),
          asked.map(({ id }) => id),
        ];
        return inOrder(asked, await callers.run(authenticateForEach[kind], values));
      },
    });
  const forEach = { device: foundFor('device'), group: foundFor('group') };
  const authenticateForBy =
    (timing: 'batched' | 'immediate') =>
    async (
      digest: Digest,
      { kind, org, id }: Subject,
    ): Promise<{ credential: Credential; visible: VisibleSubject } | undefined> => {
      const hex = hexOf(digest);
      const row = await reading(hex, () => forEach[kind][timing].get({ hex, org, id }));
      if (row === undefined) return undefined;
      uses.saw(row.id);
      return { credential: credential(row, hex), visible: visibleSubject(kind, row) };
    };
  return {
    /** Who this digest belongs to; undefined when unknown, revoked or expired. Its use is recorded lazily. */
    authenticate: authenticateBy(found.immediate),
    /** The same, with what `access` would say to it of the subject, in one read. */
    authenticateFor: authenticateForBy('immediate'),
    batched: { authenticate: authenticateBy(found.batched), authenticateFor: authenticateForBy('batched') },

    async issue(user: UserId, token: NewToken, by: Authority): Promise<TokenRecord> {
      const make = async (tx: Runner) => {
        await lockUser(tx, user);
        await checkCount(tx, context, user);
        const { digest, name, scope, expires_at: end } = token;
        const expires_at = end?.toISOString() ?? null;
        const [id, created_at] = [context.newId(), now(context)];
        await tx.run(insertToken, [id, Buffer.from(digest), user, null, null, name, scope, expires_at, created_at]);
        const of = { user_id: user, org_id: null, device_id: null };
        return record({ id, ...of, name, scope, expires_at, last_used_at: null, created_at });
      };
      return outsideOrganizations(context, by, make, (made) => ({ ...auditSubject(made), after: shown(made) }));
    },

    /** The user's own tokens and those of its devices, or only one of these kinds. */
    async list(
      user: UserId,
      query?: Page & { readonly kind?: TokenRecord['kind'] | undefined },
    ): Promise<readonly TokenRecord[]> {
      const ofDevices = query?.kind === undefined ? null : query.kind === 'device';
      return (await reads.run(listTokens, [user, ...pageValues(query), ofDevices])).map((row) => record(row));
    },

    async get(id: TokenId): Promise<TokenRecord> {
      return existing((await reads.run(getToken, [id]))[0]);
    },

    /** Gives the token another secret; the old one stops at once: when this resolves, nothing is written by it any more. */
    async rotate(id: TokenId, digest: Digest, by: Authority): Promise<TokenRecord> {
      const rotate = async (runner: Runner) => existing((await runner.run(rotateToken, [id, Buffer.from(digest)]))[0]);
      return ended(await outsideOrganizations(context, by, rotate, auditSubject), by);
    },

    /** Notes that the device is to renew the token by itself. The secret stays until then. `not_found` where it is a user's. */
    async askRenewal(
      id: TokenId,
      by: Authority,
    ): Promise<{ readonly token: TokenRecord; readonly organization: OrganizationId }> {
      const ask = async (runner: Runner) =>
        (await runner.run(askRenewal, [id]))[0] ?? refuse({ code: 'not_found', what: 'token' });
      const row = await outsideOrganizations(context, by, ask, (asked) => auditSubject(record(asked)));
      return { token: record(row), organization: parseOrganizationId(row.org_id ?? '') };
    },

    /**
     * A device with this credential has made another secret, with this digest. Whoever shows that secret first makes it the token's, and ends the one
     * before. A later offer replaces it.
     */
    async offerSecret(
      { token_id, digest }: Pick<Extract<Credential, { kind: 'device' }>, 'token_id' | 'digest'>,
      next: Digest,
    ): Promise<void> {
      await writes.run(offerSecret, [token_id, digest, Buffer.from(next)]);
    },

    /** Hints end the open streams of the token. When this resolves, no write with the token can still commit. */
    async revoke(id: TokenId, by: Authority): Promise<TokenRecord> {
      const revoke = async (runner: Runner) => existing((await runner.run(endTokens, [id, null, false, null]))[0]);
      const subject = (gone: TokenRecord) => ({ ...auditSubject(gone), before: shown(gone) });
      return ended(await outsideOrganizations(context, by, revoke, subject), by);
    },
  };
}
