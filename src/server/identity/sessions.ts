/** Owns browser sessions: how they begin, which user they belong to, how they are checked with the provider, and how they end. */
import type { TokenId, UserId } from '../../policy/ids.ts';
import type { Credential, SessionProvider, SessionRecord } from '../store/data/records.ts';
import type { Sessions } from '../store/accounts/sessions.ts';
import type { Store } from '../store/open.ts';
import type { Grant, RelyingParty } from './relying-party.ts';
import { seal, unseal } from './seal.ts';
import { digestOf, mint, type Random } from './secret.ts';

export interface SessionOptions {
  readonly store: Pick<Store, 'sessions'>;
  readonly party: RelyingParty;
  /** A session that is not used for this long is over. */
  readonly idleMs: number;
  /** A session is over after this time, however much it is used. */
  readonly lifetimeMs: number;
  /** How often the provider is asked whether it still vouches, where it gave a refresh token. */
  readonly checkMs: number;
  readonly clock: () => number;
  readonly random: Random;
  readonly onWarning: (message: string, cause: unknown) => void;
}

export interface BegunSession {
  readonly id: TokenId;
  /** For the cookie; kept nowhere else. */
  readonly secret: string;
}

const isSessionSecret = (text: string): boolean => /^rf_session_[\w-]{43}$/.test(text);

function readGrant(text: string | undefined): Grant | undefined {
  try {
    return text === undefined ? undefined : (JSON.parse(text) as Grant);
  } catch {
    return undefined;
  }
}

export class BrowserSessions {
  readonly #options: SessionOptions;
  /** Sessions about which the provider is being asked by this server. */
  readonly #checking = new Set<TokenId>();

  constructor(options: SessionOptions) {
    this.#options = options;
  }

  get #provider(): SessionProvider {
    return this.#options.party.provider;
  }

  /** What another provider vouched for counts no longer: after this, there are sessions of the present one only. */
  endThoseOfOthers(): Promise<void> {
    return this.#options.store.sessions.endAllBut(this.#provider);
  }

  async begin(user: UserId, grant: Grant): Promise<BegunSession> {
    const { store, random, clock, lifetimeMs } = this.#options;
    const { secret, digest } = mint('session', random);
    const id = await store.sessions.begin(user, {
      digest,
      provider: this.#provider,
      sealed: seal(secret, JSON.stringify(grant), random),
      expires_at: new Date(clock() + lifetimeMs),
    });
    return { id, secret };
  }

  /** The user of a session cookie; undefined for an unknown, ended or expired session, and for one of another provider. */
  async authenticate(
    secret: string,
    sessions: Pick<Sessions, 'authenticate'>,
  ): Promise<(Credential & { readonly kind: 'user' }) | undefined> {
    if (!isSessionSecret(secret)) return undefined;
    const { clock, idleMs, checkMs, onWarning } = this.#options;
    const session = await sessions.authenticate(digestOf(secret), idleMs);
    if (session === undefined || !this.#isOurs(session)) return undefined;
    if (clock() - Date.parse(session.checked_at) > checkMs && !this.#checking.has(session.id)) {
      this.#checking.add(session.id);
      // Runs beside the request, so that a slow provider does not delay it.
      this.#check(session, secret)
        .catch((cause: unknown) => onWarning('cannot check a session with the identity provider', cause))
        .finally(() => this.#checking.delete(session.id));
    }
    const { id, user_id, username, is_admin } = session;
    // Streams that the session opens end when it expires, also when it expires because it is idle.
    const idleAt = Date.parse(session.seen_at) + idleMs;
    const expires_at = new Date(Math.min(Date.parse(session.expires_at), idleAt)).toISOString();
    return { kind: 'user', token_id: id, by_session: true, user_id, username, is_admin, scope: 'full', expires_at };
  }

  /** Tokens of another provider, or of another client, go nowhere, and prove nothing. */
  #isOurs({ provider }: SessionRecord): boolean {
    const { issuer, client_id } = this.#provider;
    return provider?.issuer === issuer && provider.client_id === client_id;
  }

  /** One server asks, once: a provider may take a refresh token that comes twice for a stolen one. It answers sooner than the next check. */
  async #check(session: SessionRecord, secret: string): Promise<void> {
    const { store, party, random } = this.#options;
    const sealed = await store.sessions.takeCheck(session);
    const grant = sealed === undefined ? undefined : readGrant(unseal(secret, sealed));
    if (grant === undefined) return;
    const now = await party.renew(grant);
    if (now === 'ended') await store.sessions.end(session.id);
    else if (now !== 'unknown') await store.sessions.reseal(session.id, seal(secret, JSON.stringify(now), random));
  }

  /** Ends this session, or all sessions of its user. Returns the URL that ends the provider's own session. */
  async end(
    secret: string,
    { token_id, user_id }: { readonly token_id: TokenId; readonly user_id: UserId },
    everywhere: boolean,
  ): Promise<string | undefined> {
    const { store, party, onWarning } = this.#options;
    const sealed = await store.sessions.sealed(token_id);
    const grant = sealed === undefined ? undefined : readGrant(unseal(secret, sealed));
    await (everywhere ? store.sessions.endAllOf(user_id) : store.sessions.end(token_id));
    if (grant !== undefined) {
      party.revoke(grant).catch((cause: unknown) => onWarning('cannot revoke a refresh token', cause));
    }
    return party.logoutLocation(grant);
  }

  /** Ends the session of this cookie, if there is one. */
  async drop(secret: string): Promise<void> {
    const { store, idleMs } = this.#options;
    const session = isSessionSecret(secret) ? await store.sessions.authenticate(digestOf(secret), idleMs) : undefined;
    if (session !== undefined) await store.sessions.end(session.id);
  }
}
