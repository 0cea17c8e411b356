/** Owns how the process accepts connections: its certificate, its port, the connection limits, and the shutdown. */
import type { LookupAddress } from 'node:dns';
import { lookup } from 'node:dns/promises';
import { createServer, type AddressInfo } from 'node:net';
import type { Server as TlsServer } from 'node:tls';
import type { FastifyInstance } from 'fastify';
import type { Log } from './http/observe/log.ts';
import type { Metrics } from './http/observe/metrics.ts';
import type { Health } from './http/pages/health.ts';
import { Connections } from './http/listener/connections.ts';
import { fittingConnections } from './http/listener/descriptors.ts';
import { acceptQueue } from './http/listener/shared-listener.ts';
import { readPair, renewals, secureContextOf, ticketPeriodMs, type TicketSecret } from './http/listener/tls.ts';
import type { ServerConfig } from './options/config.ts';
import { innermost, isSystemError, StartError } from './lifecycle/start-error.ts';

/** Gives the secret of the current period. */
type TicketSecrets = { ticketSecret(periodMs: number): Promise<TicketSecret> };

export interface TlsTimes {
  /** How often the certificate's files are looked at. */
  readonly renewalMs?: number | undefined;
  /** How long a key of session tickets is used. */
  readonly ticketPeriodMs?: number | undefined;
}

/** The certificate and what keeps it renewed once there is a server; undefined where plain HTTP is served. */
export async function openTls(config: ServerConfig, log: Log, store: TicketSecrets, times: TlsTimes) {
  const { tlsCert: cert, tlsKey: key } = config;
  if (cert === undefined || key === undefined) return undefined;
  const files = { cert, key };
  const pair = await readPair(files).catch((error: unknown) => {
    throw new StartError([`cannot use the certificate ${cert} with the key ${key}: ${innermost(error)}`]);
  });
  const ticketSecret = () => store.ticketSecret(times.ticketPeriodMs ?? ticketPeriodMs);
  const tickets = await ticketSecret();
  const onRenewed = () => log.info('the certificate was renewed');
  const options = { files, everyMs: times.renewalMs ?? 5_000, ticketSecret, onRenewed };
  return {
    context: secureContextOf(pair, tickets.secret),
    renewals: (server: TlsServer) => renewals(server, { pair, tickets }, options),
  };
}

/** The connections that the process may keep. `reserved` descriptors are left for what it opens itself. */
export async function openConnections(config: ServerConfig, metrics: Metrics, reserved: number): Promise<Connections> {
  const fitting = await fittingConnections(reserved);
  return new Connections({
    limits: {
      total: Math.min(config.maxConnections ?? fitting, fitting),
      perAddress: config.maxAddressConnections,
      firstByteMs: config.firstByteTimeout * 1000,
    },
    trustedProxies: config.trustedProxy ?? [],
    onEnd: (reason) => metrics.connectionsEnded.inc({ reason }),
    onHandshake: (kind) => metrics.tlsHandshakes.inc({ kind }),
  });
}

export async function listen(app: FastifyInstance, config: ServerConfig): Promise<string> {
  const { host, port } = config.listen;
  try {
    await app.listen({ host, port, backlog: acceptQueue });
  } catch (error) {
    if (!isSystemError(error)) throw error;
    const shown = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
    if (error.code !== 'EADDRINUSE') throw new StartError([`cannot listen on ${shown}: ${error.message}`]);
    const free = await freePort(host, port);
    const hint = free === undefined ? '' : `; try --listen ${shown.replace(/:\d+$/, `:${free}`)}`;
    throw new StartError([`cannot listen on ${shown}: another program already uses this address${hint}`]);
  }
  const { address, port: taken, family } = app.server.address() as AddressInfo;
  const reachable = address === '::' || address === '0.0.0.0' ? 'localhost' : address;
  const scheme = config.tlsCert === undefined ? 'http' : 'https';
  return `${scheme}://${family === 'IPv6' && reachable !== 'localhost' ? `[${reachable}]` : reachable}:${taken}`;
}

/** A port near the one that is taken: 8090 for 8080. */
async function freePort(host: string, taken: number): Promise<number | undefined> {
  const candidates = Array.from({ length: 10 }, (_, index) => taken + 10 * (index + 1));
  for (const port of candidates.filter((one) => one <= 65_535)) if (await isFree(host, port)) return port;
  return undefined;
}

const isFree = (host: string, port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => resolve(true)));
  });

/** For `localhost`, Fastify opens a second server for the other family, whose connections have no bounds. So the server listens at one address. */
export async function oneAddress(
  host: string,
  find = (name: string): Promise<readonly LookupAddress[]> => lookup(name, { all: true }),
): Promise<string> {
  if (host !== 'localhost') return host;
  const found = await find(host).catch((): readonly LookupAddress[] => []);
  return (found.find(({ family }) => family === 4) ?? found[0])?.address ?? '127.0.0.1';
}

export interface ServingParts {
  readonly app: FastifyInstance;
  readonly connections: Connections;
  readonly health: Health;
  readonly watch: { drain(longestMs: number): Promise<void>; close(): void };
  readonly convergence: { close(): void };
}

/** No new requests; streams end; requests in flight may finish, but not for ever. */
export async function stopServing(parts: ServingParts, timeoutMs: number): Promise<void> {
  const { app, connections, health, watch, convergence } = parts;
  health.drain();
  // Waiting requests fail with `unavailable`, so that their clients retry at another server.
  convergence.close();
  const cut = setTimeout(() => {
    app.server.closeAllConnections();
    connections.close();
    watch.close();
  }, timeoutMs);
  const closed = app.close();
  connections.endUnheard();
  await Promise.all([watch.drain(timeoutMs / 2), closed]);
  clearTimeout(cut);
  connections.close();
}

/** This part of the shutdown time is reserved for closing what requests used. */
const closingMs = 2_000;

/** How long requests in flight may continue, for this shutdown time. */
export const requestTimeoutMs = (shutdownMs: number): number => shutdownMs - Math.min(closingMs, shutdownMs / 4);
