/**
 * Owns the sign-in at an identity provider from the command line: what the user sees, where the token goes, and what is
 * saved.
 */
import type { SignInMethods } from '../../api/sign-in.ts';
import { RingfenceError } from '../../client/error.ts';
import { signInMethods } from '../../client/sign-in.ts';
import { CliError, usageError } from '../terminal/exit.ts';
import { audiencesIn, isAddress, isResource, isSameAudience } from '../oauth/audience.ts';
import { signInByBrowser } from '../oauth/loopback.ts';
import { askForCode, awaitCode, discover, revoke, type OAuthClient, type Tokens } from '../oauth/provider.ts';
import type { Profile, Profiles, SignIn } from '../session/profile.ts';
import { clientOf, type Session } from '../session/session.ts';

/** A server may name none of these: they would change what is asked, or where the answer goes. */
const reserved =
  /^(request|request_uri|registration|redirect_uri|response_type|response_mode|client_id|client_secret|scope|state|nonce|prompt|code_challenge|code_challenge_method|id_token_hint|claims|authorization_details)$/i;

/** The provider that the server names for programs. Undefined where there is none, unless it is needed. */
export async function providerAt(session: Session, url: string, needed: boolean): Promise<OAuthClient | undefined> {
  let methods: SignInMethods;
  try {
    methods = await signInMethods(clientOf(url, undefined, { signal: session.signal }));
  } catch (error) {
    // A server of before identity providers does not say how to sign in.
    if (needed || !(error instanceof RingfenceError) || error.status !== 404) throw error;
    return undefined;
  }
  const { provider } = methods;
  if (provider?.command_line !== undefined) return readClient(url, provider.issuer, provider.command_line);
  if (needed) throw usageError(`${url} has no identity provider; sign in with a token: ringfence login --with-token`);
  return undefined;
}

type CommandLine = NonNullable<NonNullable<SignInMethods['provider']>['command_line']>;

/** What a server says is not believed: it may be anybody's. */
function readClient(url: string, issuer: unknown, { client_id, scopes, parameters }: CommandLine): OAuthClient {
  const told = Object.entries(parameters ?? {});
  const texts = [issuer, client_id, scopes, ...told.flat()];
  if (!texts.every((text) => typeof text === 'string') || typeof issuer !== 'string')
    throw new CliError('failed', `${url} sent sign-in settings that this program cannot read`);
  const bad = told.find(([name]) => reserved.test(name))?.[0];
  if (bad !== undefined)
    throw new CliError(
      'failed',
      `${url} asks to send \`${bad}\` to the provider; a server may not choose this parameter`,
    );
  return { issuer, client_id, scopes, parameters: Object.fromEntries(told) };
}

const minutes = (seconds: number): string => {
  const whole = Math.max(1, Math.round(seconds / 60));
  return whole === 1 ? 'a minute' : `${whole} minutes`;
};

export interface SignInRequest {
  readonly server: string;
  /** What the person says tokens for this server name. */
  readonly audience: string | undefined;
  readonly way: 'device' | 'browser';
  /** All profiles as they are, and the one that is to be written. */
  readonly stored: Profiles;
  readonly profile: string;
}

/** Signs in, whatever way; nothing is kept, and nothing sent to the server, before it has succeeded. */
export async function signInAt(
  session: Session,
  offered: OAuthClient,
  asked: SignInRequest,
): Promise<Pick<Profile, 'token' | 'sign_in' | 'confirmed'>> {
  const { server, way } = asked;
  const before = knownPair(offered, asked);
  const wanted = asked.audience ?? before?.audience ?? server;
  const client = withResource(offered, asked.audience ?? before?.resource, server);
  showPair(session, client, server);
  if (before === undefined) {
    const question = `Send your token from ${client.issuer} to ${server}?`;
    if (!(await session.confirm(question))) throw new CliError('failed', 'sign-in canceled; the token was not sent');
  }
  const tokens = await tokensBy(session, client, way);
  const audience = await audienceFor(session, client, tokens, { ...asked, wanted }).catch(async (error: unknown) => {
    // A sign-in that is not used is ended.
    if (tokens.refresh_token !== undefined)
      await revoke(client, tokens.refresh_token, session.signal).catch(() => undefined);
    throw error;
  });
  const { issuer, client_id, scopes, resource } = client;
  return {
    token: tokens.access_token,
    confirmed: { issuer, client_id, scopes, audience, ...(resource !== undefined && { resource }) },
    sign_in: keep(client, tokens),
  };
}

/** What the person agreed to before, where the server still says the same. */
function knownPair({ issuer, client_id, scopes }: OAuthClient, { server, stored, profile }: SignInRequest) {
  const before = Object.hasOwn(stored.profiles, profile) ? stored.profiles[profile] : undefined;
  const confirmed = before?.server === server ? before.confirmed : undefined;
  const isSame = confirmed?.issuer === issuer && confirmed.client_id === client_id && confirmed.scopes === scopes;
  return isSame ? confirmed : undefined;
}

/**
 * Requests a token for this server. If the server names its resource differently, the user is asked about it. `none` is
 * for a provider that must not receive a resource.
 */
function withResource(client: OAuthClient, given: string | undefined, server: string): OAuthClient {
  const { resource: named, ...parameters } = client.parameters;
  const resource = given ?? named ?? server;
  return { ...client, parameters, ...(named !== 'none' && isResource(resource) && { resource }) };
}

/** Where the person signs in, and where the token goes. */
function showPair({ terminal }: Session, client: OAuthClient, server: string): void {
  const { issuer, client_id, scopes, resource, parameters } = client;
  const more = Object.entries(parameters).map(([name, value]) => `${name}=${value}`);
  terminal.note(`${server} asks you to sign in at an identity provider:`);
  terminal.note(`  provider  ${issuer}`);
  terminal.note(`  client    ${client_id}`);
  terminal.note(`  scopes    ${scopes}`);
  if (resource !== undefined) terminal.note(`  resource  ${resource}`);
  if (more.length > 0) terminal.note(`  more      ${more.join(', ')}`);
  terminal.note(`  After you sign in there, this program sends your token to ${server}.`);
}

async function tokensBy(
  { terminal, signal }: Session,
  client: OAuthClient,
  way: SignInRequest['way'],
): Promise<Tokens> {
  const provider = await discover(client, signal);
  if (way === 'browser') {
    const show = (address: string): void => {
      terminal.note('To sign in, open this address in a browser on this machine:');
      terminal.note(`  ${address}`);
    };
    return signInByBrowser(client, provider, { show, signal });
  }
  const code = await askForCode(client, provider, signal);
  terminal.note(`To sign in, open ${code.verification_uri} in any browser and enter the code`);
  terminal.note(`  ${terminal.paintError('bold', code.user_code)}`);
  if (code.verification_uri_complete !== undefined) terminal.note(`or open ${code.verification_uri_complete}`);
  terminal.note(`Waiting for you to sign in. The code expires in ${minutes(code.expires_in)}. Press Ctrl-C to cancel.`);
  return awaitCode(client, provider, code, signal);
}

/**
 * Whom the token names, where that is this server. A server that gets a token for another one can use it there, so a token that is meant
 * for another address, or that cannot be read, is never sent. A name that is no address says nothing: then the person decides.
 */
async function audienceFor(
  { terminal, signal }: Session,
  { issuer }: OAuthClient,
  { access_token }: Tokens,
  { server, audience, wanted, stored }: SignInRequest & { readonly wanted: string },
): Promise<string> {
  const audiences = audiencesIn(access_token);
  if (audiences === undefined) {
    throw new CliError(
      'notAllowed',
      `${issuer} issued a token without an audience; it was not sent to ${server}, because a server cannot verify such a token`,
    );
  }
  if (audiences.some((one) => isSameAudience(one, wanted))) return wanted;
  const [first = ''] = audiences;
  const told = audiences.join(', ');
  const refusal = `the token is meant for ${told}, not for ${audience ?? server}; it was not sent`;
  const remedy = `If ${server} is that server, run: ringfence login ${server} --audience ${first}`;
  const elsewhere = Object.entries(stored.profiles).find(
    ([, { server: other, confirmed }]) =>
      other !== server &&
      confirmed?.issuer === issuer &&
      audiences.some((one) => isSameAudience(one, confirmed.audience)),
  );
  if (elsewhere !== undefined) {
    const [name, { server: other }] = elsewhere;
    throw new CliError('notAllowed', `${refusal}: ${other} (profile ${name}) takes it too`, [remedy]);
  }
  if (audience !== undefined || audiences.some(isAddress) || !terminal.isInteractive)
    throw new CliError('notAllowed', refusal, [remedy]);
  terminal.note(
    `The token is meant for ${told}. This is a name, not a URL, so this program cannot check that it belongs to ${server}.`,
  );
  terminal.note(`If it belongs to another server, ${server} can use the token there in your name.`);
  const question = `Is ${server} the server for ${told}?`;
  if (await terminal.confirm(question, { yes: false, signal })) return first;
  throw new CliError('notAllowed', refusal);
}

const keep = ({ issuer, client_id }: OAuthClient, { refresh_token, expires_at }: Tokens): SignIn => ({
  issuer,
  client_id,
  ...(refresh_token === undefined ? {} : { refresh_token }),
  ...(expires_at === undefined ? {} : { expires_at: new Date(expires_at).toISOString() }),
});

/** Ends a sign-in at the provider, and says how that went. */
export async function endAt({ refresh_token, ...client }: SignIn, signal: AbortSignal): Promise<string> {
  const left = 'The access token expires on its own.';
  if (refresh_token === undefined) return left;
  try {
    return (await revoke(client, refresh_token, signal)) ? `The sign-in at the provider has ended. ${left}` : left;
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    return `Cannot end the sign-in at the provider: ${error.message}. ${left}`;
  }
}
