/** Owns the interface of browser sessions in the store. */
import type { TokenId, UserId } from '../../../policy/ids.ts';
import type { SessionProvider, SessionRecord } from './records.ts';
import type { Digest } from './tokens.ts';

export interface Sessions {
  /** `not_found` for a user who is no longer there. */
  begin(
    user: UserId,
    session: {
      readonly digest: Digest;
      readonly provider: SessionProvider;
      readonly sealed?: Uint8Array | undefined;
      readonly expires_at: Date;
    },
  ): Promise<TokenId>;
  /** The session of this digest; undefined when unknown, ended, expired, or not seen for longer than `idleMs`. That it was seen is recorded lazily. */
  authenticate(digest: Digest, idleMs: number): Promise<SessionRecord | undefined>;
  /**
   * Takes the turn to ask the provider: gives what was sealed to one caller of all servers, undefined to the others and where nothing
   * was sealed.
   */
  takeCheck(session: Pick<SessionRecord, 'id' | 'checked_at'>): Promise<Uint8Array | undefined>;
  reseal(id: TokenId, sealed: Uint8Array): Promise<void>;
  /** What was sealed; undefined when nothing was or the session has ended. */
  sealed(id: TokenId): Promise<Uint8Array | undefined>;
  /** Hints end the open streams of the session. When this resolves, no write with the session can still commit. */
  end(id: TokenId): Promise<void>;
  endAllOf(user: UserId): Promise<void>;
  /** Ends the sessions of every other provider and client. */
  endAllBut(provider: SessionProvider): Promise<void>;
  /** Takes the ticket of a sign-in, by its digest: true for one caller of all servers, false for every later one. It is kept until then. */
  takeTicket(digest: Digest, until: Date): Promise<boolean>;
}
