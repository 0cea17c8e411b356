/** Owns the fleet in the pictures of the docs: twelve devices, whose agents are played by reports with true digests. */
import { Client } from 'pg';
import { canonicalize } from '../../src/policy/canonicalize.ts';
import { digestForm } from '../../src/policy/digest/digest-form.ts';
import { policyDigest } from '../../src/policy/digest/digest.ts';
import { deviceIdentity } from '../../src/policy/fleet/identity.ts';
import { Fleet } from '../../src/policy/fleet/fleet.ts';
import { readGroupRecord } from '../../src/policy/fleet/group-record.ts';
import { resolvePolicy } from '../../src/policy/fleet/resolve.ts';
import type { Json } from '../lib/http.ts';
import type { TestServer } from '../lib/server.ts';
import { EventStream } from '../lib/stream.ts';

export interface PicturedFleet {
  readonly org: string;
  readonly token: string;
  readonly devices: ReadonlyMap<string, string>;
  readonly database: string;
  close(): void;
}

const tcp = (port: number, ...labels: readonly string[]): Json => ({
  ip_protocol: 'tcp',
  from_port: port,
  to_port: port,
  ...(labels.length > 0 && { peers: labels.map((label) => ({ labels: [label] })) }),
});

const byLabel = (label: string): Json => [{ labels: [label] }];

const groups: readonly Json[] = [
  {
    group_name: 'web',
    group_description: 'HTTPS for everyone',
    applies_to: byLabel('web'),
    inbound_rules: [tcp(443), tcp(22, 'bastion')],
  },
  {
    group_name: 'app',
    group_description: 'The application behind the web servers',
    applies_to: byLabel('app'),
    inbound_rules: [tcp(8080, 'web'), tcp(22, 'bastion')],
  },
  {
    group_name: 'database',
    group_description: 'PostgreSQL from the application',
    applies_to: byLabel('db'),
    inbound_rules: [tcp(5432, 'app'), tcp(22, 'bastion')],
  },
  {
    group_name: 'monitoring',
    group_description: 'Dashboards, from inside',
    applies_to: byLabel('monitoring'),
    inbound_rules: [tcp(3000, 'bastion')],
  },
  {
    group_name: 'no-telnet',
    guardrail: 'forbid',
    applies_to: [{ all_devices: true }],
    inbound_rules: [tcp(23)],
  },
];

const hosts: readonly (readonly [hostname: string, ...labels: string[]])[] = [
  ['app-1', 'app', 'prod'],
  ['app-2', 'app', 'prod'],
  ['app-3', 'app', 'canary'],
  ['bastion', 'bastion', 'prod'],
  ['build-1', 'build'],
  ['cache-1', 'cache', 'prod'],
  ['db-1', 'db', 'prod'],
  ['db-2', 'db', 'eu/fra', 'prod'],
  ['edge-1', 'web', 'eu/fra'],
  ['monitoring-1', 'monitoring', 'prod'],
  ['web-2', 'web', 'prod'],
  ['web-3', 'web', 'prod'],
];
const neverSeen = 'db-1';
const failed = 'edge-1';

const flow = { direction: 'in', verdict: 'refused', protocol: 'tcp' };
/** What was refused in the last minute. */
const refused: Readonly<Record<string, readonly Json[]>> = {
  'db-2': [
    { ...flow, far: '100.64.0.6', port: 5432, packets: 12 },
    { ...flow, far: '100.64.0.3', port: 6432, packets: 3 },
  ],
  'app-1': [{ ...flow, far: '100.64.0.11', port: 9100, packets: 48 }],
  'web-2': [
    { ...flow, far: '198.51.100.23', port: 22, packets: 1_204 },
    { ...flow, far: '100.64.0.5', port: 23, packets: 1 },
  ],
};

async function reportRefused(server: TestServer, base: string, records: readonly Json[]): Promise<void> {
  const now = Date.now();
  const times = { since: new Date(now - 60_000).toISOString(), until: new Date(now).toISOString() };
  for (const { id, hostname, device_token } of records) {
    const tuples = refused[hostname];
    if (tuples === undefined) continue;
    const report = { ...times, observed: 'refused', tuples, not_recorded: 0 };
    await server.nobody.as(device_token).expect(200, 'POST', `${base}/devices/${id}/flows`, report);
  }
}

/** A day of samples, one for every five minutes, with one bad moment. */
async function writeSamples(url: string, org: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(
      `INSERT INTO fleet_samples (org_id, at, is_claimed, devices, in_force, admitted, refused)
       SELECT $1, date_bin('5 minutes', now(), 'epoch') - n * interval '5 minutes', true, 12,
              CASE WHEN n BETWEEN 110 AND 118 THEN 7 ELSE 10 END,
              (2000000 + 400000 * sin(n / 46.0))::bigint, CASE WHEN n BETWEEN 70 AND 72 THEN 90000 ELSE 8000 END
       FROM generate_series(1, 288) AS n`,
      [org],
    );
  } finally {
    await client.end();
  }
}

export async function newPicturedFleet(server: TestServer): Promise<PicturedFleet> {
  const { id: user } = await server.admin.expect(201, 'POST', '/api/users', { username: 'ada' });
  const { token } = await server.admin.expect(201, 'POST', `/api/users/${user}/tokens`, {});
  const api = server.nobody.as(token);
  const { id: org } = await api.expect(201, 'POST', '/api/organizations', { name: 'Northwind' });
  const base = `/api/organizations/${org}`;
  const made: Json[] = [];
  for (const group of groups) made.push(await api.expect(201, 'POST', `${base}/security_groups`, group));
  const records: Json[] = [];
  for (const [index, [hostname, ...labels]] of hosts.entries()) {
    const body = { public_key: `key of ${hostname}`, hostname, labels, tunnel_ip: `100.64.0.${index + 2}` };
    records.push(await api.expect(201, 'POST', `${base}/devices`, body));
  }
  await api.expect(201, 'POST', `${base}/enrollment_keys`, { name: 'next rack', uses: 12 });
  const database = made.find(({ group_name }) => group_name === 'database');
  const inbound_rules = [tcp(5432, 'app'), tcp(22, 'bastion'), tcp(9187, 'monitoring')];
  const changed = await api.expect(200, 'PATCH', `${base}/security_groups/${database.id}`, { inbound_rules });
  const all: Json[] = await api.expect(200, 'GET', `${base}/security_groups`);
  const fleet = new Fleet(records.map((record) => deviceIdentity(record)));

  const streams: EventStream[] = [];
  for (const { id, hostname, device_token } of records) {
    if (hostname === neverSeen) continue;
    streams.push(new EventStream(server.url, device_token, org, [{ kind: 'device', view: 'identity' }]));
    const applied: readonly Json[] = await api.expect(200, 'GET', `${base}/devices/${id}/groups`);
    const inEffect = new Set(applied.map(({ group_id }) => group_id));
    const chosen = all.filter((group) => inEffect.has(group.id)).map((group) => readGroupRecord(group));
    const of = (kind: 'forbid' | 'require' | undefined) => chosen.filter(({ guardrail }) => guardrail === kind);
    const policy = {
      source: 'list',
      groups: of(undefined),
      guardrails: { forbid: of('forbid'), require: of('require') },
    } as const;
    const group_packets = [{ group_id: database.id, inbound: 1_374, outbound: 3 }];
    await server.nobody.as(device_token).expect(200, 'PUT', `${base}/devices/${id}/status`, {
      ...(hostname === failed
        ? { state: 'failed', detail: 'The kernel refused the rules: no such interface wg0.' }
        : { state: 'applied', policy_digest: policyDigest(canonicalize(resolvePolicy(policy, fleet))) }),
      policy_digest_form: digestForm,
      revision: changed.revision,
      interface: 'wg0',
      agent_version: '0.1.0',
      ...(inEffect.has(database.id) && { group_packets }),
    });
  }
  await api.expect(200, 'PATCH', base, { observe: 'refused' });
  await reportRefused(server, base, records);
  await writeSamples(server.databaseUrl, org);
  return {
    org,
    token,
    devices: new Map(records.map(({ hostname, id }) => [hostname, id])),
    database: database.id,
    close: () => {
      for (const stream of streams) stream.close();
    },
  };
}
