/** Owns the options for sign-in with an identity provider and for the sessions that follow. */
import { readIssuers } from './addresses.ts';
import type { ServerOption } from './option.ts';
import { between, readList, readPath } from './values.ts';

function readScopes(text: string): string {
  const scopes = text.split(/[\s,]+/).filter((scope) => scope !== '');
  if (!scopes.includes('openid')) throw new Error('It must contain openid.');
  return scopes.join(' ');
}

/** Written like the query of a URL. */
function readParameters(text: string): Readonly<Record<string, string>> {
  const pairs = [...new URLSearchParams(text)];
  if (pairs.length === 0 || pairs.some(([name, value]) => name === '' || value === '')) {
    throw new Error('It must be written like name=value&name=value.');
  }
  return Object.fromEntries(pairs);
}

export const signInOptions = {
  oidcIssuer: {
    flags: '--oidc-issuer <url,...>',
    env: 'RINGFENCE_OIDC_ISSUER',
    help: 'accept access tokens (JWT) of this OpenID Connect provider; separate several with commas',
    read: readIssuers,
  },
  oidcAudience: {
    flags: '--oidc-audience <name,...>',
    env: 'RINGFENCE_OIDC_AUDIENCE',
    help: 'the audience that access tokens must have; separate several with commas (default: ringfence or the public URL, unless --oidc-client-id is given)',
    read: readList,
  },
  oidcUsernameClaim: {
    flags: '--oidc-username-claim <claim>',
    env: 'RINGFENCE_OIDC_USERNAME_CLAIM',
    help: 'the claim that becomes the name of a new user; without the claim, the verified e-mail address, the full name or the subject',
    fallback: 'preferred_username',
    read: (text: string) => text.trim(),
  },
  oidcClockTolerance: {
    flags: '--oidc-clock-tolerance <seconds>',
    env: 'RINGFENCE_OIDC_CLOCK_TOLERANCE',
    help: 'maximum difference between the clocks of the provider and the server',
    fallback: '30',
    read: between(0, 600),
  },
  oidcClientId: {
    flags: '--oidc-client-id <id>',
    env: 'RINGFENCE_OIDC_CLIENT_ID',
    help: 'client of the (first) provider for the sign-in to the web UI',
    read: (text: string) => text.trim(),
  },
  oidcClientSecretFile: {
    flags: '--oidc-client-secret-file <file>',
    env: 'RINGFENCE_OIDC_CLIENT_SECRET_FILE',
    help: 'file with the client secret; without it, the client is public',
    read: readPath,
  },
  oidcScopes: {
    flags: '--oidc-scopes <names>',
    env: 'RINGFENCE_OIDC_SCOPES',
    help: 'scopes of the web sign-in; add offline_access to end sessions when the provider ends them',
    fallback: 'openid profile email',
    read: readScopes,
  },
  oidcName: {
    flags: '--oidc-name <name>',
    env: 'RINGFENCE_OIDC_NAME',
    help: 'name of the provider on the sign-in page (default: the host of the issuer)',
    read: (text: string) => text.trim(),
  },
  oidcCliClientId: {
    flags: '--oidc-cli-client-id <id>',
    env: 'RINGFENCE_OIDC_CLI_CLIENT_ID',
    help: 'the public client that `ringfence login` uses (default: --oidc-client-id, if it has no secret)',
    read: (text: string) => text.trim(),
  },
  oidcCliScopes: {
    flags: '--oidc-cli-scopes <names>',
    env: 'RINGFENCE_OIDC_CLI_SCOPES',
    help: 'scopes that `ringfence login` requests',
    fallback: 'openid profile offline_access',
    read: readScopes,
  },
  oidcCliParameters: {
    flags: '--oidc-cli-parameters <query>',
    env: 'RINGFENCE_OIDC_CLI_PARAMETERS',
    help: 'more parameters that `ringfence login` sends to the provider, such as resource=https://ringfence.example',
    read: readParameters,
  },
  demoIdp: {
    flags: '--demo-idp',
    env: 'RINGFENCE_DEMO_IDP',
    help: 'run a demo identity provider next to the server, with two users and no passwords; do not use it in production',
    fallback: false,
  },
  sessionIdle: {
    flags: '--session-idle <seconds>',
    env: 'RINGFENCE_SESSION_IDLE',
    help: 'how long a web session lasts without use',
    fallback: '7200',
    read: between(60, 31_536_000),
  },
  sessionLifetime: {
    flags: '--session-lifetime <seconds>',
    env: 'RINGFENCE_SESSION_LIFETIME',
    help: 'how long a web session lasts at most',
    fallback: '43200',
    read: between(60, 31_536_000),
  },
  sessionCheck: {
    flags: '--session-check <seconds>',
    env: 'RINGFENCE_SESSION_CHECK',
    help: 'how often the server asks the provider whether a session is still valid, if it has a refresh token',
    fallback: '300',
    // Longer than the provider may take to answer.
    read: between(30, 31_536_000),
  },
} as const satisfies Readonly<Record<string, ServerOption>>;
