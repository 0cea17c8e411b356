/**
 * Owns the sign-in of people at an identity provider: authorization code with PKCE, done by the server, so that no
 * token of the provider ever reaches a script in a browser (reference 5 (12)).
 */
import { jwtVerify, type JWTPayload } from 'jose';
import * as oauth from 'oauth4webapi';
import { isSafeUrl } from '../../node/safe-url.ts';
import { IssuerUnavailable, type Issuer } from './issuer.ts';
import { algorithms, isDistinct, isFromFuture, nameFrom, provenBy, type ProvenClaims } from './oidc.ts';
import { providerFetch, type Fetch, type ProviderFetch } from '../../node/provider-http.ts';
import type { SessionProvider } from '../store/data/records.ts';
import { digestOf, type Random } from './secret.ts';
import { isSame, newTicket, readTicket, safeReturn, type Ticket } from './ticket.ts';

export interface RelyingPartyOptions {
  readonly issuer: Issuer;
  readonly clientId: string;
  /** Absent for a public client. */
  readonly clientSecret?: string | undefined;
  /** The URL to which the provider sends people back. */
  readonly redirectUri: () => string;
  /** The URL to which the provider sends people after signing out there. */
  readonly homeUri: () => string;
  readonly scopes: string;
  readonly usernameClaim: string;
  readonly toleranceSeconds: number;
  readonly clock: () => number;
  readonly random: Random;
  /** Takes a ticket, by its digest: false when it was taken before, at whatever server. */
  readonly takeTicket: (digest: Uint8Array, until: Date) => Promise<boolean>;
  readonly fetch?: Fetch;
}

/** The parts of the provider's answer that are needed later. */
export interface Grant {
  readonly id_token: string;
  readonly refresh_token?: string;
}

export interface SignedIn {
  readonly identity: { readonly issuer: string; readonly subject: string; readonly username: string };
  /** What an invitation may name. */
  readonly proven: ProvenClaims;
  readonly grant: Grant;
  readonly returnTo: string;
}

/**
 * Why somebody is not signed in, in words for that person. `retry`: the provider cannot be asked right now. `guess`:
 * the provider did not give this code, or not for this sign-in.
 */
export class SignInError extends Error {
  readonly code: 'stale' | 'denied' | 'refused' | 'retry' | 'guess';

  constructor(code: SignInError['code'], message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'SignInError';
    this.code = code;
  }
}

const timeoutMs = 10_000;
const stale = 'This sign-in has expired, started in another browser, or is already finished. Start it again.';

/** The failure as the provider wrote it, where it wrote one. */
const errorOf = (error: unknown): string | undefined =>
  error instanceof oauth.ResponseBodyError || error instanceof oauth.AuthorizationResponseError
    ? error.error
    : undefined;

export class RelyingParty {
  readonly #options: RelyingPartyOptions;
  readonly #request: { readonly [oauth.customFetch]: ProviderFetch; readonly [oauth.allowInsecureRequests]: true };

  constructor(options: RelyingPartyOptions) {
    this.#options = options;
    // Plain HTTP is judged by `providerFetch`, which knows which addresses are this machine's own.
    this.#request = {
      [oauth.customFetch]: providerFetch(options.fetch ?? globalThis.fetch, timeoutMs),
      [oauth.allowInsecureRequests]: true,
    };
  }

  /** What vouches for the sessions that begin here. */
  get provider(): SessionProvider {
    return { issuer: this.#options.issuer.issuer, client_id: this.#options.clientId };
  }

  /** The URL for the browser, and the ticket that it brings back. */
  async begin(returnTo: string | undefined): Promise<{ readonly location: string; readonly ticket: string }> {
    const { clientId, redirectUri, scopes, clock, random } = this.#options;
    const location = new URL(this.#endpoint(await this.#provider(), 'authorization_endpoint'));
    const ticket = newTicket(safeReturn(returnTo), { clock, random });
    const asked = {
      response_type: 'code',
      client_id: clientId,
      redirect_uri: redirectUri(),
      scope: scopes,
      state: ticket.state,
      nonce: ticket.nonce,
      code_challenge: ticket.challenge,
      code_challenge_method: 'S256',
    };
    for (const [name, value] of Object.entries(asked)) location.searchParams.set(name, value);
    return { location: location.href, ticket: ticket.text };
  }

  /** Takes what the provider sent back with the browser. Fails with `SignInError`. */
  async finish(ticketText: string | undefined, given: URLSearchParams): Promise<SignedIn> {
    const ticket = readTicket(ticketText, this.#options.clock);
    const state = given.getAll('state');
    if (ticket === undefined || state.length !== 1 || !isSame(ticket.state, state[0] ?? '')) {
      throw new SignInError('stale', stale);
    }
    const provider = await this.#provider();
    const answer = this.#readAnswer(provider, given, ticket);
    // Before the provider is asked: else one ticket would carry any number of invented codes there, with our secret.
    if (!(await this.#options.takeTicket(digestOf(ticket.text), ticket.until))) throw new SignInError('stale', stale);
    return this.#redeem(provider, answer, ticket);
  }

  /** Checks the answer that the browser brings back: it is from this provider (RFC 9207) and is not an error. */
  #readAnswer(provider: oauth.AuthorizationServer, given: URLSearchParams, ticket: Ticket): URLSearchParams {
    try {
      const answer = oauth.validateAuthResponse(provider, this.#client(), given, ticket.state);
      if (answer.getAll('code').length !== 1) throw new SignInError('stale', stale);
      return answer;
    } catch (cause) {
      if (cause instanceof SignInError) throw cause;
      const error = errorOf(cause);
      if (error === undefined)
        throw new SignInError('refused', 'The answer came from another identity provider.', cause);
      const why =
        error === 'access_denied' ? 'The sign-in was cancelled.' : 'The identity provider refused the sign-in.';
      throw new SignInError('denied', why, new Error(`the provider answered ${error.slice(0, 100)}`));
    }
  }

  async #redeem(provider: oauth.AuthorizationServer, answer: URLSearchParams, ticket: Ticket): Promise<SignedIn> {
    const { redirectUri, usernameClaim, issuer } = this.#options;
    this.#endpoint(provider, 'token_endpoint');
    const client = this.#client();
    const response = await oauth
      .authorizationCodeGrantRequest(
        provider,
        client,
        this.#proof(provider),
        answer,
        redirectUri(),
        ticket.verifier,
        this.#request,
      )
      .catch((cause: unknown) => {
        throw unavailable(cause);
      });
    const tokens = await oauth
      .processAuthorizationCodeResponse(provider, client, response, {
        expectedNonce: ticket.nonce,
        requireIdToken: true,
      })
      .catch((cause: unknown) => {
        if (errorOf(cause) === 'invalid_grant') throw new SignInError('guess', stale, cause);
        throw new SignInError('refused', 'The identity provider did not finish the sign-in.', cause);
      });
    const { id_token = '', access_token, refresh_token } = tokens;
    const claims = await this.#verify(id_token);
    const { sub: subject } = claims;
    if (!isDistinct(subject)) throw new SignInError('refused', 'The identity provider did not identify a user.');
    const saysAll = claims[usernameClaim] !== undefined && (claims['email'] !== undefined || !this.#asksForEmail);
    const described = saysAll ? {} : await this.#describe(provider, access_token, subject);
    const proven = { ...provenBy(described, usernameClaim), ...provenBy(claims, usernameClaim) };
    const username = nameFrom({ ...described, ...claims }, usernameClaim, subject, proven);
    const grant = { id_token, ...(refresh_token === undefined ? {} : { refresh_token }) };
    return { identity: { issuer: issuer.issuer, subject, username }, proven, grant, returnTo: ticket.returnTo };
  }

  get #asksForEmail(): boolean {
    return this.#options.scopes.split(' ').includes('email');
  }

  /** Whether the provider still accepts the grant: returns the renewed grant, `ended`, or `unknown` when the provider cannot answer. */
  async renew(grant: Grant): Promise<Grant | 'ended' | 'unknown'> {
    const { refresh_token } = grant;
    if (refresh_token === undefined) return 'unknown';
    try {
      const provider = await this.#provider();
      this.#endpoint(provider, 'token_endpoint');
      const client = this.#client();
      const response = await oauth.refreshTokenGrantRequest(
        provider,
        client,
        this.#proof(provider),
        refresh_token,
        this.#request,
      );
      // Read by hand: the library would judge the new ID token, which serves as a hint alone. A provider that it found fault with has
      // rotated the refresh token all the same, and the session would be lost.
      const body: unknown = await response.json();
      const textOf = (name: string): string | undefined => {
        const value = typeof body === 'object' && body !== null ? (body as Record<string, unknown>)[name] : undefined;
        return typeof value === 'string' && value !== '' ? value : undefined;
      };
      if (response.status !== 200) return textOf('error') === 'invalid_grant' ? 'ended' : 'unknown';
      return {
        id_token: textOf('id_token') ?? grant.id_token,
        refresh_token: textOf('refresh_token') ?? refresh_token,
      };
    } catch {
      return 'unknown';
    }
  }

  /** The URL that ends the provider's own session; undefined when the provider offers none. */
  async logoutLocation(grant: Grant | undefined): Promise<string | undefined> {
    const { clientId, homeUri, issuer } = this.#options;
    const provider = await issuer.document().catch(() => undefined);
    const place = provider?.end_session_endpoint;
    if (place === undefined || !isSafeUrl(place)) return undefined;
    const location = new URL(place);
    location.searchParams.set('client_id', clientId);
    location.searchParams.set('post_logout_redirect_uri', homeUri());
    if (grant !== undefined) location.searchParams.set('id_token_hint', grant.id_token);
    return location.href;
  }

  /** Takes the refresh token back at the provider, where that is possible. */
  async revoke({ refresh_token }: Grant): Promise<void> {
    if (refresh_token === undefined) return;
    const provider = await this.#provider();
    const place = provider.revocation_endpoint;
    if (place === undefined || !isSafeUrl(place)) return;
    await oauth.revocationRequest(provider, this.#client(), this.#proof(provider), refresh_token, {
      ...this.#request,
      additionalParameters: { token_type_hint: 'refresh_token' },
    });
  }

  /** Signature and times by the keys and the clock that this server keeps; the library has judged the rest of the claims. */
  async #verify(idToken: string): Promise<JWTPayload> {
    const { issuer, clientId, toleranceSeconds, clock } = this.#options;
    try {
      const { payload } = await jwtVerify(idToken, issuer.keyFor, {
        algorithms,
        issuer: issuer.issuer,
        audience: clientId,
        clockTolerance: toleranceSeconds,
        currentDate: new Date(clock()),
        requiredClaims: ['exp', 'iat', 'sub', 'nonce'],
      });
      // The library asks this of tokens for several audiences only.
      if (payload['azp'] !== undefined && payload['azp'] !== clientId) throw new Error('for another client');
      if (isFromFuture(payload, this.#options)) throw new Error('issued in the future');
      return payload;
    } catch (cause) {
      if (cause instanceof IssuerUnavailable) throw unavailable(cause);
      throw new SignInError('refused', 'The server cannot verify the answer of the identity provider.', cause);
    }
  }

  /** More about the person, where the ID token does not say enough. It is a name only: without it things go on. */
  async #describe(
    provider: oauth.AuthorizationServer,
    accessToken: string,
    subject: string,
  ): Promise<Readonly<Record<string, unknown>>> {
    const client = this.#client();
    try {
      const response = await oauth.userInfoRequest(provider, client, accessToken, this.#request);
      return await oauth.processUserInfoResponse(provider, client, subject, response);
    } catch {
      return {};
    }
  }

  /** This client as the library knows it, with our clock. */
  #client(): oauth.Client {
    const { clientId, toleranceSeconds, clock } = this.#options;
    const skew = Math.floor(clock() / 1000) - Math.floor(Date.now() / 1000);
    return { client_id: clientId, [oauth.clockSkew]: skew, [oauth.clockTolerance]: toleranceSeconds };
  }

  /** By its secret in the header, or in the form where the provider wants it there; a public client has none. */
  #proof({ token_endpoint_auth_methods_supported: methods }: oauth.AuthorizationServer): oauth.ClientAuth {
    const { clientSecret } = this.#options;
    if (clientSecret === undefined) return oauth.None();
    const inForm =
      methods !== undefined && !methods.includes('client_secret_basic') && methods.includes('client_secret_post');
    return inForm ? oauth.ClientSecretPost(clientSecret) : oauth.ClientSecretBasic(clientSecret);
  }

  /** The provider's metadata, with only the accepted signature algorithms. */
  async #provider(): Promise<oauth.AuthorizationServer> {
    try {
      const document = await this.#options.issuer.document();
      const offered = document.id_token_signing_alg_values_supported ?? algorithms;
      const accepted = offered.filter((name) => algorithms.includes(name));
      return { ...document, id_token_signing_alg_values_supported: accepted };
    } catch (cause) {
      throw unavailable(cause);
    }
  }

  #endpoint(provider: oauth.AuthorizationServer, name: 'authorization_endpoint' | 'token_endpoint'): string {
    const place = provider[name];
    if (place === undefined || !isSafeUrl(place)) {
      throw new SignInError('retry', 'The identity provider is not configured for sign-in.', new Error(`no ${name}`));
    }
    return place;
  }
}

const unavailable = (cause: unknown): SignInError =>
  new SignInError('retry', 'The server cannot reach the identity provider. Try again shortly.', cause);
