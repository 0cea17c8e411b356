/**
 * Owns the demo identity provider: a real one (`oidc-provider`) beside the server, on this machine only, with two users
 * and no passwords, so that people can try signing in within a minute. It is not part of an installation: the package
 * is loaded only for `--demo-idp`.
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair } from 'jose';
import type { Configuration, Provider } from 'oidc-provider';
import { demoPage, formPage, pickPage, shown } from './pages.ts';

const demoPeople = ['ada', 'bob'] as const;
export const demoAudience = 'urn:ringfence:demo';
export const demoClients = { web: 'ringfence-web', commandLine: 'ringfence-cli' } as const;
const scopes = 'openid profile email offline_access';
/** An address that nobody has, so that invitations can be tried too. */
const claimsOf = (name: string) => ({
  preferred_username: name,
  email: `${name}@demo.example`,
  email_verified: true,
});

export interface DemoProvider {
  readonly issuer: string;
  /** From now on it signs people in to the server at this address. */
  serve(serverUrl: string): void;
  stop(): Promise<void>;
}

/** The package is missing; the message says how to install it. */
export class DemoMissing extends Error {
  constructor(cause: unknown) {
    super(
      '--demo-idp needs the package oidc-provider, which is not installed: run npm install oidc-provider in the directory of this program',
      {
        cause,
      },
    );
    this.name = 'DemoMissing';
  }
}

async function load(): Promise<Pick<typeof import('oidc-provider'), 'Provider' | 'errors'>> {
  try {
    return await import('oidc-provider');
  } catch (cause) {
    throw new DemoMissing(cause);
  }
}

async function configuration(
  serverUrl: string,
  errors: typeof import('oidc-provider').errors,
  grant: Configuration['loadExistingGrant'],
): Promise<Configuration> {
  const { privateKey } = await generateKeyPair('ES256', { extractable: true });
  const key = { ...(await exportJWK(privateKey)), kid: randomBytes(6).toString('hex'), alg: 'ES256', use: 'sig' };
  const form = (id: string, text: string, more = ''): string => `<button form="${id}"${more}>${text}</button>`;
  return {
    clients: [
      {
        client_id: demoClients.web,
        token_endpoint_auth_method: 'none',
        grant_types: ['authorization_code', 'refresh_token'],
        redirect_uris: [`${serverUrl}/api/auth/callback`],
        post_logout_redirect_uris: [`${serverUrl}/ui/`],
        id_token_signed_response_alg: 'ES256',
      },
      {
        client_id: demoClients.commandLine,
        application_type: 'native',
        token_endpoint_auth_method: 'none',
        grant_types: ['authorization_code', 'refresh_token', 'urn:ietf:params:oauth:grant-type:device_code'],
        redirect_uris: ['http://127.0.0.1/callback'],
        id_token_signed_response_alg: 'ES256',
      },
    ],
    jwks: { keys: [key] as NonNullable<Configuration['jwks']>['keys'] },
    cookies: { keys: [randomBytes(16).toString('hex')], names: { session: 'demo-session', interaction: 'demo-pick' } },
    ttl: {
      Interaction: 3600,
      Session: 86_400,
      Grant: 86_400,
      AccessToken: 600,
      IdToken: 3600,
      RefreshToken: 86_400,
      DeviceCode: 600,
    },
    scopes: scopes.split(' '),
    claims: { openid: ['sub'], profile: ['preferred_username'], email: ['email', 'email_verified'] },
    conformIdTokenClaims: false,
    findAccount: (_context, id) => ({ accountId: id, claims: () => ({ sub: id, ...claimsOf(id) }) }),
    extraTokenClaims: (_context, token) => ('accountId' in token ? claimsOf(token.accountId ?? '') : {}),
    interactions: { url: (_context, { uid }) => `/pick/${uid}` },
    loadExistingGrant: grant,
    issueRefreshToken: async (_context, client) => client.grantTypeAllowed('refresh_token'),
    renderError: (context, { error, error_description }) => {
      context.type = 'html';
      context.body = demoPage('The sign-in failed', `<p>${shown(error_description ?? error)}</p>`);
    },
    features: {
      devInteractions: { enabled: false },
      revocation: {
        enabled: true,
        allowedPolicy: async (_context, client, token) => token.clientId === client.clientId,
      },
      rpInitiatedLogout: {
        enabled: true,
        logoutSource: (context, given) => {
          const button = form('op.logoutForm', 'Sign out', ' name="logout" value="yes"');
          context.body = formPage('Sign out', 'Sign out here too?', given, button);
        },
        postLogoutSuccessSource: (context) => {
          context.body = demoPage('Signed out', '');
        },
      },
      deviceFlow: {
        enabled: true,
        userCodeInputSource: (context, given) => {
          context.body = formPage(
            'Sign in a device',
            'Enter the code that it shows.',
            given,
            form('op.deviceInputForm', 'Go on'),
          );
        },
        userCodeConfirmSource: (context, given, _client, _info, code) => {
          const buttons =
            form('op.deviceConfirmForm', 'Yes, sign it in') +
            form('op.deviceConfirmForm', 'No', ' name="abort" value="yes"');
          context.body = formPage('Sign in a device', `Does it show <code>${shown(code)}</code>?`, given, buttons);
        },
        successSource: (context) => {
          context.body = demoPage('Signed in', '<p>Go back to your terminal.</p>');
        },
      },
      resourceIndicators: {
        enabled: true,
        // Only programs get access tokens for the server; the web sign-in has no use for them.
        defaultResource: (_context, client) => (client?.clientId === demoClients.commandLine ? demoAudience : []),
        useGrantedResource: () => true,
        getResourceServerInfo: (_context, resource) => {
          if (resource !== demoAudience && resource !== serverUrl) throw new errors.InvalidTarget();
          return { scope: scopes, audience: resource, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'ES256' } } };
        },
      },
    },
  };
}

interface ServedRequest {
  readonly provider: Provider;
  readonly serverUrl: string;
}

/** Everything that a client here may ask for is granted without a question. */
async function grantTo({ provider, serverUrl }: ServedRequest, accountId: string, clientId: string): Promise<string> {
  const grant = new provider.Grant({ accountId, clientId });
  grant.addOIDCScope(scopes);
  for (const resource of [demoAudience, serverUrl]) grant.addResourceScope(resource, scopes);
  return grant.save();
}

/** Shows who there is to choose from, or takes the choice. */
async function pick(served: ServedRequest, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { provider } = served;
  const { uid, prompt, params, session } = await provider.interactionDetails(request, response);
  if (prompt.name === 'consent' && session !== undefined) {
    const grantId = await grantTo(served, session.accountId, String(params['client_id']));
    return provider.interactionFinished(request, response, { consent: { grantId } }, { mergeWithLastSubmission: true });
  }
  const chosen = demoPeople.find((name) => request.url === `/pick/${uid}/${name}`);
  if (request.method === 'POST' && chosen !== undefined) {
    return provider.interactionFinished(
      request,
      response,
      { login: { accountId: chosen } },
      { mergeWithLastSubmission: false },
    );
  }
  response.writeHead(200, { 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-store' });
  response.end(pickPage(uid, demoPeople));
  return undefined;
}

/** Takes the wished port where it is free, so that people are the same after a restart; else any. */
export async function startDemoProvider({ port }: { readonly port: number }): Promise<DemoProvider> {
  const { Provider: ProviderClass, errors } = await load();
  let handle = (_request: IncomingMessage, response: ServerResponse): void => void response.writeHead(503).end();
  const server = createServer((request, response) => handle(request, response));
  const listen = async (at: number): Promise<void> => {
    server.listen(at, '127.0.0.1');
    await once(server, 'listening');
  };
  await listen(port).catch(() => listen(0));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    issuer,
    serve(serverUrl) {
      const ready = configuration(serverUrl, errors, async (context) => {
        const { client, session, result } = context.oidc;
        if (client === undefined || session?.accountId === undefined) return undefined;
        const known = result?.consent?.grantId ?? session.grantIdFor(client.clientId);
        return provider.then(async ({ Grant }) =>
          Grant.find(
            known ?? (await grantTo({ provider: await provider, serverUrl }, session.accountId ?? '', client.clientId)),
          ),
        );
      });
      const provider = ready.then((settings) => new ProviderClass(issuer, settings));
      handle = (request, response) => {
        const answer = async (): Promise<void> => {
          const here = await provider;
          if (request.url?.startsWith('/pick/')) await pick({ provider: here, serverUrl }, request, response);
          else await here.callback()(request, response);
        };
        answer().catch(() => {
          if (!response.headersSent) response.writeHead(400, { 'content-type': 'text/html; charset=utf-8' });
          response.end(demoPage('The sign-in failed', '<p>Start the sign-in again.</p>'));
        });
      };
    },
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
