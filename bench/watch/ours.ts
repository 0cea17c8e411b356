/** Owns our side of the watch benchmark: a real server process on a real PostgreSQL, written to through its API. */
import { asServer } from '../../src/server/store/data/actor.ts';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { serverRole } from '../../src/server/database/cluster.ts';
import { openDatabase, type Database } from '../../src/server/database/supervise.ts';
import { openStore } from '../../src/server/store/open.ts';
import { parseDeviceId, parseOrganizationId, parseUserId } from '../../src/policy/ids.ts';
import { asSuperuser } from '../../test/lib/postgres.ts';
import { LeanClient } from '../lib/http-load.ts';
import { startNginx, type Proxy } from './nginx.ts';
import { payload, type Peer, type Written } from './peers.ts';
import { freePort, nowNs, processor, processorSeconds, residentKb, Talker } from './tools.ts';

export const adminToken = `rf_user_${'b'.repeat(43)}`;

export interface Place {
  readonly org: string;
  readonly user: string;
  /** A device that writes go to. */
  readonly device: string;
}

export interface OursOptions {
  readonly program: string;
  readonly folder: string;
  readonly databaseUrl: string;
  readonly cpu?: string;
  /** Where it listens: this machine's first address unless given. */
  readonly host?: string;
  readonly args?: readonly string[];
  /** It speaks TLS itself, or a proxy in front of it does. */
  readonly security?: { readonly by: 'server' | 'nginx'; readonly cert: string; readonly key: string };
  /** Options of Node itself, to profile. */
  readonly node?: readonly string[];
}

export class Ours implements Peer {
  readonly name = 'Ringfence';
  readonly isSecured: boolean;
  readonly alsoPids: readonly number[];
  readonly protocol = 'http';
  readonly ready = '"tail"';
  readonly port: number;
  readonly databaseUrl: string;
  readonly #server: Talker;
  readonly #proxy: Proxy | undefined;
  /** Where the server itself is reached, past the proxy. */
  readonly #origin: string;
  readonly writers = 128;
  /** Writers share the processors with the server: what a request costs them is no part of it, so they are lean. */
  readonly #client: LeanClient;
  place: Place = { org: '', user: '', device: '' };
  /** What writes go to, in turn. */
  #devices: readonly string[] = [];
  #written = 0;

  private constructor(parts: {
    server: Talker;
    port: number;
    databaseUrl: string;
    proxy?: Proxy | undefined;
    isSecured: boolean;
  }) {
    this.#server = parts.server;
    this.port = parts.proxy?.port ?? parts.port;
    this.isSecured = parts.isSecured || parts.proxy !== undefined;
    this.alsoPids = parts.proxy === undefined ? [] : [parts.proxy.pid];
    this.#proxy = parts.proxy;
    this.#origin = `${parts.isSecured ? 'https' : 'http'}://127.0.0.1:${parts.port}`;
    this.databaseUrl = parts.databaseUrl;
    this.#client = new LeanClient({ url: this.#origin, token: adminToken }, this.writers);
  }

  static async start(options: OursOptions): Promise<Ours> {
    const port = await freePort();
    const {
      program,
      folder,
      databaseUrl,
      cpu = processor.server,
      args = [],
      node = [],
      security,
      host = '127.0.0.1',
    } = options;
    const isSecured = security?.by === 'server';
    const limits = [
      // All its clients come from this machine.
      '--max-address-connections',
      '1000000',
      '--rate-limit',
      '0',
      '--log-level',
      'error',
      '--stream-max-age',
      '86400',
      '--max-streams',
      '1000000',
      ...(isSecured ? ['--tls-cert', security.cert, '--tls-key', security.key] : []),
      ...args,
    ];
    const command = [process.execPath, ...node, program, 'server', '--listen', `${host}:${port}`, ...limits];
    const server = new Talker(command, cpu, {
      RINGFENCE_DATABASE_URL: databaseUrl,
      RINGFENCE_DATA: join(folder, `data-${port}`),
      RINGFENCE_ADMIN_TOKEN: adminToken,
      RINGFENCE_WORKERS: '1',
      // All streams of a measurement are one credential's.
      RINGFENCE_MAX_STREAMS: '1000000',
    });
    await server.hears('ready');
    const proxy = security?.by === 'nginx' ? await startNginx(folder, port, security) : undefined;
    return new Ours({ server, port, databaseUrl, proxy, isSecured });
  }

  get pid(): number {
    return this.#server.pid;
  }

  /** A watch request as it goes over the wire. */
  watch(items: readonly object[]): Buffer {
    const body = JSON.stringify(items);
    const head = [
      `POST /api/organizations/${this.place.org}/events HTTP/1.1`,
      `Host: 127.0.0.1:${this.port}`,
      `Authorization: Bearer ${adminToken}`,
      'Content-Type: application/json',
      `Content-Length: ${body.length}`,
    ];
    return Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`);
  }

  get request(): Buffer {
    return this.watch([{ kind: 'device' }]);
  }

  /** Sets up an organization with one device. */
  async settle(): Promise<this> {
    const { id: user } = await this.ask('GET', '/api/users/me');
    const { id: org } = await this.ask('POST', '/api/organizations', { name: 'bench' });
    const { id: device } = await this.ask('POST', `/api/organizations/${String(org)}/devices`, { public_key: 'one' });
    this.place = { org: String(org), user: String(user), device: String(device) };
    return this;
  }

  /** The document of a device without texts has about 390 bytes; its hostname makes up for the rest. */
  async write(bytes: number): Promise<Written> {
    const { org } = this.place;
    const device = this.#devices[(this.#written += 1) % this.#devices.length] ?? this.place.device;
    const sent = nowNs();
    await this.ask('PATCH', `/api/organizations/${org}/devices/${device}`, {
      hostname: payload(Math.max(18, bytes - 420)),
    });
    return { sent, acknowledged: nowNs() };
  }

  /** As a fleet does, many at once write to many devices: two writes to one record wait for each other. */
  async crowd(): Promise<void> {
    const path = `/api/organizations/${this.place.org}/devices`;
    const make = async (_: unknown, index: number): Promise<string> =>
      String((await this.ask('POST', path, { public_key: `writer-${index}` }))['id']);
    this.#devices = await Promise.all(Array.from({ length: this.writers }, make));
  }

  async ask(method: string, path: string, body?: unknown): Promise<Record<string, unknown>> {
    const asked = { method, path, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
    const answer = await this.#client.ask(asked);
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.body}`);
    return JSON.parse(answer.body) as Record<string, unknown>;
  }

  /** The organization's head. */
  async head(): Promise<number> {
    return Number((await this.ask('GET', `/api/organizations/${this.place.org}`))['revision']);
  }

  /** So many changes of the one device, put in beside the API. */
  async fillChanges(changes: number, bytes: number): Promise<void> {
    const store = await openStore({ url: this.databaseUrl, phase: 3 });
    const [org, user_id] = [parseOrganizationId(this.place.org), parseUserId(this.place.user)];
    const device = parseDeviceId(this.place.device);
    let made = 0;
    const work = async (): Promise<void> => {
      while (made < changes) {
        made += 1;
        await store.devices.update(org, { user_id, ...asServer }, device, { hostname: payload(bytes - 420) });
      }
    };
    await Promise.all(Array.from({ length: 64 }, work));
    await store.close();
  }

  /** Waits until so many workers serve. */
  async hasWorkers(count: number): Promise<void> {
    for (let i = 0; i < 600; i += 1, await sleep(100)) {
      const text = (await this.#client.ask({ method: 'GET', path: '/metrics' })).body;
      if (text.includes(`ringfence_workers ${count}\n`)) return;
    }
    throw new Error(`there are not ${count} workers`);
  }

  /** Many devices, each with a marker in its document, put in beside the API to save time. */
  async fill(devices: number): Promise<void> {
    // As many as an organization may have, beside the one that it has already.
    const store = await openStore({ url: this.databaseUrl, phase: 3, quotas: { devices: devices + 1 } });
    const [org, user_id] = [parseOrganizationId(this.place.org), parseUserId(this.place.user)];
    let made = 0;
    const work = async (): Promise<void> => {
      while (made < devices) {
        made += 1;
        await store.devices.create(
          org,
          { user_id, ...asServer },
          {
            user_id,
            security_groups: [],
            fields: {
              public_key: `fill-${made}`,
              local_ip: '',
              tunnel_ip: '',
              child_prefix: null,
              relay: false,
              discovery: false,
              reflexive_ip4: '',
              endpoint_local_address_ip4: '',
              symmetric_nat: false,
              hostname: payload(80),
              addresses: [],
              labels: [],
            },
          },
        );
      }
    };
    await Promise.all(Array.from({ length: 256 }, work));
    await store.close();
    await sleep(500);
  }

  /** Seconds of processor time that it has taken so far: unlike the clock's, they do not grow when others are busy. */
  cpu(): number {
    return [this.pid, ...this.#workers()].reduce((sum, pid) => sum + processorSeconds(pid), 0);
  }

  /** Resident memory of all its processes. */
  residentKb(): number {
    return [this.pid, ...this.#workers()].reduce((sum, pid) => sum + residentKb(pid), 0);
  }

  /** How many connections each process that serves holds. */
  sockets(): readonly number[] {
    const serving = this.#workers().length > 0 ? this.#workers() : [this.pid];
    return serving.map((pid) => readdirSync(`/proc/${pid}/fd`).length);
  }

  #workers(): readonly number[] {
    const children = readFileSync(`/proc/${this.pid}/task/${this.pid}/children`, 'utf8');
    return children.trim().split(' ').filter(Boolean).map(Number);
  }

  async stop(): Promise<void> {
    this.#client.close();
    await this.#proxy?.stop();
    await this.#server.stop('SIGKILL');
  }

  /** As an operator stops it; a profiled one writes its profile then. */
  async quit(): Promise<void> {
    this.#client.close();
    await this.#server.stop('SIGTERM');
  }
}

export class BenchDatabase {
  readonly #database: Database;
  #made = 0;

  private constructor(database: Database) {
    this.#database = database;
  }

  static async start(folder: string): Promise<BenchDatabase> {
    return new BenchDatabase(
      await openDatabase({ dir: join(folder, 'postgres'), settings: { max_connections: '300' } }),
    );
  }

  async fresh(): Promise<string> {
    this.#made += 1;
    await this.ask(`CREATE DATABASE bench_${this.#made} OWNER ${serverRole}`, asSuperuser(this.#database.url));
    return this.#database.url.replace('/postgres?', `/bench_${this.#made}?`);
  }

  async ask(sql: string, url = this.#database.url): Promise<readonly Record<string, unknown>[]> {
    const client = new Client({ connectionString: url });
    client.on('error', () => {});
    await client.connect();
    try {
      return (await client.query<Record<string, unknown>>(sql)).rows;
    } finally {
      await client.end();
    }
  }

  /** Transactions that a database has seen. */
  async transactions(url: string): Promise<number> {
    // Counts are handed in by each connection within a second.
    await sleep(1_500);
    const sql = 'SELECT xact_commit + xact_rollback AS n FROM pg_stat_database WHERE datname = current_database()';
    return Number((await this.ask(sql, url))[0]?.['n'] ?? 0);
  }

  stop(): Promise<void> {
    return this.#database.stop();
  }
}
