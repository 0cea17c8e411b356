/** Owns the description of the configuration for the operator. */
import { audiencesOf, type ServerConfig } from './config.ts';
import { withoutPassword } from './database-url.ts';

function describeRates(config: ServerConfig): string {
  if (config.rateLimit === 0) return 'rate limits off';
  const rate = (perSecond: number, burst: number): string =>
    perSecond === 0 ? 'off' : `${perSecond}/s, burst ${burst}`;
  return [
    `rate limit ${rate(config.rateLimit, config.rateBurst)}`,
    `an address without a credential ${rate(config.addressRateLimit, config.addressRateBurst)}`,
    `failed credentials ${rate(config.failedRateLimit, config.failedRateBurst)}`,
  ].join('; ');
}

/** The configuration in words, for `--check-config` and the log; passwords stay out. */
export function describeConfig(config: ServerConfig): readonly string[] {
  const database =
    config.databaseUrl === undefined ? `embedded PostgreSQL in ${config.data}` : withoutPassword(config.databaseUrl);
  const { host, port } = config.listen;
  const audiences = audiencesOf(config);
  return [
    `listen ${host.includes(':') ? `[${host}]` : host}:${port}`,
    ...(config.tlsCert === undefined ? [] : [`certificate ${config.tlsCert}`]),
    ...(config.trustedProxy === undefined ? [] : [`trusted proxies ${config.trustedProxy.join(', ')}`]),
    `database ${database}`,
    ...(config.databaseListenUrl === undefined ? [] : [`listens at ${withoutPassword(config.databaseListenUrl)}`]),
    `workers ${config.workers}`,
    `phase ${config.phase}`,
    describeRates(config),
    `limits ${config.maxRules} rules a direction, ${config.maxRanges} ranges, names ${config.maxName}, descriptions ${config.maxDescription}, bodies ${config.maxBody} bytes with rules, ${config.maxPlainBody} without`,
    `connections ${config.maxConnections ?? 'as many as open files allow'}, ${config.maxAddressConnections} an address; a first byte within ${config.firstByteTimeout} s`,
    `bodies that wait for an answer ${config.maxUserBodyMemory} bytes a user, ${config.maxAddressBodyMemory} an address, ${config.maxBodyMemory} a process`,
    `tokens of devices renewed before they are ${config.tokenMaxAge} s old`,
    `deletions kept ${config.keepDeletions} days, the audit ${config.keepAudit} days`,
    `streams heartbeat ${config.streamHeartbeat} s, age ${config.streamMaxAge} s, stuck ${config.streamStuck} s, silent ${config.streamSilent} s; at most ${config.maxStreams} a user's credential, ${config.maxDeviceStreams} a device, ${config.maxOrganizationStreams} an organization; ${config.maxWaits} waits a user`,
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
