/** Owns the requests to an identity provider: its endpoints, and the grants to obtain and revoke tokens. */
import { setTimeout as sleep } from 'node:timers/promises';
import * as oauth from 'oauth4webapi';
import { providerFetch, type ProviderFetch } from '../../node/provider-http.ts';
import { isSafeUrl } from '../../node/safe-url.ts';
import { CliError } from '../terminal/exit.ts';

/** The client that the server names for programs, at which provider, and what to ask there. */
export interface OAuthClient {
  readonly issuer: string;
  readonly client_id: string;
  readonly scopes: string;
  readonly parameters: Readonly<Record<string, string>>;
  /** The resource that the token is for (RFC 8707). Undefined where the provider must not receive it. */
  readonly resource?: string | undefined;
}

/** The part of it that is kept with a sign-in. */
type KnownClient = Pick<OAuthClient, 'issuer' | 'client_id' | 'resource'>;

export interface Tokens {
  readonly access_token: string;
  readonly refresh_token?: string;
  /** Milliseconds since the epoch; undefined when the provider does not say. */
  readonly expires_at?: number;
}

/** What a provider says of itself. */
export type Provider = oauth.AuthorizationServer;

const timeoutMs = 15_000;

const failure = (message: string): CliError => new CliError('failed', message);

/** Plain HTTP is judged by `providerFetch`, which knows which addresses are this machine's own. */
const request = (signal?: AbortSignal, fetch: ProviderFetch = providerFetch(globalThis.fetch, timeoutMs)) => ({
  [oauth.customFetch]: fetch,
  [oauth.allowInsecureRequests]: true as const,
  ...(signal === undefined ? {} : { signal }),
});

/** For the token endpoint. An ID token that comes along is not used: it must not be a reason to lose the tokens that came with it. */
const tokenRequest = ({ resource }: Pick<OAuthClient, 'resource'>, signal?: AbortSignal) => {
  const fetch = providerFetch(globalThis.fetch, timeoutMs);
  const asked = request(signal, async (url, init) => {
    const answer = await fetch(url, init);
    const body: unknown = await answer
      .clone()
      .json()
      .catch(() => undefined);
    if (typeof body !== 'object' || body === null || !('id_token' in body)) return answer;
    return Response.json({ ...body, id_token: undefined }, { status: answer.status });
  });
  return resource === undefined ? asked : { ...asked, additionalParameters: { resource } };
};

const clientOf = ({ client_id }: KnownClient): oauth.Client => ({ client_id });

/** Asks, and says in our own words what went wrong. */
async function exchange<T>(issuer: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  try {
    return await work();
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof CliError) throw error;
    if (error instanceof oauth.ResponseBodyError) throw refusal(error);
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    throw failure(
      `cannot reach the identity provider ${issuer}: ${cause instanceof Error ? cause.message : String(cause)}`,
    );
  }
}

/** What an error of the provider means, for the person who waits. */
function refusal({ error, error_description }: Pick<oauth.ResponseBodyError, 'error' | 'error_description'>): CliError {
  switch (error) {
    case 'access_denied':
      return new CliError('notAllowed', 'the sign-in was denied');
    case 'expired_token':
      return failure('the code expired; run `ringfence login` again');
    case 'invalid_target':
      return failure(
        'the identity provider does not know this server as a resource and issues no token for it; sign in with the server address that the provider knows, or name the resource with --audience',
      );
    case 'invalid_grant':
      return new CliError('notAllowed', 'your sign-in has ended; run `ringfence login` again');
    default: {
      const more = error_description === undefined ? '' : ` (${error_description.slice(0, 200)})`;
      return failure(`the identity provider refused: ${error.slice(0, 100)}${more}`);
    }
  }
}

export async function discover({ issuer }: Pick<OAuthClient, 'issuer'>, signal?: AbortSignal): Promise<Provider> {
  if (!isSafeUrl(issuer)) throw failure(`${issuer} is not a secure address for an identity provider; use https`);
  const identifier = new URL(issuer);
  return exchange(
    issuer,
    async () => {
      const answer = await oauth.discoveryRequest(identifier, request(signal));
      const provider = await oauth.processDiscoveryResponse(identifier, answer).catch(() => undefined);
      // The library compares addresses; an issuer is the same to the letter.
      if (provider?.issuer !== issuer) throw failure(`${issuer} does not describe itself as an identity provider`);
      return provider;
    },
    signal,
  );
}

type Endpoint = 'authorization_endpoint' | 'token_endpoint' | 'device_authorization_endpoint';

export function endpoint(provider: Provider, name: Endpoint): string {
  const address = provider[name];
  if (address === undefined || !isSafeUrl(address)) {
    throw failure(`the identity provider ${provider.issuer} does not offer this kind of sign-in`);
  }
  return address;
}

const tokensFrom = ({ access_token, refresh_token, expires_in }: oauth.TokenEndpointResponse): Tokens => ({
  access_token,
  ...(refresh_token === undefined ? {} : { refresh_token }),
  ...(expires_in === undefined ? {} : { expires_at: Date.now() + expires_in * 1000 }),
});

/** The request parameter that names the resource of the token. */
export const resourceOf = ({ resource }: Pick<OAuthClient, 'resource'>): { readonly resource?: string } =>
  resource === undefined ? {} : { resource };

export type DeviceCode = oauth.DeviceAuthorizationResponse;

/** RFC 8628 3.1. */
export async function askForCode(client: OAuthClient, provider: Provider, signal: AbortSignal): Promise<DeviceCode> {
  endpoint(provider, 'device_authorization_endpoint');
  const asked = { ...client.parameters, ...resourceOf(client), scope: client.scopes };
  const own = clientOf(client);
  return exchange(
    client.issuer,
    async () => {
      const answer = await oauth.deviceAuthorizationRequest(provider, own, oauth.None(), asked, request(signal));
      const code = await oauth.processDeviceAuthorizationResponse(provider, own, answer);
      if (!isSafeUrl(code.verification_uri)) throw failure('the identity provider sent no secure address for the code');
      const { verification_uri_complete, ...rest } = code;
      const isSafe = verification_uri_complete !== undefined && isSafeUrl(verification_uri_complete);
      return isSafe ? code : rest;
    },
    signal,
  );
}

/** RFC 8628 3.4: asks at the provider's pace until somebody has agreed or refused, or the code is too old. */
export async function awaitCode(
  client: OAuthClient,
  provider: Provider,
  code: DeviceCode,
  signal: AbortSignal,
): Promise<Tokens> {
  endpoint(provider, 'token_endpoint');
  const own = clientOf(client);
  const until = Date.now() + code.expires_in * 1000;
  for (let seconds = Math.max(1, code.interval ?? 5); Date.now() < until;) {
    await sleep(seconds * 1000, undefined, { signal });
    try {
      const answer = await oauth.deviceCodeGrantRequest(
        provider,
        own,
        oauth.None(),
        code.device_code,
        tokenRequest(client, signal),
      );
      return tokensFrom(await oauth.processDeviceCodeResponse(provider, own, answer));
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof oauth.WWWAuthenticateChallengeError) throw refusal({ error: error.message });
      // A provider that cannot be reached for a moment is asked again, more slowly.
      if (!(error instanceof oauth.ResponseBodyError) || error.error === 'slow_down') seconds += 5;
      else if (error.error !== 'authorization_pending') throw refusal(error);
    }
  }
  throw refusal({ error: 'expired_token' });
}

/** What came back with the browser: from this provider (RFC 9207), and no failure. */
export function readAnswer(client: OAuthClient, provider: Provider, given: URLSearchParams, state: string) {
  try {
    return oauth.validateAuthResponse(provider, clientOf(client), given, state);
  } catch (error) {
    if (error instanceof oauth.AuthorizationResponseError) {
      const { error: code, error_description } = error;
      throw refusal({ error: code, ...(error_description !== undefined && { error_description }) });
    }
    throw new CliError('notAllowed', 'the identity provider refused');
  }
}

/** Redeems the code that came back to this program. */
export async function redeem(
  client: OAuthClient,
  provider: Provider,
  given: { readonly answer: URLSearchParams; readonly redirectUri: string; readonly verifier: string },
  signal: AbortSignal,
): Promise<Tokens> {
  endpoint(provider, 'token_endpoint');
  const own = clientOf(client);
  return exchange(
    client.issuer,
    async () => {
      const answer = await oauth.authorizationCodeGrantRequest(
        provider,
        own,
        oauth.None(),
        given.answer,
        given.redirectUri,
        given.verifier,
        tokenRequest(client, signal),
      );
      return tokensFrom(await oauth.processAuthorizationCodeResponse(provider, own, answer));
    },
    signal,
  );
}

/** Not to be interrupted: a provider may have taken the old refresh token back already. */
export async function refresh(client: KnownClient, refresh_token: string): Promise<Tokens> {
  const provider = await discover(client);
  endpoint(provider, 'token_endpoint');
  const own = clientOf(client);
  return exchange(client.issuer, async () => {
    const answer = await oauth.refreshTokenGrantRequest(
      provider,
      own,
      oauth.None(),
      refresh_token,
      tokenRequest(client),
    );
    return { refresh_token, ...tokensFrom(await oauth.processRefreshTokenResponse(provider, own, answer)) };
  });
}

/** Takes a refresh token back at the provider (RFC 7009); false where the provider offers no way. */
export async function revoke(client: KnownClient, refresh_token: string, signal: AbortSignal): Promise<boolean> {
  const provider = await discover(client, signal);
  const address = provider.revocation_endpoint;
  if (address === undefined || !isSafeUrl(address)) return false;
  return exchange(
    client.issuer,
    async () => {
      const answer = await oauth.revocationRequest(provider, clientOf(client), oauth.None(), refresh_token, {
        ...request(signal),
        additionalParameters: { token_type_hint: 'refresh_token' },
      });
      return answer.status === 200;
    },
    signal,
  );
}
