/** Owns the talk with an identity provider: its endpoints, and the grants by which a program gets and gives back tokens. */
import { setTimeout as sleep } from 'node:timers/promises';
import { CliError } from '../terminal/exit.ts';

/** What the server tells of itself, and so what `login` asks the provider for. */
export interface OAuthClient {
  readonly issuer: string;
  readonly client_id: string;
  readonly scopes: string;
  readonly parameters: Readonly<Record<string, string>>;
}

export interface Tokens {
  readonly access_token: string;
  readonly refresh_token?: string;
  /** Milliseconds since the epoch; undefined when the provider does not say. */
  readonly expires_at?: number;
}

type Json = Readonly<Record<string, unknown>>;
export type Endpoints = Json;

const timeoutMs = 15_000;
const largest = 1 << 20;

/** Plain HTTP is for a provider on this machine only: whoever listens on the way would have the tokens. */
function isSafeUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const url = new URL(text);
  if (url.username !== '' || url.password !== '') return false;
  return (
    url.protocol === 'https:' || (url.protocol === 'http:' && /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname))
  );
}

const isSafe = (value: unknown): value is string => typeof value === 'string' && isSafeUrl(value);

const fault = (message: string): CliError => new CliError('failed', message);

async function exchange(url: string, form?: Readonly<Record<string, string>>, signal?: AbortSignal) {
  let answer: Response;
  try {
    answer = await fetch(url, {
      redirect: 'error',
      headers: { accept: 'application/json' },
      signal: AbortSignal.any([AbortSignal.timeout(timeoutMs), ...(signal === undefined ? [] : [signal])]),
      ...(form === undefined ? {} : { method: 'POST', body: new URLSearchParams(form) }),
    });
    const text = await answer.text();
    const value: unknown = text.length > largest ? undefined : JSON.parse(text === '' ? '{}' : text);
    if (typeof value !== 'object' || value === null) throw new Error('no record came');
    return { status: answer.status, body: value as Json };
  } catch (error) {
    signal?.throwIfAborted();
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    throw fault(
      `cannot ask the identity provider at ${url}: ${cause instanceof Error ? cause.message : String(cause)}`,
    );
  }
}

export async function discover({ issuer }: Pick<OAuthClient, 'issuer'>, signal?: AbortSignal): Promise<Endpoints> {
  if (!isSafeUrl(issuer)) throw fault(`${issuer} is no safe address for an identity provider`);
  const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
  const { status, body } = await exchange(url, undefined, signal);
  if (status !== 200 || body['issuer'] !== issuer)
    throw fault(`${issuer} does not describe itself as an identity provider`);
  return body;
}

export function endpoint(endpoints: Endpoints, name: string, issuer: string): string {
  const place = endpoints[name];
  if (!isSafe(place)) throw fault(`the identity provider ${issuer} does not offer this kind of sign-in`);
  return place;
}

function tokensFrom(body: Json): Tokens {
  const { access_token, refresh_token, expires_in } = body;
  if (typeof access_token !== 'string') throw fault('the identity provider gave no access token');
  return {
    access_token,
    ...(typeof refresh_token === 'string' ? { refresh_token } : {}),
    ...(typeof expires_in === 'number' ? { expires_at: Date.now() + expires_in * 1000 } : {}),
  };
}

/** What an error of the provider means, for the person who waits. */
function refusal(body: Json): CliError {
  const { error, error_description } = body;
  const more = typeof error_description === 'string' ? ` (${error_description.slice(0, 200)})` : '';
  switch (error) {
    case 'access_denied':
      return new CliError('notAllowed', 'the sign-in was denied');
    case 'expired_token':
      return fault('the code was not used in time; run `ringfence login` again');
    case 'invalid_grant':
      return new CliError('notAllowed', 'your sign-in has ended; run `ringfence login` again');
    default:
      return fault(`the identity provider refused: ${typeof error === 'string' ? error : 'no reason given'}${more}`);
  }
}

export interface DeviceCode {
  readonly device_code: string;
  readonly user_code: string;
  readonly verification_uri: string;
  readonly verification_uri_complete?: string;
  readonly expires_in: number;
  readonly interval: number;
}

/** RFC 8628 3.1. */
export async function askForCode(client: OAuthClient, endpoints: Endpoints, signal: AbortSignal): Promise<DeviceCode> {
  const url = endpoint(endpoints, 'device_authorization_endpoint', client.issuer);
  const form = { ...client.parameters, client_id: client.client_id, scope: client.scopes };
  const { status, body } = await exchange(url, form, signal);
  if (status !== 200) throw refusal(body);
  const { device_code, user_code, verification_uri, verification_uri_complete, expires_in, interval } = body;
  if (typeof device_code !== 'string' || typeof user_code !== 'string' || !isSafe(verification_uri)) {
    throw fault('the identity provider gave no code');
  }
  return {
    device_code,
    user_code,
    verification_uri,
    ...(isSafe(verification_uri_complete) ? { verification_uri_complete } : {}),
    expires_in: typeof expires_in === 'number' ? expires_in : 300,
    interval: typeof interval === 'number' ? interval : 5,
  };
}

/** RFC 8628 3.4: asks at the provider's pace until somebody has agreed or refused, or the code is too old. */
export async function awaitCode(
  client: OAuthClient,
  endpoints: Endpoints,
  code: DeviceCode,
  signal: AbortSignal,
): Promise<Tokens> {
  const url = endpoint(endpoints, 'token_endpoint', client.issuer);
  const until = Date.now() + code.expires_in * 1000;
  const form = {
    grant_type: 'urn:ietf:params:oauth:grant-type:device_code',
    device_code: code.device_code,
    client_id: client.client_id,
  };
  for (let seconds = Math.max(1, code.interval); Date.now() < until;) {
    await sleep(seconds * 1000, undefined, { signal });
    const answer = await exchange(url, form, signal).catch((error: unknown) => {
      signal.throwIfAborted();
      // A provider that cannot be reached for a moment is asked again, more slowly.
      if (error instanceof CliError) return undefined;
      throw error;
    });
    if (answer?.status === 200) return tokensFrom(answer.body);
    const error = answer?.body['error'];
    if (answer === undefined || error === 'slow_down') seconds += 5;
    else if (error !== 'authorization_pending') throw refusal(answer.body);
  }
  throw refusal({ error: 'expired_token' });
}

/** Redeems the code that came back to this program. */
export async function redeem(
  client: OAuthClient,
  endpoints: Endpoints,
  given: { readonly code: string; readonly redirect_uri: string; readonly code_verifier: string },
  signal: AbortSignal,
): Promise<Tokens> {
  const url = endpoint(endpoints, 'token_endpoint', client.issuer);
  const form = { grant_type: 'authorization_code', client_id: client.client_id, ...given };
  const { status, body } = await exchange(url, form, signal);
  if (status !== 200) throw refusal(body);
  return tokensFrom(body);
}

/** Not to be interrupted: a provider may have taken the old refresh token back already. */
export async function refresh(
  { issuer, client_id }: Pick<OAuthClient, 'issuer' | 'client_id'>,
  refresh_token: string,
): Promise<Tokens> {
  const url = endpoint(await discover({ issuer }), 'token_endpoint', issuer);
  const { status, body } = await exchange(url, { grant_type: 'refresh_token', client_id, refresh_token });
  if (status !== 200) throw refusal(body);
  return { refresh_token, ...tokensFrom(body) };
}

/** Takes a refresh token back at the provider (RFC 7009); false where the provider offers no way. */
export async function revoke(
  { issuer, client_id }: Pick<OAuthClient, 'issuer' | 'client_id'>,
  refresh_token: string,
  signal: AbortSignal,
): Promise<boolean> {
  const place = (await discover({ issuer }, signal))['revocation_endpoint'];
  if (!isSafe(place)) return false;
  const form = { client_id, token: refresh_token, token_type_hint: 'refresh_token' };
  return (await exchange(place, form, signal)).status === 200;
}
