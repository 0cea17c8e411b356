/** Owns what a person sees of signing in at an identity provider from the command line, and what is kept of it. */
import type { SignInMethods } from '../../api/sign-in.ts';
import { RingfenceError } from '../../client/error.ts';
import { signInMethods } from '../../client/sign-in.ts';
import { CliError, usageError } from '../terminal/exit.ts';
import { signInByBrowser } from '../oauth/loopback.ts';
import { askForCode, awaitCode, discover, revoke, type OAuthClient, type Tokens } from '../oauth/provider.ts';
import type { Profile, SignIn } from '../session/profile.ts';
import { clientOf, type Session } from '../session/session.ts';

/** The provider that the server names for programs. Undefined where there is none, unless it is needed. */
export async function providerAt(session: Session, url: string, needed: boolean): Promise<OAuthClient | undefined> {
  let methods: SignInMethods;
  try {
    methods = await signInMethods(clientOf(url, undefined), { signal: session.signal });
  } catch (error) {
    // A server of before identity providers does not say how to sign in.
    if (needed || !(error instanceof RingfenceError) || error.status !== 404) throw error;
    return undefined;
  }
  const { provider } = methods;
  if (provider?.command_line !== undefined) return { issuer: provider.issuer, ...provider.command_line };
  if (needed)
    throw usageError(`${url} offers no sign-in at an identity provider; use a token: ringfence login --with-token`);
  return undefined;
}

const minutes = (seconds: number): string => {
  const whole = Math.max(1, Math.round(seconds / 60));
  return whole === 1 ? 'a minute' : `${whole} minutes`;
};

/** Signs in, whatever way; nothing is kept before it has succeeded. */
export async function signInAt(
  { terminal, signal }: Session,
  client: OAuthClient,
  way: 'device' | 'browser',
): Promise<Pick<Profile, 'token' | 'sign_in'>> {
  const provider = await discover(client, signal);
  let tokens: Tokens;
  if (way === 'browser') {
    const show = (address: string): void => {
      terminal.note('To sign in, open this address in a browser on this machine:');
      terminal.note(`  ${address}`);
    };
    tokens = await signInByBrowser(client, provider, { show, signal });
  } else {
    const code = await askForCode(client, provider, signal);
    terminal.note(`To sign in, open ${code.verification_uri} in any browser and enter the code`);
    terminal.note(`  ${terminal.paintError('bold', code.user_code)}`);
    if (code.verification_uri_complete !== undefined) terminal.note(`or open ${code.verification_uri_complete}`);
    terminal.note(`Waiting; the code is good for ${minutes(code.expires_in)}. Ctrl-C gives up.`);
    tokens = await awaitCode(client, provider, code, signal);
  }
  return { token: tokens.access_token, sign_in: keep(client, tokens) };
}

const keep = ({ issuer, client_id }: OAuthClient, { refresh_token, expires_at }: Tokens): SignIn => ({
  issuer,
  client_id,
  ...(refresh_token === undefined ? {} : { refresh_token }),
  ...(expires_at === undefined ? {} : { expires_at: new Date(expires_at).toISOString() }),
});

/** Ends a sign-in at the provider, and says how that went. */
export async function endAt({ refresh_token, ...client }: SignIn, signal: AbortSignal): Promise<string> {
  const left = 'The access token ends by itself.';
  if (refresh_token === undefined) return left;
  try {
    return (await revoke(client, refresh_token, signal)) ? `The sign-in was ended at the provider. ${left}` : left;
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    return `The sign-in could not be ended at the provider: ${error.message}. ${left}`;
  }
}
