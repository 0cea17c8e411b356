/**
 * Owns what attackers of each kind send: the worst that is known of what they may send, one after the other. It runs in a process of
 * its own and paces itself, by requests and by bytes: what is tried here is cunning, not the machine's own capacity.
 */
import { randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { worstPolicy } from '../../src/policy/worst-policies.fixture.ts';
import { Api, type Asked } from '../../test/lib/http.ts';

export const attackers = [
  'stranger',
  'read-only token',
  'member',
  'device token',
  'waiter',
  'owner elsewhere',
  'asker',
  'tester elsewhere',
] as const;
export type Attacker = (typeof attackers)[number];

/** What an attacker has to work with. */
export interface Foothold {
  readonly url: string;
  readonly org: string;
  readonly device: string;
  /** Absent for a stranger. */
  readonly token?: string | undefined;
}

interface Shot {
  readonly method: string;
  readonly path: string;
  readonly asked?: Asked;
  readonly token?: string | undefined;
}

/** One thing after the other, for ever; each may look at what came of the one before. */
type Attack = (foothold: Foothold, api: Api) => Promise<readonly Shot[]> | readonly Shot[];

const MiB = 1_048_576;
const get = (path: string): Shot => ({ method: 'GET', path });
const post = (path: string, raw: string | Buffer): Shot => ({ method: 'POST', path, asked: { raw } });
const brackets = '['.repeat(4 * MiB - 1_024);
const deep = `${'[{"a":'.repeat(50_000)}1${'}]'.repeat(50_000)}`;
const unknownFields = `[{"kind":"device",${Array.from({ length: 300_000 }, (_, i) => `"f${i}":1`).join(',')}}]`;
const emptyRanges = `{"group_name":"x","inbound_rules":[{"ip_protocol":"tcp","from_port":1,"to_port":1,"ip_ranges":[${'"",'.repeat(1_300_000)}""]}]}`;
const manyRules = JSON.stringify({
  group_name: 'many',
  inbound_rules: Array.from({ length: 1_000 }, (_, i) => ({ ip_protocol: 'tcp', from_port: 65_535 - i, to_port: i })),
});
const ranges = JSON.stringify({
  group_name: 'ranges',
  inbound_rules: Array.from({ length: 10 }, (_, i) => ({
    ip_protocol: 'ip',
    from_port: i + 1,
    to_port: 60_000 + i,
    ip_ranges: Array.from(
      { length: 999 },
      (_none, j) => `10.${i}.${j >> 8}.${j & 255}-10.${i}.${(j >> 8) + 4}.${j & 255}`,
    ),
  })),
});

const stranger: Attack = ({ org }) => [
  get(`/${'eyJ'.repeat(5_300)}`),
  post('/nope', brackets),
  get('/metrics'),
  get('/readyz'),
  get(`/api/organizations/${org}/devices`),
  get(`/nowhere/${randomBytes(8).toString('hex')}`),
  { ...get('/api/users/me'), token: `rf_user_${randomBytes(32).toString('base64url')}` },
  { ...get('/api/users/me'), token: `${'eyJhbGciOiJSUzI1NiJ9.'.repeat(2)}${'A'.repeat(6_000)}` },
  { method: 'GET', path: '/', asked: { headers: { cookie: 'a=1; '.repeat(2_000), accept: 'a/b;q=0.1,'.repeat(700) } } },
  post(`/api/organizations/${org}/events`, unknownFields),
];

const reader: Attack = ({ org }) => [
  post(`/api/organizations/${org}/events`, unknownFields),
  post(`/api/organizations/${org}/events`, deep),
  post(`/api/organizations/${org}/security_groups`, emptyRanges),
  get(`/api/organizations/${org}/devices`),
  get(`/api/organizations/${org}/security_groups`),
  get(`/api/organizations/${org}/devices?after=${'z'.repeat(3_000)}`),
  get(`/api/organizations/${org}/devices?limit=10000&gt_revision=${'9'.repeat(3_000)}`),
];

const member: Attack = async ({ org, url }, api) => {
  const issued = await api.ask('POST', '/api/users/me/tokens', { body: {} });
  const id = String(issued.json?.id ?? 'none');
  const group = await api.ask('POST', `/api/user/${org}/security_groups`, { raw: ranges });
  return [
    post(`/api/user/${org}/security_groups`, emptyRanges),
    post(`/api/user/${org}/security_groups`, manyRules),
    post(`/api/user/${org}/security_groups`, deep),
    ...Array.from({ length: 5 }, () => post(`/api/tokens/${id}/rotate`, '')),
    { method: 'DELETE', path: `/api/tokens/${id}` },
    { method: 'DELETE', path: `/api/user/${org}/security_groups/${String(group.json?.id ?? 'none')}` },
    post(`/api/organizations/${org}/enrollment_keys`, '{"uses":1}'),
    ...(await reader({ org, url, device: '' }, api)),
  ];
};

const device: Attack = ({ org, device: id }) => [
  post(`/api/organizations/${org}/events`, unknownFields),
  { method: 'PATCH', path: `/api/organizations/${org}/devices/${id}`, asked: { body: { local_ip: '10.0.0.1:1' } } },
  { method: 'PUT', path: `/api/organizations/${org}/devices/${id}/status`, asked: { raw: brackets } },
  get(`/api/organizations/${org}/devices`),
  get(`/api/organizations/${org}/security_groups`),
];

/** Waits for every revision that there is, again and again: the answers never come in its time. */
const waiter: Attack = async ({ org }, api) => {
  const { json } = await api.ask('GET', `/api/organizations/${org}/convergence?limit=1`);
  const head = Number(json?.revision ?? 1);
  return Array.from({ length: 100 }, (_, index) =>
    get(`/api/organizations/${org}/convergence?wait=120&revision=${Math.max(0, head - index)}`),
  );
};

/** In an organization of its own, with devices by the thousand: groups that apply to all of them come and go, and so do labels. */
const labels: Attack = async ({ org, device: id }, api) => {
  const base = `/api/organizations/${org}`;
  const rule = {
    ip_protocol: 'tcp',
    from_port: 1,
    to_port: 65_535,
    peers: [{ all_devices: true }, { labels: ['l1'] }],
  };
  const group = await api.ask('POST', `${base}/security_groups`, {
    body: { group_name: 'all', applies_to: [{ all_devices: true }, { labels: ['l1'] }], inbound_rules: [rule] },
  });
  const made = `${base}/security_groups/${String(group.json?.id ?? 'none')}`;
  const patch = (path: string, body: object): Shot => ({
    method: 'PATCH',
    path: `${path}?detach=true`,
    asked: { body },
  });
  return [
    ...Array.from({ length: 10 }, (_, index) => patch(`${base}/devices/${id}`, { labels: [`l${index % 2}`] })),
    patch(made, { applies_to: [{ labels: ['l0'] }] }),
    patch(made, { applies_to: [{ all_devices: true }] }),
    get(`${base}/convergence`),
    get(`${base}/device_statuses`),
    get(`${base}/devices/${id}/groups`),
    { method: 'DELETE', path: `${made}?detach=true` },
  ];
};

/** Five groups of ranges that overlap, and one device with all of them. */
const overlapping = worstPolicy({
  groups: 5,
  rules: 990,
  ranges: 10,
  addresses: 'windows',
  ports: 'short',
  protocols: 'both',
  families: 'v4',
  directions: 1,
  seed: 1,
}).groups.map(({ inbound }) => JSON.stringify({ group_name: 'overlapping', inbound_rules: inbound }));

/** Devices and groups that are already there, by the organization: what was made once is asked about again and again. */
const made = new Map<string, Promise<string>>();

async function heavyDevice(org: string, api: Api): Promise<string> {
  const ids: string[] = [];
  for (const raw of overlapping) {
    const { json } = await api.ask('POST', `/api/user/${org}/security_groups`, { raw });
    if (typeof json?.id === 'string') ids.push(json.id);
  }
  const body = { public_key: 'heavy', tunnel_ip: '100.127.0.1', security_groups: ids };
  const { json } = await api.ask('POST', `/api/organizations/${org}/devices`, { body });
  return String(json?.id ?? 'none');
}

/** A member who asks the dearest questions about its own device, many at once. */
const asker: Attack = async ({ org, device: other }, api) => {
  const heavy = made.get(org) ?? heavyDevice(org, api);
  made.set(org, heavy);
  const id = await heavy;
  const base = `/api/organizations/${org}`;
  const at = new Date().toISOString();
  return [
    ...Array.from({ length: 20 }, (_, n) => get(`${base}/explain?from=${id}&to=10.0.0.${n}&protocol=tcp&port=65535`)),
    ...Array.from({ length: 5 }, () => post(`${base}/simulate`, JSON.stringify({ delete: [id] }))),
    ...Array.from({ length: 5 }, () =>
      post(`${base}/simulate`, JSON.stringify({ devices: [{ id, security_groups: [] }] })),
    ),
    post(`${base}/devices/${id}/evidence`, JSON.stringify({ at })),
    post(`${base}/propose`, JSON.stringify({ device_ids: [id, other] })),
    get(`${base}/flows?limit=10000`),
    get(`${base}/unused_rules`),
    get(`${base}/devices/${id}/groups`),
  ];
};

/** A thousand policy tests between labels, judged by every question and every write. */
const thousandTests = JSON.stringify(
  Array.from({ length: 1_000 }, (_, n) => ({
    name: `test ${n}`,
    from: { labels: [`l${n % 2}`] },
    to: { all_devices: true },
    protocol: 'tcp',
    port: 1 + n,
    expect: 'refuse',
  })),
);

/** In an organization of its own, with devices by the thousand: policy tests, previews and changes of very many records. */
const tester: Attack = async ({ org, device: id }, api) => {
  const base = `/api/organizations/${org}`;
  const { json } = await api.ask('GET', `${base}/devices?limit=1000`);
  const ids = (Array.isArray(json) ? json : []).map((one: { id: string }) => one.id).filter((one) => one !== id);
  const relabel = (label: string): string =>
    JSON.stringify({ devices: ids.map((one) => ({ id: one, labels: [label] })) });
  return [
    { method: 'PUT', path: `${base}/policy_tests?skip_tests=true`, asked: { raw: thousandTests } },
    ...Array.from({ length: 5 }, () => post(`${base}/simulate`, '{}')),
    ...Array.from({ length: 5 }, () => post(`${base}/simulate`, JSON.stringify({ delete: ids }))),
    post(`${base}/changes?skip_tests=true`, relabel('l0')),
    post(`${base}/changes?skip_tests=true`, relabel('l1')),
    post(`${base}/devices/${id}/isolate`, '{"reason":"x"}'),
    { method: 'DELETE', path: `${base}/devices/${id}/isolate` },
    { method: 'PUT', path: `${base}/policy_tests`, asked: { raw: '[]' } },
  ];
};

const repertoire: { readonly [Kind in Attacker]: Attack } = {
  stranger,
  'read-only token': reader,
  member,
  'device token': device,
  waiter,
  'owner elsewhere': labels,
  asker,
  'tester elsewhere': tester,
};

/** Connections that never finish their request, and streams that are never read. */
class Sockets {
  readonly #open: Socket[] = [];
  readonly #foothold: Foothold;

  constructor(foothold: Foothold) {
    this.#foothold = foothold;
  }

  another(): void {
    const { url, org, token } = this.#foothold;
    const { hostname, port } = new URL(url);
    const socket = connect(Number(port), hostname).on('error', () => {});
    if (token === undefined) socket.write('GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ');
    else {
      const body = '[{"kind":"device"},{"kind":"security-groups"}]';
      socket.pause();
      socket.write(
        `POST /api/organizations/${org}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n` +
          `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      );
    }
    this.#open.push(socket);
    if (this.#open.length > 1_200) this.#open.shift()?.destroy();
  }
}

export interface Pace {
  readonly requestsPerSecond: number;
  readonly bytesPerSecond: number;
}

/** Attacks until the process is ended. Reports its start, and then the responses so far. */
export async function attack(kind: Attacker, foothold: Foothold, pace: Pace): Promise<never> {
  const api = new Api(foothold.url, foothold.token);
  const sockets = new Sockets(foothold);
  const statuses = new Map<string, number>();
  process.send?.({});
  setInterval(() => process.send?.(Object.fromEntries(statuses)), 200);
  const shoot = async ({ method, path, asked, token }: Shot): Promise<void> => {
    const answer = await (token === undefined ? api : api.as(token)).ask(method, path, asked).catch(() => undefined);
    const status = String(answer?.status ?? 'cut off');
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
  };
  for (;;) {
    const shots = await repertoire[kind](foothold, api);
    for (const shot of shots) {
      const bytes = Buffer.byteLength(shot.asked?.raw ?? '') + shot.path.length;
      void shoot(shot);
      sockets.another();
      await sleep(1_000 * Math.max(1 / pace.requestsPerSecond, bytes / pace.bytesPerSecond));
    }
  }
}
