/** Owns the configuration: given values, defaults, and checks for contradictions. */
import { homedir } from 'node:os';
import { join } from 'node:path';
import { largestDocument } from '../../api/kinds.ts';
import { limits } from '../../api/limits.ts';
import { defaultLimits } from '../../policy/limits.ts';
import type { ServerOption } from './option.ts';
import { serverOptions, type ServerValues, type ValueOf } from './server-options.ts';

/** The system's directory for service data, or the user's data directory. */
function defaultData(env: NodeJS.ProcessEnv, isRoot: boolean): string {
  if (isRoot) return '/var/lib/ringfence';
  return join(env['XDG_DATA_HOME'] ?? join(homedir(), '.local', 'share'), 'ringfence');
}

/** Everything the server needs to know before it starts. */
export type ServerConfig = {
  readonly [
    K in Exclude<
      keyof typeof serverOptions,
      'data' | 'checkConfig' | 'databaseUrl' | 'databaseListenUrl' | 'postgresBin'
    >
  ]: ValueOf<(typeof serverOptions)[K]>;
} & {
  readonly data: string;
  readonly databaseUrl?: string | undefined;
  readonly databaseListenUrl?: string | undefined;
  readonly postgresBin?: string | undefined;
  /** The first administrator's token, where the operator chose it. */
  readonly adminToken?: string | undefined;
};

const fallbackOf = (option: ServerOption): unknown =>
  typeof option.fallback === 'string' && option.read !== undefined ? option.read(option.fallback) : option.fallback;

/** Refuses options that need another option. */
function refuseHalves(values: ServerValues): void {
  const { oidcIssuer, oidcAudience, oidcClientId, oidcClientSecretFile, oidcCliClientId } = values;
  if (oidcAudience !== undefined && oidcIssuer === undefined) {
    throw new Error(
      '--oidc-issuer needs --oidc-audience, and --oidc-audience needs --oidc-issuer: without an audience, tokens for other services would be valid here.',
    );
  }
  if (values.demoIdp === true) {
    if (oidcIssuer !== undefined) throw new Error('--demo-idp starts its own identity provider: remove --oidc-issuer.');
    const host = values.listen?.host ?? '127.0.0.1';
    if (!/^(localhost|127(\.\d+){3}|::1)$/.test(host)) {
      throw new Error(
        '--demo-idp lets anyone sign in: use it only with --listen on a loopback address such as 127.0.0.1:8080.',
      );
    }
  }
  if (oidcClientId !== undefined && oidcIssuer === undefined) throw new Error('--oidc-client-id needs --oidc-issuer.');
  if (oidcClientSecretFile !== undefined && oidcClientId === undefined) {
    throw new Error('--oidc-client-secret-file needs --oidc-client-id.');
  }
  if (oidcCliClientId !== undefined && oidcAudience === undefined) {
    throw new Error('--oidc-cli-client-id needs --oidc-audience: the command line uses access tokens.');
  }
}

/** A group travels as one document of the change stream; clients refuse one that is larger than they are made for. */
function refuseUnreadable(values: ServerValues): void {
  const { rulesPerDirection, rangesPerGroup, description, name } = limits;
  const {
    maxRules = rulesPerDirection,
    maxRanges = rangesPerGroup,
    maxDescription = description,
    maxName = name,
  } = values;
  const { rangeLength = 0 } = defaultLimits;
  // In the worst case: JSON writes a character in up to 6 bytes, and a rule has some 80 besides its ranges.
  const largest = 1_000 + 6 * (maxName + maxDescription) + 2 * 100 * maxRules + (rangeLength + 3) * maxRanges;
  if (largest <= largestDocument) return;
  const shown = (bytes: number): string => `${Math.ceil(bytes / 1024 / 1024)} MiB`;
  throw new Error(
    `--max-ranges, --max-rules, --max-name and --max-description allow a group of ${shown(largest)}; clients read ${shown(largestDocument)}.`,
  );
}

/** Fills what was not said with its fallback. Throws an error with one line when the parts contradict each other. */
export function serverConfig(
  values: ServerValues,
  { env, isRoot }: { readonly env: NodeJS.ProcessEnv; readonly isRoot: boolean },
): ServerConfig {
  const fallbacks = Object.fromEntries(
    Object.entries(serverOptions).map(([name, option]) => [name, fallbackOf(option)]),
  );
  const adminToken = env['RINGFENCE_ADMIN_TOKEN'];
  if (adminToken !== undefined && adminToken !== '' && !/^[\x21-\x7e]{32,4096}$/.test(adminToken)) {
    throw new Error('RINGFENCE_ADMIN_TOKEN must be 32 to 4096 visible ASCII characters without spaces.');
  }
  refuseUnreadable(values);
  if (values.databaseListenUrl !== undefined && values.databaseUrl === undefined) {
    throw new Error('--database-listen-url needs --database-url.');
  }
  refuseHalves(values);
  if ((values.tlsCert === undefined) !== (values.tlsKey === undefined)) {
    throw new Error('Use --tls-cert and --tls-key together.');
  }
  const said = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
  const { checkConfig: _checkConfig, ...config } = {
    data: defaultData(env, isRoot),
    ...fallbacks,
    ...said,
  } as unknown as ServerConfig & {
    checkConfig: boolean;
  };
  return { ...config, data: config.data ?? defaultData(env, isRoot), ...(adminToken ? { adminToken } : {}) };
}

/**
 * The audiences that access tokens must have; undefined when the server accepts none, because the provider serves only
 * the web UI. Unless the operator sets one, they are `ringfence` and the public URL.
 */
export function audiencesOf({
  oidcIssuer,
  oidcAudience,
  oidcClientId,
  publicUrl,
}: ServerConfig): readonly string[] | undefined {
  if (oidcIssuer === undefined) return undefined;
  if (oidcAudience !== undefined || oidcClientId !== undefined) return oidcAudience;
  return ['ringfence', ...(publicUrl === undefined ? [] : [publicUrl])];
}
