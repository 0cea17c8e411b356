/** Owns browser sessions in the store: the digests of their secrets, their users, and when they end. */
import { parseTokenId, parseUserId, type TokenId, type UserId } from '../../../policy/ids.ts';
import { refuse } from '../../problems.ts';
import type { Context } from '../write/context.ts';
import { now } from '../write/stamp.ts';
import { Coalescer, type CoalescedRead } from '../../scheduling/coalescer.ts';
import { drainWrites } from './drain-writes.ts';
import { noteRevoked } from '../schema/fragments.ts';
import { statement } from '../postgres/sql.ts';
import type { Digest } from '../data/tokens.ts';
import type { SessionProvider, SessionRecord } from '../data/records.ts';

interface SessionRow {
  readonly id: string;
  readonly user_id: string;
  readonly username: string;
  readonly is_admin: boolean;
  readonly seen_at: string;
  readonly checked_at: string;
  readonly expires_at: string;
  readonly issuer: string | null;
  readonly client_id: string | null;
}

/** Values: id, digest, user, sealed, now, expiry, issuer, client. No row: no such user. */
const insertSession = statement<{ id: string }>(
  'insert_session',
  `INSERT INTO sessions (id, digest, user_id, sealed, created_at, seen_at, checked_at, expires_at, issuer, client_id)
   SELECT $1, $2, u.id, $4, $5, $5, $5, $6, $7, $8 FROM users u WHERE u.id = $3 AND u.removed_at IS NULL RETURNING id`,
);
/** Values: digests in hexadecimal, now. `n` says which of them, from 1. */
const findSessions = statement<SessionRow & { readonly n: number }>(
  'find_sessions',
  `SELECT d.n, s.id, s.user_id, u.username, u.is_admin, s.seen_at, s.checked_at, s.expires_at, s.issuer, s.client_id
   FROM unnest($1::text[]) WITH ORDINALITY AS d (hex, n) JOIN sessions s ON s.digest = decode(d.hex, 'hex') JOIN users u ON u.id = s.user_id
   WHERE s.expires_at > $2 AND u.removed_at IS NULL`,
);
const seeSession = statement<never>(
  'see_session',
  'UPDATE sessions SET seen_at = $2 WHERE id = $1 AND seen_at < $2::timestamptz',
);
/** Values: id, when it was last checked, now. One of those who ask at once gets the row. */
const takeCheck = statement<{ sealed: Buffer | null }>(
  'take_session_check',
  'UPDATE sessions SET checked_at = $3 WHERE id = $1 AND checked_at = $2 RETURNING sealed',
);
const reseal = statement<never>('reseal_session', 'UPDATE sessions SET sealed = $2 WHERE id = $1');
const getSealed = statement<{ sealed: Buffer | null }>('get_sealed', 'SELECT sealed FROM sessions WHERE id = $1');

const revoked = noteRevoked('id', 'gone');
/** Values: a session or null, a user or null. */
export const endSessions = statement<{ readonly id: string; readonly user_id: string }>(
  'end_sessions',
  `WITH gone AS (DELETE FROM sessions WHERE id = $1 OR user_id = $2 RETURNING id, user_id), log AS (${revoked}) SELECT id, user_id FROM gone`,
);
/** Values: issuer, client. */
const endOtherSessions = statement<{ id: string }>(
  'end_other_sessions',
  `WITH gone AS (DELETE FROM sessions WHERE (issuer, client_id) IS DISTINCT FROM ($1, $2) RETURNING id), log AS (${revoked}) SELECT id FROM gone`,
);
const takeTicket = statement<{ taken: boolean }>(
  'take_ticket',
  'INSERT INTO used_tickets (digest, until) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING true AS taken',
);

/** A request must not cost a write: being seen is written down this seldom, or four times within an idle time that is shorter. */
const seenEveryMs = 60_000;

export function sessionsIn(context: Context, onWarning: (message: string, cause: unknown) => void) {
  const { callers, reads, writes, hints, clock } = context;
  const tellEnded = (rows: readonly { readonly id: string }[]): void =>
    hints.tell({ credentials: rows.map(({ id }): TokenId => parseTokenId(id)) });
  const found = new Coalescer<string, SessionRow | undefined>({
    async read(digests) {
      const byNumber = new Map((await callers.run(findSessions, [digests, now(context)])).map((row) => [row.n, row]));
      return digests.map((_, index) => byNumber.get(index + 1));
    },
  });
  const authenticateBy =
    (ask: CoalescedRead<string, SessionRow | undefined>, { isUse }: { readonly isUse: boolean }) =>
    async (digest: Digest, idleMs: number): Promise<SessionRecord | undefined> => {
      const row = await ask.get(Buffer.from(digest).toString('hex'));
      if (row === undefined) return undefined;
      const idle = clock() - Date.parse(row.seen_at);
      if (idle >= idleMs) return undefined;
      if (isUse && idle > Math.min(seenEveryMs, idleMs / 4)) {
        writes
          .run(seeSession, [row.id, now(context)])
          .catch((cause: unknown) => onWarning('cannot save the last use of a session', cause));
      }
      const { issuer, client_id, ...session } = row;
      const provider = issuer === null || client_id === null ? undefined : { issuer, client_id };
      return { ...session, id: parseTokenId(row.id), user_id: parseUserId(row.user_id), provider };
    };
  return {
    /** `not_found` for a user who is no longer there. */
    async begin(
      user: UserId,
      {
        digest,
        provider,
        sealed,
        expires_at,
      }: {
        readonly digest: Digest;
        readonly provider: SessionProvider;
        readonly sealed?: Uint8Array | undefined;
        readonly expires_at: Date;
      },
    ): Promise<TokenId> {
      const id = context.newId();
      const values = [id, Buffer.from(digest), user, sealed === undefined ? null : Buffer.from(sealed)];
      const times = [now(context), expires_at.toISOString()];
      const made = await writes.run(insertSession, [...values, ...times, provider.issuer, provider.client_id]);
      return made.length === 0 ? refuse({ code: 'not_found', what: 'user' }) : parseTokenId(id);
    },

    /** The session of this digest; undefined when unknown, ended, expired, or not seen for longer than `idleMs`. That it was seen is recorded lazily. */
    authenticate: authenticateBy(found.immediate, { isUse: true }),
    // A stream that opens anew is no use by a person: it would keep an idle session for ever.
    batched: { authenticate: authenticateBy(found.batched, { isUse: false }) },

    /**
     * Takes the turn to ask the provider: gives what was sealed to one caller of all servers, undefined to the others and where nothing
     * was sealed.
     */
    async takeCheck({ id, checked_at }: Pick<SessionRecord, 'id' | 'checked_at'>): Promise<Uint8Array | undefined> {
      const [row] = await writes.run(takeCheck, [id, checked_at, now(context)]);
      return row?.sealed ?? undefined;
    },

    async reseal(id: TokenId, sealed: Uint8Array): Promise<void> {
      await writes.run(reseal, [id, Buffer.from(sealed)]);
    },

    /** What was sealed; undefined when nothing was or the session has ended. */
    async sealed(id: TokenId): Promise<Uint8Array | undefined> {
      return (await reads.run(getSealed, [id]))[0]?.sealed ?? undefined;
    },

    /** Hints end the open streams of the session. When this resolves, no write with the session can still commit. */
    async end(id: TokenId): Promise<void> {
      const gone = await writes.run(endSessions, [id, null]);
      tellEnded(gone);
      for (const { user_id } of gone) await drainWrites(context, user_id);
    },

    async endAllOf(user: UserId): Promise<void> {
      tellEnded(await writes.run(endSessions, [null, user]));
      await drainWrites(context, user);
    },

    /** Ends the sessions of every other provider and client. */
    async endAllBut({ issuer, client_id }: SessionProvider): Promise<void> {
      tellEnded(await writes.run(endOtherSessions, [issuer, client_id]));
    },

    /** Takes the ticket of a sign-in, by its digest: true for one caller of all servers, false for every later one. It is kept until then. */
    async takeTicket(digest: Digest, until: Date): Promise<boolean> {
      return (await writes.run(takeTicket, [Buffer.from(digest), until.toISOString()])).length > 0;
    },
  };
}

export type Sessions = ReturnType<typeof sessionsIn>;
