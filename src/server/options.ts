/** Owns the options of the server: names, environment variables, defaults and what a value must look like. */
import { isIP } from 'node:net';
import { availableParallelism, homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { limits } from '../api/limits.ts';
import { isSafeUrl } from './safe-url.ts';

/** One option, for any program that reads command lines. `read` throws an error whose message ends a sentence about the value. */
export interface ServerOption {
  readonly flags: string;
  readonly env: string;
  readonly help: string;
  readonly fallback?: string | number | boolean;
  readonly read?: (text: string) => unknown;
  /** Not shown in help output: it may hold a password. */
  readonly secret?: true;
}

export interface Listen {
  readonly host: string;
  readonly port: number;
}

/** `host:port`, `[v6]:port`, `:port` or a lone port; port 0 takes any free one. */
export function readListen(text: string): Listen {
  const match = /^(?:(?:\[([0-9a-fA-F:.]+)\]|([^:[\]\s]*)):)?(\d{1,5})$/.exec(text.trim());
  const port = Number(match?.[3]);
  if (match === null || port > 65_535) throw new Error('It must be an address with a port, like 127.0.0.1:8080.');
  const host = match[1] ?? match[2];
  // A lone port stays on this machine; a colon before it says "everywhere".
  return { host: host === undefined ? '127.0.0.1' : host === '' ? '::' : host, port };
}

function whole(text: string, least: number, most: number): number {
  const number = /^\d{1,15}$/.test(text.trim()) ? Number(text) : Number.NaN;
  if (!(number >= least && number <= most)) throw new Error(`It must be a whole number from ${least} to ${most}.`);
  return number;
}

const between =
  (least: number, most: number) =>
  (text: string): number =>
    whole(text, least, most);

function oneOf<T extends string>(choices: readonly T[]): (text: string) => T {
  return (text) => {
    const choice = choices.find((known) => known === text);
    if (choice === undefined) throw new Error(`It must be one of ${choices.join(', ')}.`);
    return choice;
  };
}

/** Each serves tens of thousands of streams, and each takes memory and connections of the database: many more gain nothing. */
const mostWorkers = 64;
const mostByThemselves = 8;

/** One a processor, unless it is said. */
function readWorkers(text: string): number {
  return text.trim() === 'auto' ? Math.min(availableParallelism(), mostByThemselves) : whole(text, 1, mostWorkers);
}

function readPhase(text: string): 1 | 2 | 3 {
  const phase = whole(text, 1, 3);
  return phase === 1 ? 1 : phase === 2 ? 2 : 3;
}

function readDatabaseUrl(text: string): string {
  if (!/^postgres(ql)?:\/\//.test(text)) throw new Error('It must begin with postgres://.');
  try {
    // A unix socket is written postgres://user@/database?host=/dir, which is no URL without a host.
    void new URL(
      text
        .replace(/^(postgres(?:ql)?:\/\/[^/]*@)\//, '$1localhost/')
        .replace(/^(postgres(?:ql)?:\/\/)\//, '$1localhost/'),
    );
  } catch {
    throw new Error('It must be a URL like postgres://user:password@host:5432/database.');
  }
  return text;
}

/** A list in one value: by commas, because that fits a variable of the environment too. */
const readList = (text: string): readonly string[] => {
  const items = text.split(',').map((item) => item.trim());
  if (items.includes('')) throw new Error('It must be one value, or several with commas between them.');
  return [...new Set(items)];
};

function readIssuers(text: string): readonly string[] {
  const issuers = readList(text);
  for (const issuer of issuers) {
    if (!isSafeUrl(issuer)) throw new Error('It must be an https:// address (http:// on this machine only).');
    if (/[?#]/.test(issuer)) throw new Error('It must have neither a query nor a fragment.');
  }
  return issuers;
}

/** Addresses and networks in CIDR notation, strictly: a slip here lets people lie about where they come from. */
function readNetworks(text: string): readonly string[] {
  const networks = readList(text);
  for (const network of networks) {
    const [address = '', length, ...more] = network.split('/');
    const family = isIP(address);
    const longest = family === 4 ? 32 : 128;
    const fits = length === undefined || (/^\d{1,3}$/.test(length) && Number(length) >= 1 && Number(length) <= longest);
    if (family === 0 || more.length > 0 || !fits) throw new Error('It must be addresses or networks like 10.0.0.0/8.');
  }
  return networks;
}

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

function readPublicUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !isSafeUrl(text)) {
    throw new Error('It must be an https:// address (http:// on this machine only).');
  }
  if (url.pathname !== '/' || url.search !== '' || url.hash !== '') throw new Error('It must have no path.');
  return url.origin;
}

/** A word that looks like an option was meant as one: its value was forgotten. `./-x` names such a file all the same. */
function readPath(text: string): string {
  if (text === '' || text.startsWith('-')) throw new Error('It must be a path.');
  return resolve(text);
}

/** Where the system keeps the data of its services, or where a person's programs keep theirs. */
export function defaultData(env: NodeJS.ProcessEnv, isRoot: boolean): string {
  if (isRoot) return '/var/lib/ringfence';
  return join(env['XDG_DATA_HOME'] ?? join(homedir(), '.local', 'share'), 'ringfence');
}

export const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'silent'] as const;
export type LogLevel = (typeof logLevels)[number];

export const serverOptions = {
  listen: {
    flags: '--listen <host:port>',
    env: 'RINGFENCE_LISTEN',
    help: 'address to listen on',
    fallback: '127.0.0.1:8080',
    read: readListen,
  },
  data: {
    flags: '--data <dir>',
    env: 'RINGFENCE_DATA',
    help: 'directory for the data (default: /var/lib/ringfence as root, else ~/.local/share/ringfence)',
    read: readPath,
  },
  databaseUrl: {
    flags: '--database-url <url>',
    env: 'RINGFENCE_DATABASE_URL',
    help: 'use this PostgreSQL instead of one in the data directory',
    read: readDatabaseUrl,
    secret: true,
  },
  databaseWait: {
    flags: '--database-wait <seconds>',
    env: 'RINGFENCE_DATABASE_WAIT',
    help: 'how long to wait at start for a database that cannot be reached',
    fallback: '30',
    read: between(0, 86_400),
  },
  postgresBin: {
    flags: '--postgres-bin <dir>',
    env: 'RINGFENCE_POSTGRES_BIN',
    help: "where PostgreSQL's programs lie, if they are not found by themselves",
    read: readPath,
  },
  workers: {
    flags: '--workers <number|auto>',
    env: 'RINGFENCE_WORKERS',
    help: `processes that serve; auto: one for each processor, at most ${mostByThemselves}`,
    fallback: 'auto',
    read: readWorkers,
  },
  phase: {
    flags: '--phase <1|2|3>',
    env: 'RINGFENCE_PHASE',
    help: '1: default groups only; 2: one group a device; 3: a list of groups a device',
    fallback: '3',
    read: readPhase,
  },
  rateLimit: {
    flags: '--rate-limit <number>',
    env: 'RINGFENCE_RATE_LIMIT',
    help: 'requests a second that one credential may go on making; 0 for no limit',
    fallback: '5000',
    read: between(0, 1_000_000),
  },
  rateBurst: {
    flags: '--rate-burst <number>',
    env: 'RINGFENCE_RATE_BURST',
    help: 'requests that one credential may make at once after a rest',
    fallback: '10000',
    read: between(1, 1_000_000),
  },
  maxBody: {
    flags: '--max-body <bytes>',
    env: 'RINGFENCE_MAX_BODY',
    help: 'largest request body',
    fallback: String(limits.body),
    read: between(1024, 1024 ** 3),
  },
  maxRules: {
    flags: '--max-rules <number>',
    env: 'RINGFENCE_MAX_RULES',
    help: 'most rules of a group in each direction',
    fallback: String(limits.rulesPerDirection),
    read: between(1, 1_000_000),
  },
  maxRanges: {
    flags: '--max-ranges <number>',
    env: 'RINGFENCE_MAX_RANGES',
    help: 'most address ranges of a group',
    fallback: String(limits.rangesPerGroup),
    read: between(1, 10_000_000),
  },
  maxName: {
    flags: '--max-name <characters>',
    env: 'RINGFENCE_MAX_NAME',
    help: 'longest name',
    fallback: String(limits.name),
    read: between(1, 2000),
  },
  maxDescription: {
    flags: '--max-description <characters>',
    env: 'RINGFENCE_MAX_DESCRIPTION',
    help: 'longest description',
    fallback: String(limits.description),
    read: between(0, 1_000_000),
  },
  keepDeletions: {
    flags: '--keep-deletions <days>',
    env: 'RINGFENCE_KEEP_DELETIONS',
    help: 'how long deletions are kept for streams that resume',
    fallback: '90',
    read: between(1, 36_500),
  },
  tlsCert: {
    flags: '--tls-cert <file>',
    env: 'RINGFENCE_TLS_CERT',
    help: 'serve HTTPS with this certificate chain (PEM); read again when it changes',
    read: readPath,
  },
  tlsKey: {
    flags: '--tls-key <file>',
    env: 'RINGFENCE_TLS_KEY',
    help: "the certificate's private key (PEM)",
    read: readPath,
  },
  trustedProxy: {
    flags: '--trusted-proxy <address,...>',
    env: 'RINGFENCE_TRUSTED_PROXY',
    help: 'believe X-Forwarded-For from these addresses or networks, and from nobody else',
    read: readNetworks,
  },
  keepAudit: {
    flags: '--keep-audit <days>',
    env: 'RINGFENCE_KEEP_AUDIT',
    help: 'how long the audit is kept',
    fallback: '365',
    read: between(1, 36_500),
  },
  oidcIssuer: {
    flags: '--oidc-issuer <url,...>',
    env: 'RINGFENCE_OIDC_ISSUER',
    help: 'accept access tokens (JWT) of this OpenID Connect provider; several with commas',
    read: readIssuers,
  },
  oidcAudience: {
    flags: '--oidc-audience <name,...>',
    env: 'RINGFENCE_OIDC_AUDIENCE',
    help: 'what access tokens must name as their audience, one of several with commas (default: ringfence or the public URL, unless --oidc-client-id is given)',
    read: readList,
  },
  oidcUsernameClaim: {
    flags: '--oidc-username-claim <claim>',
    env: 'RINGFENCE_OIDC_USERNAME_CLAIM',
    help: 'the claim that names a new user; the subject where it is absent',
    fallback: 'preferred_username',
    read: (text: string) => text.trim(),
  },
  oidcClockTolerance: {
    flags: '--oidc-clock-tolerance <seconds>',
    env: 'RINGFENCE_OIDC_CLOCK_TOLERANCE',
    help: "by how much the provider's clock may differ",
    fallback: '30',
    read: between(0, 600),
  },
  oidcClientId: {
    flags: '--oidc-client-id <id>',
    env: 'RINGFENCE_OIDC_CLIENT_ID',
    help: 'sign people in to the web UI as this client of the (first) provider',
    read: (text: string) => text.trim(),
  },
  oidcClientSecretFile: {
    flags: '--oidc-client-secret-file <file>',
    env: 'RINGFENCE_OIDC_CLIENT_SECRET_FILE',
    help: "the client's secret, in a file; without one the client is public",
    read: readPath,
  },
  oidcScopes: {
    flags: '--oidc-scopes <names>',
    env: 'RINGFENCE_OIDC_SCOPES',
    help: 'what the web sign-in asks for; add offline_access to hold sessions to the provider',
    fallback: 'openid profile',
    read: readScopes,
  },
  oidcName: {
    flags: '--oidc-name <name>',
    env: 'RINGFENCE_OIDC_NAME',
    help: "what the provider is called on the sign-in page (default: the issuer's host)",
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
    help: 'what `ringfence login` asks for',
    fallback: 'openid profile offline_access',
    read: readScopes,
  },
  oidcCliParameters: {
    flags: '--oidc-cli-parameters <query>',
    env: 'RINGFENCE_OIDC_CLI_PARAMETERS',
    help: 'what else `ringfence login` tells the provider, like resource=https://ringfence.example',
    read: readParameters,
  },
  demoIdp: {
    flags: '--demo-idp',
    env: 'RINGFENCE_DEMO_IDP',
    help: 'try signing in: run an identity provider beside the server, with two people and no passwords; never for real use',
    fallback: false,
  },
  publicUrl: {
    flags: '--public-url <url>',
    env: 'RINGFENCE_PUBLIC_URL',
    help: 'where people reach the web UI (default: the address it listens on)',
    read: readPublicUrl,
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
    help: 'how often the provider is asked whether a session still stands, where it gave a refresh token',
    fallback: '300',
    // Longer than the provider may take to answer.
    read: between(30, 31_536_000),
  },
  streamHeartbeat: {
    flags: '--stream-heartbeat <seconds>',
    env: 'RINGFENCE_STREAM_HEARTBEAT',
    help: 'silence after which a stream of events gets a heartbeat',
    fallback: '15',
    read: between(1, 3600),
  },
  streamMaxAge: {
    flags: '--stream-max-age <seconds>',
    env: 'RINGFENCE_STREAM_MAX_AGE',
    help: 'age at which a stream is ended, so that clients spread over servers again',
    fallback: '3600',
    read: between(1, 31_536_000),
  },
  streamStuck: {
    flags: '--stream-stuck <seconds>',
    env: 'RINGFENCE_STREAM_STUCK',
    help: 'how long a reader may take nothing before it is cut off',
    fallback: '60',
    read: between(1, 86_400),
  },
  logLevel: {
    flags: '--log-level <level>',
    env: 'RINGFENCE_LOG_LEVEL',
    help: `least level that is logged: ${logLevels.join(', ')}`,
    fallback: 'info',
    read: oneOf(logLevels),
  },
  answerTimeout: {
    flags: '--answer-timeout <seconds>',
    env: 'RINGFENCE_ANSWER_TIMEOUT',
    help: 'how long the database may take to answer a request before the caller is told to come back (503)',
    fallback: '30',
    read: between(1, 3600),
  },
  shutdownTimeout: {
    flags: '--shutdown-timeout <seconds>',
    env: 'RINGFENCE_SHUTDOWN_TIMEOUT',
    help: 'how long requests in flight may take to finish when the server is told to stop',
    fallback: '20',
    read: between(0, 3600),
  },
  checkConfig: {
    flags: '--check-config',
    env: 'RINGFENCE_CHECK_CONFIG',
    help: 'say whether the options are good, and stop',
    fallback: false,
  },
} as const satisfies Readonly<Record<string, ServerOption>>;

type ValueOf<O> = O extends { readonly read: (text: string) => infer V }
  ? O extends { readonly fallback: unknown }
    ? V
    : V | undefined
  : boolean;

/** The options as read: what was said, or the fallback. */
export type ServerValues = { readonly [K in keyof typeof serverOptions]?: ValueOf<(typeof serverOptions)[K]> };

/** Everything the server needs to know before it starts. */
export type ServerConfig = {
  readonly [K in Exclude<keyof typeof serverOptions, 'data' | 'checkConfig' | 'databaseUrl' | 'postgresBin'>]: ValueOf<
    (typeof serverOptions)[K]
  >;
} & {
  readonly data: string;
  readonly databaseUrl?: string | undefined;
  readonly postgresBin?: string | undefined;
  /** The first administrator's token, where the operator chose it. */
  readonly adminToken?: string | undefined;
};

const fallbackOf = (option: ServerOption): unknown =>
  typeof option.fallback === 'string' && option.read !== undefined ? option.read(option.fallback) : option.fallback;

/** What is of no use without something else. */
function refuseHalves(values: ServerValues): void {
  const { oidcIssuer, oidcAudience, oidcClientId, oidcClientSecretFile, oidcCliClientId } = values;
  if (oidcAudience !== undefined && oidcIssuer === undefined) {
    throw new Error('--oidc-issuer and --oidc-audience go together: a token may be meant for somebody else.');
  }
  if (values.demoIdp === true) {
    if (oidcIssuer !== undefined)
      throw new Error('--demo-idp brings an identity provider of its own: leave --oidc-issuer out.');
    const host = values.listen?.host ?? '127.0.0.1';
    if (!/^(localhost|127(\.\d+){3}|::1)$/.test(host)) {
      throw new Error('--demo-idp lets anybody in: it goes only with --listen on this machine, like 127.0.0.1:8080.');
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

/** Fills what was not said with its fallback. Throws an error with one line when the parts contradict each other. */
export function serverConfig(
  values: ServerValues,
  { env, isRoot }: { readonly env: NodeJS.ProcessEnv; readonly isRoot: boolean },
): ServerConfig {
  const fallbacks = Object.fromEntries(
    Object.entries(serverOptions).map(([name, option]) => [name, fallbackOf(option)]),
  );
  const adminToken = env['RINGFENCE_ADMIN_TOKEN'];
  if (adminToken !== undefined && adminToken !== '' && !/^[\x21-\x7e]{1,4096}$/.test(adminToken)) {
    throw new Error('RINGFENCE_ADMIN_TOKEN must be visible ASCII characters without spaces, at most 4096.');
  }
  refuseHalves(values);
  if ((values.tlsCert === undefined) !== (values.tlsKey === undefined)) {
    throw new Error('--tls-cert and --tls-key go together.');
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
 * Whom access tokens must be meant for; undefined where none are accepted, as the provider is there for the web UI alone. Without a word
 * of the operator's it is us, by names that nobody else has.
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

/** The configuration in words, for `--check-config` and the log; passwords stay out. */
export function describeConfig(config: ServerConfig): readonly string[] {
  const database =
    config.databaseUrl === undefined
      ? `embedded PostgreSQL in ${config.data}`
      : config.databaseUrl.replace(/(\/\/[^/:@]*):[^@/]*@/, '$1:***@').replace(/([?&]password=)[^&]*/g, '$1***');
  const { host, port } = config.listen;
  const audiences = audiencesOf(config);
  return [
    `listen ${host.includes(':') ? `[${host}]` : host}:${port}`,
    ...(config.tlsCert === undefined ? [] : [`certificate ${config.tlsCert}`]),
    ...(config.trustedProxy === undefined ? [] : [`trusted proxies ${config.trustedProxy.join(', ')}`]),
    `database ${database}`,
    `workers ${config.workers}`,
    `phase ${config.phase}`,
    `rate limit ${config.rateLimit === 0 ? 'off' : `${config.rateLimit}/s, burst ${config.rateBurst}`}`,
    `limits ${config.maxRules} rules a direction, ${config.maxRanges} ranges, names ${config.maxName}, descriptions ${config.maxDescription}, bodies ${config.maxBody} bytes`,
    `deletions kept ${config.keepDeletions} days, the audit ${config.keepAudit} days`,
    `streams heartbeat ${config.streamHeartbeat} s, age ${config.streamMaxAge} s, stuck ${config.streamStuck} s`,
    ...(audiences === undefined
      ? []
      : [`access tokens of ${config.oidcIssuer?.join(', ') ?? ''} for ${audiences.join(', ')}`]),
    ...(config.oidcClientId === undefined
      ? []
      : [
          `web sign-in at ${config.oidcIssuer?.[0] ?? ''} as ${config.oidcClientId}, back at ${config.publicUrl ?? 'the address it listens on'}`,
          `sessions end after ${config.sessionIdle} s without use, ${config.sessionLifetime} s at most`,
        ]),
    `log level ${config.logLevel}`,
  ];
}
