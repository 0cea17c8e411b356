/**
 * Owns the set-up of sign-in from the options: the verifier of access tokens, the browser sign-in, and the methods that
 * the server announces.
 */
import { readFile } from 'node:fs/promises';
import { signInPaths, type SignInMethods } from '../../api/sign-in.ts';
import { audiencesOf, type ServerConfig } from '../options/config.ts';
import type { Store } from '../store/open.ts';
import { Issuer, type IssuerSettings } from './issuer.ts';
import { tokenVerifier, type VerifyToken } from './oidc.ts';
import { RelyingParty } from './relying-party.ts';
import type { Random } from './secret.ts';
import { BrowserSessions } from './sessions.ts';

export interface SetupAround {
  readonly clock: () => number;
  readonly random: Random;
  readonly onWarning: (message: string, cause: unknown) => void;
  readonly settings?: Partial<IssuerSettings> | undefined;
}

/** Signing in by browser, where it is set up. */
export interface BrowserSignIn {
  readonly party: RelyingParty;
  readonly sessions: BrowserSessions;
  /** The URL at which people reach this server, without a trailing slash; known once it listens. */
  readonly publicUrl: () => string;
  /** Seconds that a session lives at most: its cookie need not outlive it. */
  readonly lifetimeSeconds: number;
}

/** The verifier for access tokens of identity providers; undefined when none are accepted. */
export function verifierOf(
  config: ServerConfig,
  { clock, onWarning, settings }: SetupAround,
  publicUrl: () => string,
): VerifyToken | undefined {
  const audiences = audiencesOf(config);
  if (audiences === undefined) return undefined;
  return tokenVerifier({
    issuers: config.oidcIssuer ?? [],
    // The demo provider gives tokens for the address of its server, which is known once it listens.
    get audiences() {
      return config.demoIdp ? [...audiences, publicUrl()] : audiences;
    },
    plain: config.oidcAudience === undefined,
    usernameClaim: config.oidcUsernameClaim,
    toleranceSeconds: config.oidcClockTolerance,
    clock,
    onWarning,
    ...(settings === undefined ? {} : { settings }),
  });
}

/** The browser sign-in; undefined when it is not configured. Sessions of a provider or client that is no longer configured end. */
export async function browserSignInOf(
  config: ServerConfig,
  { clock, random, onWarning, settings }: SetupAround,
  { store, publicUrl }: { readonly store: Pick<Store, 'sessions'>; readonly publicUrl: () => string },
): Promise<BrowserSignIn | undefined> {
  const [issuer] = config.oidcIssuer ?? [];
  if (issuer === undefined || config.oidcClientId === undefined) return undefined;
  const file = config.oidcClientSecretFile;
  const clientSecret = file === undefined ? undefined : (await readFile(file, 'utf8')).trim();
  if (clientSecret === '') throw new Error(`${file} is empty`);
  const party = new RelyingParty({
    issuer: new Issuer({ issuer, clock, onWarning, ...(settings === undefined ? {} : { settings }) }),
    clientId: config.oidcClientId,
    clientSecret,
    redirectUri: () => `${publicUrl()}${signInPaths.finishSignIn.path}`,
    homeUri: () => `${publicUrl()}/ui/`,
    scopes: config.oidcScopes,
    usernameClaim: config.oidcUsernameClaim,
    toleranceSeconds: config.oidcClockTolerance,
    clock,
    random,
    takeTicket: (digest, until) => store.sessions.takeTicket(digest, until),
  });
  const sessions = new BrowserSessions({
    store,
    party,
    idleMs: config.sessionIdle * 1000,
    lifetimeMs: config.sessionLifetime * 1000,
    checkMs: config.sessionCheck * 1000,
    clock,
    random,
    onWarning,
  });
  await sessions.endThoseOfOthers();
  return { party, sessions, publicUrl, lifetimeSeconds: config.sessionLifetime };
}

/** The resource that programs send to the provider so that tokens name this server (RFC 8707): an audience that is an absolute URI. */
function resourceOf([audience = '']: readonly string[]): { readonly resource?: string } {
  return URL.canParse(audience) && !audience.includes('#') ? { resource: audience } : {};
}

/** The public description of how to sign in. */
export function methodsOf(config: ServerConfig): SignInMethods {
  const [issuer] = config.oidcIssuer ?? [];
  if (issuer === undefined) return { token: true };
  const { oidcClientId, oidcClientSecretFile, oidcCliClientId, oidcAudience } = config;
  const client_id = oidcCliClientId ?? (oidcClientSecretFile === undefined ? oidcClientId : undefined);
  return {
    token: true,
    provider: {
      name: config.oidcName ?? new URL(issuer).host,
      issuer,
      browser: oidcClientId !== undefined,
      ...(client_id === undefined || oidcAudience === undefined
        ? {}
        : {
            command_line: {
              client_id,
              scopes: config.oidcCliScopes,
              parameters: { ...(config.demoIdp ? {} : resourceOf(oidcAudience)), ...config.oidcCliParameters },
            },
          }),
    },
  };
}
