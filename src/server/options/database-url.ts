/** Owns the parsing of a database URL in libpq's format: several hosts, sockets and TLS. */

export interface DatabaseHost {
  /** A name, an address, or the directory of a unix socket. */
  readonly host: string;
  readonly port: number;
}

const sslModes = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'] as const;
export type SslMode = (typeof sslModes)[number];

export interface DatabaseAddress {
  readonly hosts: readonly [DatabaseHost, ...DatabaseHost[]];
  readonly user?: string | undefined;
  readonly password?: string | undefined;
  readonly database?: string | undefined;
  readonly connectTimeoutMs: number;
  readonly tls: {
    readonly mode: SslMode;
    /** Files with PEM text; `system` means the system's certificate authorities. */
    readonly rootCert?: string | undefined;
    readonly cert?: string | undefined;
    readonly key?: string | undefined;
  };
}

const defaultPort = 5432;
const defaultConnectSeconds = 5;
const parameters = new Set([
  'host',
  'port',
  'user',
  'password',
  'dbname',
  'connect_timeout',
  'target_session_attrs',
  'sslmode',
  'sslrootcert',
  'sslcert',
  'sslkey',
]);
/** The server works on the primary only, whatever the URL allows. */
const sessionAttributes = new Set(['read-write', 'primary', 'any']);

const form = /^postgres(?:ql)?:\/\/(?:([^/?#]*)@)?([^@/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/;

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new Error('It has a broken percent encoding.');
  }
}

const decodedOrAbsent = (text: string | undefined): string | undefined =>
  text === undefined || text === '' ? undefined : decoded(text);

function readParameters(query: string | undefined): ReadonlyMap<string, string> {
  const read = new Map<string, string>();
  for (const part of (query ?? '').split('&')) {
    if (part === '') continue;
    const [name = '', ...value] = part.split('=');
    const key = decoded(name);
    if (!parameters.has(key)) throw new Error(`It has an unknown parameter: ${key}.`);
    read.set(key, decoded(value.join('=')));
  }
  return read;
}

function readPort(text: string): number {
  const port = Number(text);
  if (!/^\d{1,5}$/.test(text) || port < 1 || port > 65_535) throw new Error(`It has a bad port: ${text}.`);
  return port;
}

/** `host`, `host:port`, `[v6]` or `[v6]:port`, as they appear before the path. */
function readHost(text: string): { readonly host: string; readonly port: string } {
  const match = /^(?:\[([0-9a-fA-F:.%]+)\]|([^:[\]]*))(?::(\d*))?$/.exec(text);
  if (match === null) throw new Error(`It has a bad host: ${text}.`);
  return { host: decoded(match[1] ?? match[2] ?? ''), port: match[3] ?? '' };
}

/** Hosts of the authority, or those of `host=`; ports that are absent are the default, and one port counts for all hosts. */
function readHosts(authority: string, given: ReadonlyMap<string, string>): DatabaseAddress['hosts'] {
  const written = authority.split(',').map(readHost);
  const hosts = given.get('host')?.split(',') ?? written.map(({ host }) => host);
  const ports = given.get('port')?.split(',') ?? (given.has('host') ? [''] : written.map(({ port }) => port));
  if (ports.length !== 1 && ports.length !== hosts.length)
    throw new Error('The number of ports does not match the number of hosts.');
  const portOf = (index: number): string => (ports.length === 1 ? ports[0] : ports[index]) ?? '';
  const [first, ...others] = hosts.map((host, index): DatabaseHost => {
    const port = portOf(index);
    return {
      host: host === '' ? (process.env['PGHOST'] ?? 'localhost') : host,
      port: port === '' ? Number(process.env['PGPORT'] ?? defaultPort) : readPort(port),
    };
  });
  if (first === undefined) throw new Error('It has no host.');
  return [first, ...others];
}

function readMode(text: string): SslMode {
  const mode = sslModes.find((known) => known === text);
  if (mode === undefined) throw new Error(`Its sslmode must be one of ${sslModes.join(', ')}.`);
  return mode;
}

/** Files for TLS without TLS, or a check that checks no name, are a mistake that would go unnoticed. */
function readTls(given: ReadonlyMap<string, string>): DatabaseAddress['tls'] {
  const [rootCert, cert, key] = ['sslrootcert', 'sslcert', 'sslkey'].map((name) => given.get(name));
  if ((cert === undefined) !== (key === undefined))
    throw new Error('It must have both sslcert and sslkey, or neither.');
  const usual = rootCert === 'system' ? 'verify-full' : 'disable';
  const mode = readMode(given.get('sslmode') ?? usual);
  if (rootCert === 'system' && mode !== 'verify-full')
    throw new Error(
      'With sslrootcert=system its sslmode must be verify-full: anyone can get a certificate for some name.',
    );
  if (mode === 'disable' && (rootCert ?? cert) !== undefined)
    throw new Error('It has certificates but no TLS: add sslmode=verify-full.');
  return { mode, rootCert, cert, key };
}

/** Throws an error whose message is a sentence for the operator. */
export function parseDatabaseUrl(text: string): DatabaseAddress {
  if (!/^postgres(ql)?:\/\//.test(text)) throw new Error('It must start with postgres://.');
  const match = form.exec(text);
  if (match === null) throw new Error('It must be a URL like postgres://user:password@host:5432/database.');
  const [, account, authority = '', path, query] = match;
  const given = readParameters(query);
  const colon = account?.indexOf(':') ?? -1;
  const user = colon < 0 ? account : account?.slice(0, colon);
  if (!sessionAttributes.has(given.get('target_session_attrs') ?? 'any')) {
    throw new Error('Its target_session_attrs must be read-write: the server does not work on a standby.');
  }
  const seconds = Number(given.get('connect_timeout') ?? defaultConnectSeconds);
  if (!Number.isInteger(seconds) || seconds < 0) throw new Error('Its connect_timeout must be a number of seconds.');
  return {
    hosts: readHosts(authority, given),
    user: given.get('user') ?? decodedOrAbsent(user),
    password: given.get('password') ?? (colon < 0 ? undefined : decodedOrAbsent(account?.slice(colon + 1))),
    database: given.get('dbname') ?? decodedOrAbsent(path),
    connectTimeoutMs: (seconds === 0 ? defaultConnectSeconds : Math.max(2, seconds)) * 1000,
    tls: readTls(given),
  };
}

/** The URL for people and logs. */
export function withoutPassword(text: string): string {
  const { hosts, user, password, database, tls } = parseDatabaseUrl(text);
  const shown = hosts.map(({ host, port }) =>
    host.startsWith('/') ? host : `${host.includes(':') ? `[${host}]` : host}:${port}`,
  );
  const account = `${user ?? ''}${password === undefined ? '' : ':***'}`;
  return `${account}@${shown.join(',')}/${database ?? ''}${tls.mode === 'disable' ? '' : ` (sslmode ${tls.mode})`}`;
}
