/**
 * Owns what the server knows of one identity provider: its discovery document and its signing keys.
 *
 * The server fetches both when a token first needs them, never at start. It keeps the keys, so that it can verify
 * tokens while the provider cannot be reached. An unknown key id, as after a rotation, makes it fetch them again. Only
 * one fetch runs at a time, with a time limit and a growing pause after failures, so that a flood of forged key ids
 * does not become a flood of fetches.
 */
import { createLocalJWKSet, errors, type JSONWebKeySet, type JWTVerifyGetKey } from 'jose';
import {
  allowInsecureRequests,
  customFetch,
  discoveryRequest,
  processDiscoveryResponse,
  type AuthorizationServer,
} from 'oauth4webapi';
import { providerFetch, type Fetch, type ProviderFetch } from '../../node/provider-http.ts';

export interface IssuerOptions {
  /** As the provider writes it; the `iss` of its tokens, to the letter. */
  readonly issuer: string;
  readonly clock: () => number;
  readonly fetch?: Fetch;
  readonly settings?: Partial<IssuerSettings>;
  readonly onWarning?: ((message: string, cause: unknown) => void) | undefined;
}

export interface IssuerSettings {
  /** Keys older than this are fetched again before use. */
  readonly freshMs: number;
  /** Keys older than this are no longer trusted, should no fetch succeed: a withdrawn key must end at some time. */
  readonly trustMs: number;
  /** The least time between two fetches for unknown key ids. */
  readonly cooldownMs: number;
  /** Pauses after a failure: the first, and the longest. */
  readonly retryMs: number;
  readonly retryMostMs: number;
  readonly timeoutMs: number;
}

const issuerSettings: IssuerSettings = {
  freshMs: 600_000,
  trustMs: 86_400_000,
  cooldownMs: 10_000,
  retryMs: 1_000,
  retryMostMs: 60_000,
  timeoutMs: 5_000,
};

/** The provider cannot be asked, and nothing kept helps: the token is neither good nor bad. */
export class IssuerUnavailable extends Error {
  readonly retryAfterSeconds: number;

  constructor(issuer: string, retryAfterMs: number, cause: unknown) {
    super(`cannot reach the identity provider ${issuer}`, { cause });
    this.name = 'IssuerUnavailable';
    this.retryAfterSeconds = Math.max(1, Math.ceil(retryAfterMs / 1000));
  }
}

export class Issuer {
  readonly issuer: string;
  readonly #clock: () => number;
  readonly #fetch: ProviderFetch;
  readonly #settings: IssuerSettings;
  readonly #warn: (message: string, cause: unknown) => void;
  #keys: { readonly find: JWTVerifyGetKey; readonly at: number } | undefined;
  #document: AuthorizationServer | undefined;
  #fetching: Promise<void> | undefined;
  #failures = 0;
  #failure: unknown;
  /** Not before this moment is a provider that failed asked again. */
  #pausedUntil = Number.NEGATIVE_INFINITY;

  constructor(options: IssuerOptions) {
    this.issuer = options.issuer;
    this.#clock = options.clock;
    this.#settings = { ...issuerSettings, ...options.settings };
    this.#fetch = providerFetch(options.fetch ?? globalThis.fetch, this.#settings.timeoutMs);
    this.#warn = options.onWarning ?? (() => {});
  }

  /** Finds the key that a token names. Fails with `IssuerUnavailable`, or as `jose` does when the provider has no such key. */
  readonly keyFor: JWTVerifyGetKey = async (header, token) => {
    const { freshMs, trustMs, cooldownMs } = this.#settings;
    if (this.#age() > freshMs) await this.#refresh();
    const keys = this.#keys;
    if (keys === undefined || this.#age() > trustMs) throw this.#unavailable();
    try {
      return await keys.find(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey) || this.#age() < cooldownMs) throw error;
      await this.#refresh();
      return (this.#keys ?? keys).find(header, token);
    }
  };

  /** The provider's discovery document. Fails with `IssuerUnavailable`. */
  async document(): Promise<AuthorizationServer> {
    if (this.#age() > this.#settings.freshMs) await this.#refresh();
    if (this.#document === undefined) throw this.#unavailable();
    return this.#document;
  }

  #age(): number {
    return this.#keys === undefined ? Number.POSITIVE_INFINITY : this.#clock() - this.#keys.at;
  }

  #unavailable(): IssuerUnavailable {
    return new IssuerUnavailable(this.issuer, this.#pausedUntil - this.#clock(), this.#failure);
  }

  /** Fetches the keys unless the provider has just failed. Concurrent callers share one fetch. */
  async #refresh(): Promise<void> {
    if (this.#fetching === undefined) {
      if (this.#clock() < this.#pausedUntil) return;
      this.#fetching = this.#fetchKeys().finally(() => (this.#fetching = undefined));
    }
    await this.#fetching;
  }

  async #fetchKeys(): Promise<void> {
    const { retryMs, retryMostMs } = this.#settings;
    try {
      const keys = await this.#discover();
      this.#keys = { find: createLocalJWKSet(keys), at: this.#clock() };
      this.#failures = 0;
    } catch (cause) {
      this.#failure = cause;
      this.#pausedUntil = this.#clock() + Math.min(retryMostMs, retryMs * 2 ** this.#failures);
      this.#failures += 1;
      this.#warn(`cannot fetch the keys of the identity provider ${this.issuer}`, cause);
    }
  }

  async #discover(): Promise<JSONWebKeySet> {
    const identifier = new URL(this.issuer);
    // Plain HTTP is judged by `providerFetch`, which knows which addresses are this machine's own.
    const asked = await discoveryRequest(identifier, { [customFetch]: this.#fetch, [allowInsecureRequests]: true });
    const document = await processDiscoveryResponse(identifier, asked);
    // OpenID Connect Discovery 4.3: another issuer's document must not vouch for this one. The library compares URLs; tokens are to the letter.
    if (document.issuer !== this.issuer) throw new Error('the discovery document names another issuer');
    const uri = document.jwks_uri;
    if (uri === undefined) throw new Error('the discovery document names no jwks_uri');
    const answer = await this.#fetch(uri, { headers: { accept: 'application/json' } });
    if (answer.status !== 200) throw new Error(`${uri} answered ${answer.status}`);
    const keySet: unknown = await answer.json();
    const keys = typeof keySet === 'object' && keySet !== null && 'keys' in keySet ? keySet.keys : undefined;
    if (!Array.isArray(keys)) throw new Error('the key set has no keys');
    this.#document = document;
    return { keys: keys as JSONWebKeySet['keys'] };
  }
}
