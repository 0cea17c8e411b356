/** Owns a server over its own TLS on a database of the benchmark, with an organization whose devices report traffic, for the measures of reports and of pages. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Client as DatabaseClient } from 'pg';
import { ruleIdOf } from '../../src/policy/rule-identity/rule-id.ts';
import { openDatabase, type Database } from '../../src/server/database/supervise.ts';
import type { FlowSum } from '../../src/server/store/data/flows.ts';
import type { Json } from '../../test/lib/http.ts';
import { temporaryDirectory } from '../../test/lib/postgres.ts';
import { Program } from '../../test/lib/run.ts';
import { makeCertificate } from '../lib/tls.ts';
import { makeDevices, type BenchDevice } from '../receipts/fleet.ts';

const adminToken = `rf_user_${'b'.repeat(43)}`;
export const tuplesPerReport = 100;

const ports = [22, 53, 80, 123, 443, 3_306, 5_432, 6_379, 8_080, 9_090];
/** A rule for each port and protocol of the traffic. */
export const rules = (['tcp', 'udp'] as const).flatMap((ip_protocol) =>
  ports.map((port) => ({ ip_protocol, from_port: port, to_port: port })),
);

export interface FlowPlace {
  readonly url: string;
  readonly token: string;
  readonly org: string;
  readonly base: string;
  readonly devices: readonly BenchDevice[];
  /** The rules of the group that all of them have, as reports name them, in the order of `rules`. */
  readonly reportedRules: readonly { readonly group_id: string; readonly rule_id: string }[];
  readonly database: Database;
  /** Processes of the server and of PostgreSQL. */
  readonly pids: readonly number[];
  readonly expect: (status: number, method: string, path: string, body?: unknown) => Promise<Json>;
  readonly query: <Row>(sql: string, values?: readonly unknown[]) => Promise<readonly Row[]>;
  close(): Promise<void>;
}

export async function openFlowPlace(count: number): Promise<FlowPlace> {
  const folder = await temporaryDirectory();
  const program = await Program.build();
  // Statistics come when a measure asks for them.
  const database = await openDatabase({ dir: join(folder, 'database'), settings: { autovacuum: 'off' } });
  const close = async (): Promise<void> => {
    await program.close();
    await database.stop();
    await rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  };
  try {
    const { serverArguments } = makeCertificate(folder);
    const options =
      '--listen 127.0.0.1:0 --log-level error --rate-limit 0 --workers 1 --max-address-connections 100000';
    const args = ['server', '--database-url', database.url, ...options.split(' '), ...serverArguments];
    const server = program.run(args, { RINGFENCE_ADMIN_TOKEN: adminToken });
    const url = await server.url();
    // The certificate is the benchmark's own.
    process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0';
    const headers = { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' };
    const expect: FlowPlace['expect'] = async (status, method, path, body) => {
      const json = body === undefined ? {} : { body: JSON.stringify(body) };
      const answer = await fetch(`${url}${path}`, { method, headers, ...json });
      if (answer.status !== status) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
      return answer.json();
    };
    const { id: org } = await expect(201, 'POST', '/api/organizations', { name: 'bench' });
    const base = `/api/organizations/${org}`;
    await expect(200, 'PATCH', base, { observe: 'all' });
    const group = await expect(201, 'POST', `${base}/security_groups`, {
      group_name: 'all',
      inbound_rules: rules,
    });
    const reportedRules = rules.map((rule) => ({ group_id: String(group.id), rule_id: ruleIdOf('inbound', rule) }));
    const devices = await makeDevices({ expect }, base, group.id, count);
    const query: FlowPlace['query'] = async <Row>(sql: string, values: readonly unknown[] = []) => {
      const client = new DatabaseClient({ connectionString: database.url });
      await client.connect();
      try {
        return (await client.query(sql, [...values])).rows as Row[];
      } finally {
        await client.end();
      }
    };
    const pids = [server.child.pid ?? 0, database.pid ?? 0];
    return { url, token: adminToken, org, base, devices, reportedRules, database, pids, expect, query, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Traffic of a device as a fleet has it: some hundred far ends of five thousand, well-known ports, a tenth refused. */
export const sumsOf = (seed: number): readonly FlowSum[] =>
  Array.from({ length: tuplesPerReport }, (_, index) => {
    const n = Math.imul(seed * tuplesPerReport + index + 1, 2_654_435_761) >>> 0;
    return {
      direction: n % 3 === 0 ? 'out' : 'in',
      verdict: n % 10 === 0 ? 'refused' : 'admitted',
      family: 4,
      far: BigInt(0x0a00_0000 + (n % 5_000)),
      protocol: n % 7 === 0 ? 17 : 6,
      port: ports[(n >>> 8) % ports.length] ?? 443,
      packets: 1 + (n % 50),
    };
  });
