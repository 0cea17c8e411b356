/**
 * Owns the sign-in of people at an identity provider: authorization code with PKCE, done by the server, so that no token of the provider
 * ever reaches a script in a browser (reference 5 (12)).
 */
import { jwtVerify } from 'jose';
import { isSafeUrl } from '../safe-url.ts';
import { IssuerUnavailable, type Issuer } from './issuer.ts';
import { algorithms, longestName, nameFrom } from './oidc.ts';
import { askProvider, getJson, type Answered, type Json } from './provider-http.ts';
import type { Random } from './secret.ts';
import { isSame, newTicket, readTicket, safeReturn, type Ticket } from './ticket.ts';

export interface RelyingPartyOptions {
  readonly issuer: Issuer;
  readonly clientId: string;
  /** Absent for a public client. */
  readonly clientSecret?: string | undefined;
  /** Where the provider sends people back to. */
  readonly redirectUri: () => string;
  /** Where the provider sends people after signing out there. */
  readonly homeUri: () => string;
  readonly scopes: string;
  readonly usernameClaim: string;
  readonly toleranceSeconds: number;
  readonly clock: () => number;
  readonly random: Random;
  readonly fetch?: typeof globalThis.fetch;
}

/** What the provider gave, as far as it is needed later. */
export interface Grant {
  readonly id_token: string;
  readonly refresh_token?: string;
}

export interface SignedIn {
  readonly identity: { readonly issuer: string; readonly subject: string; readonly username: string };
  readonly grant: Grant;
  readonly returnTo: string;
}

/** Why somebody is not signed in, in words for that person. `retry`: the provider cannot be asked right now. */
export class SignInError extends Error {
  readonly code: 'stale' | 'denied' | 'refused' | 'retry';

  constructor(code: SignInError['code'], message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'SignInError';
    this.code = code;
  }
}

const timeoutMs = 10_000;
const stale = 'This sign-in was begun too long ago, in another browser, or was finished already. Begin it again.';

const textOf = (json: Json, name: string): string | undefined => {
  const value = json[name];
  return typeof value === 'string' && value !== '' ? value : undefined;
};

export class RelyingParty {
  readonly #options: RelyingPartyOptions;
  readonly #fetch: typeof globalThis.fetch;

  constructor(options: RelyingPartyOptions) {
    this.#options = options;
    this.#fetch = options.fetch ?? globalThis.fetch;
  }

  /** Where to send the browser, and the ticket that it is to bring back. */
  async begin(returnTo: string | undefined): Promise<{ readonly location: string; readonly ticket: string }> {
    const { clientId, redirectUri, scopes, clock, random } = this.#options;
    const location = new URL(await this.#endpoint('authorization_endpoint'));
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
    await this.#checkSender(given);
    const error = given.get('error');
    if (error !== null) {
      const why =
        error === 'access_denied' ? 'The sign-in was cancelled.' : 'The identity provider refused the sign-in.';
      throw new SignInError('denied', why, new Error(`the provider answered ${error.slice(0, 100)}`));
    }
    const code = given.getAll('code');
    if (code.length !== 1 || code[0] === undefined) throw new SignInError('stale', stale);
    return this.#redeem(code[0], ticket);
  }

  async #redeem(code: string, ticket: Ticket): Promise<SignedIn> {
    const { status, body } = await this.#askForTokens({
      grant_type: 'authorization_code',
      code,
      redirect_uri: this.#options.redirectUri(),
      code_verifier: ticket.verifier,
    });
    const idToken = textOf(body, 'id_token');
    if (status !== 200 || idToken === undefined) {
      const cause = new Error(`the token endpoint answered ${status} ${textOf(body, 'error') ?? ''}`);
      if (body['error'] === 'invalid_grant') throw new SignInError('stale', stale, cause);
      throw new SignInError('refused', 'The identity provider did not finish the sign-in.', cause);
    }
    const claims = await this.#verify(idToken, ticket.nonce);
    const subject = textOf(claims, 'sub') ?? '';
    if (subject === '' || subject.length > longestName) {
      throw new SignInError('refused', 'The identity provider names nobody.');
    }
    const { usernameClaim, issuer } = this.#options;
    const described = claims[usernameClaim] === undefined ? await this.#describe(body, subject) : {};
    const username = nameFrom({ ...described, ...claims }, usernameClaim, subject);
    const refresh = textOf(body, 'refresh_token');
    const grant = { id_token: idToken, ...(refresh === undefined ? {} : { refresh_token: refresh }) };
    return { identity: { issuer: issuer.issuer, subject, username }, grant, returnTo: ticket.returnTo };
  }

  /** Whether the provider still vouches: the grant as it is now, `ended`, or `unknown` when nobody can say. */
  async renew(grant: Grant): Promise<Grant | 'ended' | 'unknown'> {
    const { refresh_token } = grant;
    if (refresh_token === undefined) return 'unknown';
    try {
      const { status, body } = await this.#askForTokens({ grant_type: 'refresh_token', refresh_token });
      if (status === 200) {
        return {
          id_token: textOf(body, 'id_token') ?? grant.id_token,
          refresh_token: textOf(body, 'refresh_token') ?? refresh_token,
        };
      }
      return body['error'] === 'invalid_grant' ? 'ended' : 'unknown';
    } catch {
      return 'unknown';
    }
  }

  /** Where a browser ends the provider's own session; undefined where the provider offers no such place. */
  async logoutLocation(grant: Grant | undefined): Promise<string | undefined> {
    const { clientId, homeUri, issuer } = this.#options;
    const document = await issuer.document().catch((): Json => ({}));
    const place = textOf(document, 'end_session_endpoint');
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
    const place = textOf(await this.#options.issuer.document(), 'revocation_endpoint');
    if (place === undefined || !isSafeUrl(place)) return;
    await this.#post(place, { token: refresh_token, token_type_hint: 'refresh_token' });
  }

  /** RFC 9207: an answer of another provider must not be taken for one of this. */
  async #checkSender(given: URLSearchParams): Promise<void> {
    const { issuer } = this.#options;
    const iss = given.get('iss');
    const document = await this.#document();
    const needed = document['authorization_response_iss_parameter_supported'] === true;
    if (iss === null ? needed : iss !== issuer.issuer) {
      throw new SignInError('refused', 'The answer came from another identity provider.');
    }
  }

  async #verify(idToken: string, nonce: string): Promise<Json> {
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
      if (typeof payload['nonce'] !== 'string' || !isSame(payload['nonce'], nonce)) throw new Error('another nonce');
      const shared = Array.isArray(payload.aud) && payload.aud.length > 1;
      if (payload['azp'] === undefined ? shared : payload['azp'] !== clientId) throw new Error('for another client');
      return payload;
    } catch (cause) {
      if (cause instanceof IssuerUnavailable) throw unavailable(cause);
      throw new SignInError('refused', 'What the identity provider said cannot be believed.', cause);
    }
  }

  /** More about the person, where the ID token does not say enough. It is a name only: without it things go on. */
  async #describe(tokens: Json, subject: string): Promise<Json> {
    const place = textOf(await this.#document(), 'userinfo_endpoint');
    const token = textOf(tokens, 'access_token');
    if (place === undefined || token === undefined || !isSafeUrl(place)) return {};
    try {
      const ask = { url: place, fetch: this.#fetch, timeoutMs };
      const described = await getJson({ ...ask, authorization: `Bearer ${token}` });
      return described['sub'] === subject ? described : {};
    } catch {
      return {};
    }
  }

  async #askForTokens(form: Readonly<Record<string, string>>): Promise<Answered> {
    return this.#post(await this.#endpoint('token_endpoint'), form);
  }

  /** As this client: by its secret in the header, or in the form where the provider wants it there. */
  async #post(url: string, form: Readonly<Record<string, string>>): Promise<Answered> {
    const { clientId, clientSecret } = this.#options;
    const methods = (await this.#document())['token_endpoint_auth_methods_supported'];
    const inForm =
      Array.isArray(methods) && !methods.includes('client_secret_basic') && methods.includes('client_secret_post');
    const encoded = (text: string): string => encodeURIComponent(text).replaceAll('%20', '+');
    const basic =
      clientSecret === undefined || inForm
        ? undefined
        : `Basic ${Buffer.from(`${encoded(clientId)}:${encoded(clientSecret)}`).toString('base64')}`;
    const whole = {
      ...form,
      ...(basic === undefined ? { client_id: clientId } : {}),
      ...(clientSecret !== undefined && inForm ? { client_secret: clientSecret } : {}),
    };
    try {
      return await askProvider({ url, fetch: this.#fetch, timeoutMs, form: whole, authorization: basic });
    } catch (cause) {
      throw unavailable(cause);
    }
  }

  async #document(): Promise<Json> {
    try {
      return await this.#options.issuer.document();
    } catch (cause) {
      throw unavailable(cause);
    }
  }

  async #endpoint(name: 'authorization_endpoint' | 'token_endpoint'): Promise<string> {
    const place = textOf(await this.#document(), name);
    if (place === undefined || !isSafeUrl(place)) {
      throw new SignInError('retry', 'The identity provider is not set up for signing in.', new Error(`no ${name}`));
    }
    return place;
  }
}

const unavailable = (cause: unknown): SignInError =>
  new SignInError('retry', 'The identity provider cannot be reached right now. Try again shortly.', cause);
