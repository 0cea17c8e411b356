/** Owns a small fleet worth looking at: people, groups and devices as a team might have them. */
import type { Api, Json } from '../lib/http.ts';
import { newPlace, type Place, type TestServer } from '../lib/server.ts';

export interface Fleet extends Place {
  readonly groups: Readonly<Record<'web' | 'database' | 'operations' | 'mine', string>>;
  readonly devices: readonly string[];
  /** Another organization of the same owner, with nothing in it. */
  readonly empty: string;
}

const tcp = (port: number, ip_ranges?: readonly string[]): object => ({
  ip_protocol: 'tcp',
  from_port: port,
  to_port: port,
  ...(ip_ranges === undefined ? {} : { ip_ranges }),
});

export async function newFleet(server: TestServer): Promise<Fleet> {
  const place = await newPlace(server);
  const { owner, member, base, org } = place;
  await owner.api.expect(200, 'PATCH', base, { name: 'Northwind' });
  const group = async (by: Api, path: string, body: object): Promise<string> =>
    (await by.expect(201, 'POST', path, body)).id as string;
  const ours = `${base}/security_groups`;
  const web = await group(owner.api, ours, {
    group_name: 'web servers',
    group_description: 'HTTPS for everyone, SSH from operations.',
    inbound_rules: [tcp(443), tcp(80), tcp(22, ['100.64.0.0/28', 'fd00:7::/64'])],
  });
  const database = await group(owner.api, ours, {
    group_name: 'databases',
    group_description: 'Only the application may talk to PostgreSQL; nothing goes out but DNS and time.',
    inbound_rules: [tcp(5432, ['100.64.0.16-100.64.0.31']), tcp(9187, ['100.64.0.2'])],
    outbound_rules: [
      { ip_protocol: 'ip', from_port: 53, to_port: 53 },
      { ip_protocol: 'udp', from_port: 123, to_port: 123 },
    ],
  });
  const operations = await group(owner.api, ours, {
    group_name: 'operations',
    group_description: 'Monitoring and ping.',
    inbound_rules: [
      tcp(9100, ['100.64.0.2']),
      { ip_protocol: 'icmp', from_port: 0, to_port: 0, ip_ranges: ['100.64.0.0/24'] },
    ],
  });
  const mine = await group(member.api, `/api/user/${org}/security_groups`, {
    group_name: 'laptop',
    inbound_rules: [tcp(22, ['100.64.0.2'])],
  });
  const rows: readonly (readonly [string, string, Json])[] = [
    ['bastion', '100.64.0.2', {}],
    ['web-1', '100.64.0.17', { security_groups: [web, operations], labels: ['app', 'prod'] }],
    ['web-2', '100.64.0.18', { security_groups: [web, operations], labels: ['app', 'canary'] }],
    [
      'db-primary',
      '100.64.0.33',
      { security_groups: [database, operations], labels: ['db', 'eu/fra', 'primary', 'prod'] },
    ],
    ['db-replica', '100.64.0.34', { security_groups: [database, operations], labels: ['db', 'prod'] }],
    ['build', '100.64.0.40', {}],
    ['laptop-kim', '100.64.0.90', { user_id: member.id, security_groups: [mine] }],
  ];
  /** Two stand out: one has not caught up, one could not. */
  const healthy = { state: 'applied', interface: 'wg0', agent_version: '0.1.0' };
  const reports: Readonly<Record<string, Json>> = {
    'web-2': healthy,
    'db-replica': { ...healthy, state: 'failed', detail: 'The kernel refused the rules: no such interface wg0.' },
  };
  await owner.api.expect(200, 'PATCH', base, { observe: 'all' });
  const tuple = { direction: 'in', verdict: 'refused', protocol: 'tcp', packets: 12 };
  const observed: Readonly<Record<string, readonly Json[]>> = {
    'db-primary': [
      { ...tuple, far: '100.64.0.40', port: 5432 },
      { ...tuple, far: '100.64.0.17', port: 6379, packets: 1 },
      { ...tuple, far: '100.64.0.18', port: 5432, verdict: 'admitted' },
      { ...tuple, far: '192.0.2.200', port: 443, direction: 'out', packets: 1_204 },
    ],
    bastion: [
      { ...tuple, verdict: 'admitted', far: '100.64.0.17', port: 22, packets: 34 },
      { ...tuple, verdict: 'admitted', far: '198.51.100.77', port: 22, packets: 1 },
      { direction: 'in', verdict: 'admitted', far: '198.51.100.77', protocol: '47', packets: 2 },
      { ...tuple, verdict: 'admitted', direction: 'out', far: '100.64.0.33', port: 5432 },
    ],
    'web-1': [
      { ...tuple, far: '2001:db8:7a1f::1c:9e02', port: 22, packets: 3 },
      { direction: 'in', verdict: 'refused', far: '198.51.100.23', protocol: '47', packets: 2 },
    ],
  };
  const minute = Date.now();
  const devices: string[] = [];
  for (const [hostname, tunnel_ip, more] of rows) {
    const body = {
      public_key: `key of ${hostname}`,
      hostname,
      tunnel_ip,
      local_ip: `192.0.2.${devices.length + 10}:51820`,
      ...more,
    };
    const device = await owner.api.expect(201, 'POST', `${base}/devices`, body);
    devices.push(device.id as string);
    if (hostname === 'build') continue;
    await server.nobody.as(device.device_token as string).expect(200, 'PUT', `${base}/devices/${device.id}/status`, {
      ...(reports[hostname] ?? healthy),
      revision: hostname in reports ? 1 : device.revision,
    });
    const tuples = observed[hostname];
    if (tuples === undefined) continue;
    await server.nobody.as(device.device_token as string).expect(200, 'POST', `${base}/devices/${device.id}/flows`, {
      since: new Date(minute - 60_000).toISOString(),
      until: new Date(minute).toISOString(),
      observed: 'all',
      tuples,
      not_recorded: hostname === 'web-1' ? 7 : 0,
    });
  }
  await owner.api.expect(201, 'POST', '/api/users/me/tokens', { name: 'deploy script' });
  const expires_at = new Date(Date.now() + 30 * 86_400_000).toISOString();
  const body = { name: 'dashboard', scope: 'read-only', expires_at };
  await owner.api.expect(201, 'POST', '/api/users/me/tokens', body);
  const key = { name: 'next rack', uses: 12, security_groups: [web, operations] };
  await member.api.expect(201, 'POST', `${base}/enrollment_keys`, { name: 'spare laptop' });
  await owner.api.expect(201, 'POST', `${base}/enrollment_keys`, key);
  const { id: empty } = await owner.api.expect(201, 'POST', '/api/organizations', { name: 'Fresh start' });
  return { ...place, empty, groups: { web, database, operations, mine }, devices };
}
