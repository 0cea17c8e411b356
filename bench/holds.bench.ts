/**
 * Measures how long a fleet holds the event loop: the longest turn, by the processor time of the loop's thread, while a
 * server counts, samples, judges and follows an organization of thousands of devices. `RINGFENCE_BENCH_DEVICES` (sizes,
 * separated by commas); `RINGFENCE_BENCH_NAMES=1` shows what ran in the longest turn. Floor: the same in an
 * organization of 10 devices. Not measured: the time of the database.
 */
import { asServer } from '../src/server/store/data/actor.ts';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { digestForm } from '../src/policy/digest/digest-form.ts';
import { FleetCounts } from '../src/server/convergence/fleet-counts.ts';
import { Sampler } from '../src/server/convergence/sampler.ts';
import { startConvergence, type ConvergenceService } from '../src/server/convergence/service.ts';
import { openDatabase } from '../src/server/database/supervise.ts';
import { createLog } from '../src/server/http/observe/log.ts';
import { serverConfig } from '../src/server/options/config.ts';
import { startServer, type RunningServer } from '../src/server/serve.ts';
import { device } from '../src/server/store/store.fixture.ts';
import { DueWorkLoop } from '../src/server/scheduling/due-work.ts';
import { processSlices } from '../src/server/scheduling/time-slices.ts';
import { startWebhooks } from '../src/server/webhooks/service.ts';
import type { DeviceId } from '../src/policy/ids.ts';
import { parseGroupId, parseOrganizationId, parseUserId } from '../src/policy/ids.ts';
import { Api, type Asked, type Json } from '../test/lib/http.ts';
import { temporaryDirectory } from '../test/lib/postgres.ts';
import { longestHold, type Hold } from './holds/loop-turns.ts';
import { median } from './lib/goals.ts';
import { figure, table } from './lib/table.ts';

const sizes = (process.env['RINGFENCE_BENCH_DEVICES'] ?? '10,2000,10000').split(',').map(Number);
const rounds = Number(process.env['RINGFENCE_BENCH_ROUNDS'] ?? 5);
const named = process.env['RINGFENCE_BENCH_NAMES'] !== undefined;
const adminToken = `rf_user_${'h'.repeat(43)}`;

/** Asks in a process of its own, so that only the server is on the loop that is watched. */
if (process.argv[2] === 'client') {
  process.on('message', ([url, method, path, asked]: [string, string, string, Asked]) => {
    const api = new Api(url, adminToken);
    void api.ask(method, path, asked).then(({ status, json }) => {
      api.close();
      process.send?.({ status, json: method === 'GET' ? undefined : json });
    });
  });
  await once(process, 'disconnect');
  process.exit(0);
}
const client = fork(fileURLToPath(import.meta.url), ['client']);

async function ask(url: string, method: string, path: string, asked: Asked = {}): Promise<Json> {
  const answered = once(client, 'message');
  client.send([url, method, path, asked]);
  const [{ status, json }] = (await answered) as [{ status: number; json: Json }];
  if (status >= 300) throw new Error(`${method} ${path} was answered ${status}: ${JSON.stringify(json)}`);
  return json;
}

const data = await temporaryDirectory();
const database = await openDatabase({ dir: data, settings: { max_connections: '300' } });
const serve = (): Promise<RunningServer> =>
  startServer(
    serverConfig(
      { listen: { host: '127.0.0.1', port: 0 }, data, databaseUrl: database.url, rateLimit: 0, workers: 1 },
      { env: { RINGFENCE_ADMIN_TOKEN: adminToken }, isRoot: false },
    ),
    { log: createLog('error') },
  );

interface Scene {
  readonly server: RunningServer;
  readonly org: ReturnType<typeof parseOrganizationId>;
  readonly user: ReturnType<typeof parseUserId>;
  readonly base: string;
  readonly group: string;
  readonly devices: readonly DeviceId[];
}

/** Devices by four labels, with groups by list and by label, and rules that name devices; each has reported and holds a stream. */
async function prepare(server: RunningServer, count: number): Promise<Scene> {
  const { store, url } = server;
  const { id: organization, owner_id } = await ask(url, 'POST', '/api/organizations', {
    body: { name: `of ${count}` },
  });
  const [org, user] = [parseOrganizationId(organization), parseUserId(owner_id)];
  const base = `/api/organizations/${org}`;
  const rule = (port: number, peers?: readonly object[]) => ({
    ip_protocol: 'tcp',
    from_port: port,
    to_port: port,
    peers,
  });
  const make = (body: object): Promise<Json> => ask(url, 'POST', `${base}/security_groups`, { body });
  const { id: group } = await make({ group_name: 'listed', inbound_rules: [rule(22)] });
  await make({
    group_name: 'by label',
    applies_to: [{ labels: ['l0'] }],
    inbound_rules: [rule(443, [{ labels: ['l1'] }, { all_devices: true }])],
  });
  const devices: DeviceId[] = [];
  for (let from = 0; from < count; from += 500) {
    const made = await Promise.all(
      Array.from({ length: Math.min(500, count - from) }, (_, index) => {
        const n = from + index;
        const fields = {
          hostname: `host-${n}`,
          labels: ['fleet', `l${n % 4}`],
          tunnel_ip: `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`,
        };
        return store.devices.create(
          org,
          { user_id: user, ...asServer },
          device(user, { fields, security_groups: [parseGroupId(group)] }),
        );
      }),
    );
    devices.push(...made.map(({ record: { id } }) => id));
    const process_id = '00000000-0000-4000-8000-000000000001';
    await store.presence.record(
      process_id,
      0,
      made.map(({ record: { id } }) => ({
        device_id: id,
        connected: true,
        twoWay: true,
        silenceMs: 45_000,
        heardAgoMs: 0,
      })),
    );
    await Promise.all(
      made.map(({ record: { id }, revision }) => store.receipts.report(org, id, statusOf(revision), asServer)),
    );
  }
  return { server, org, user, base, group, devices };
}

/** Hours that are observed, and sums of each device and hour. */
const [hours, sumsPerHour] = [10, 10];
const observed = new WeakMap<Scene, Promise<{ readonly watched: string }>>();

/** Each device has observed traffic with addresses, and with devices by a service that half of them have; a group watches. */
function observe(scene: Scene): Promise<{ readonly watched: string }> {
  const known = observed.get(scene) ?? observeNow(scene);
  observed.set(scene, known);
  return known;
}

async function observeNow({ server, org, base, devices }: Scene): Promise<{ readonly watched: string }> {
  const now = Date.now();
  const time = (ago: number): string => new Date(now - ago * 3_600_000).toISOString();
  for (let hour = hours; hour > 0; hour -= 1) {
    for (let from = 0; from < devices.length; from += 500) {
      await Promise.all(
        devices.slice(from, from + 500).map((id, index) => {
          const sums = Array.from({ length: sumsPerHour }, (_, n) => ({
            direction: n % 3 === 0 ? ('out' as const) : ('in' as const),
            verdict: n === 5 ? ('refused' as const) : ('admitted' as const),
            family: 4 as const,
            far:
              n % 2 === 0 ? BigInt(0x0a000000 + ((from + index + n) % devices.length)) : BigInt(0xc6330000 + from + n),
            protocol: 6,
            port: 1_000 + n,
            packets: 3,
          }));
          const batch = { since: time(hour), until: time(hour - 1), observed: 'all' as const, sums, not_recorded: 0 };
          return server.store.flows.report(org, id, batch, asServer);
        }),
      );
    }
  }
  const body = {
    group_name: 'watched',
    mode: 'observe',
    applies_to: [{ labels: ['fleet'] }],
    inbound_rules: [{ ip_protocol: 'tcp', from_port: 1_001, to_port: 1_001 }],
  };
  const { id } = await ask(server.url, 'POST', `${base}/security_groups`, { body });
  return { watched: id };
}

const statusOf = (revision: number) => ({
  state: 'applied',
  revision,
  policy_digest: 'a'.repeat(64),
  policy_digest_form: digestForm,
  agent_version: '1.2.3',
  drift_repairs: 0,
  groups: [{ name: 'listed', inbound_rules: 1, outbound_rules: 0 }],
  detail: 'x'.repeat(300),
});

const fresh = ({ server: { store } }: Scene): ConvergenceService =>
  startConvergence({
    store,
    receipts: { ask: () => {}, onReported: () => () => {} },
    monotonic: () => performance.now(),
    now: () => Date.now(),
    slices: processSlices(),
  });
const onWarning = (message: string, cause: unknown): void => console.error(message, cause);

/** Each is done `rounds` times by somebody who knows nothing of the organization yet. */
const scenes: Readonly<Record<string, (scene: Scene, round: number) => Promise<Hold>>> = {
  async 'fleet counts of the metrics'(scene) {
    const convergence = fresh(scene);
    const fleetCounts = new FleetCounts({
      store: { organizations: { ids: () => Promise.resolve([scene.org]) } },
      convergence,
      monotonic: () => performance.now(),
      onWarning,
    });
    const hold = await longestHold(async () => {
      fleetCounts.read();
      await fleetCounts.settled();
    }, named);
    convergence.close();
    return hold;
  },

  async 'sample of the overview'(scene) {
    const convergence = fresh(scene);
    const samples = { ...scene.server.store.samples, claim: () => Promise.resolve([scene.org]) };
    const sampler = new Sampler({ samples, convergence, clock: Date.now, onWarning });
    const hold = await longestHold(() => sampler.flush(), named);
    convergence.close();
    return hold;
  },

  async 'look for alerts'(scene) {
    const { store } = scene.server;
    const convergence = fresh(scene);
    const fields = {
      name: 'x',
      url: 'https://receiver.test',
      events: ['device.failed', 'device.offline'] as const,
      offline_after: 60,
    };
    const { id } = await store.webhooks.create(
      scene.org,
      { user_id: scene.user, ...asServer },
      { ...fields, secret: 'x' },
    );
    const hold = await longestHold(async () => {
      let told = (): void => {};
      const looked = new Promise<void>((resolve) => (told = resolve));
      const due = new DueWorkLoop({ leases: store.leases, onWarning });
      startWebhooks({
        start: (work) => due.start(work),
        store: {
          ...store,
          webhooks: {
            ...store.webhooks,
            claimDeliveries: () => Promise.resolve([]),
            tell: (...what) => store.webhooks.tell(...what).finally(told),
          },
        },
        convergence,
        slices: processSlices(),
        hosts: [],
        clock: Date.now,
        random: Math.random,
        outcomes: { inc: () => {} },
        onWarning,
        settings: { settleMs: 0, scanEveryMs: 0 },
      });
      await looked;
      await due.close();
    }, named);
    await store.webhooks.delete(scene.org, { user_id: scene.user, ...asServer }, id);
    convergence.close();
    return hold;
  },

  async 'first GET …/convergence?limit=100'(scene) {
    const server = await serve();
    const hold = await longestHold(() => ask(server.url, 'GET', `${scene.base}/convergence?limit=100`), named);
    await server.close();
    return hold;
  },

  async 'GET …/device_statuses'({ server: { url }, base }) {
    return longestHold(() => ask(url, 'GET', `${base}/device_statuses`), named);
  },

  async 'POST …/propose, of all devices'(scene) {
    await observe(scene);
    const asked = { body: { labels: ['fleet'] } };
    return longestHold(() => ask(scene.server.url, 'POST', `${scene.base}/propose`, asked), named);
  },

  async 'GET …/unused_rules'(scene) {
    await observe(scene);
    return longestHold(() => ask(scene.server.url, 'GET', `${scene.base}/unused_rules`), named);
  },

  async 'GET …/observation of a watch-only group'(scene) {
    const { watched } = await observe(scene);
    const path = `${scene.base}/security_groups/${watched}/observation`;
    return longestHold(() => ask(scene.server.url, 'GET', path), named);
  },

  async 'POST …/evidence of a device'(scene) {
    await observe(scene);
    const asked = { body: { at: new Date(Date.now() - 60_000).toISOString(), to: new Date().toISOString() } };
    const path = `${scene.base}/devices/${scene.devices[0]}/evidence`;
    return longestHold(() => ask(scene.server.url, 'POST', path, asked), named);
  },

  async 'group change while somebody waits'(scene, round) {
    return whileWaiting(scene, () =>
      ask(scene.server.url, 'PATCH', `${scene.base}/security_groups/${scene.group}`, {
        body: { inbound_rules: [{ ip_protocol: 'tcp', from_port: 1_000 + round, to_port: 1_000 + round }] },
      }),
    );
  },

  async 'group by label comes and goes while somebody waits'(scene, round) {
    return whileWaiting(scene, async () => {
      const { url } = scene.server;
      const { id } = await ask(url, 'POST', `${scene.base}/security_groups`, {
        body: { group_name: `all ${round}`, applies_to: [{ all_devices: true }] },
      });
      await ask(url, 'DELETE', `${scene.base}/security_groups/${id}?detach=true`);
    });
  },

  async 'label change while somebody waits'(scene, round) {
    const labels = [`l${(round + 1) % 4}`];
    return whileWaiting(scene, () =>
      ask(scene.server.url, 'PATCH', `${scene.base}/devices/${scene.devices[0]}?detach=true`, { body: { labels } }),
    );
  },
};

/** The change, and some looks of the one who waits, who has looked before. */
async function whileWaiting({ server: { url }, base }: Scene, change: () => Promise<unknown>): Promise<Hold> {
  const api = new Api(url, adminToken);
  const waiting = api.ask('GET', `${base}/convergence?wait=6&limit=1`);
  await sleep(2_500);
  const hold = await longestHold(async () => {
    await change();
    await sleep(2_500);
  }, named);
  await waiting;
  api.close();
  return hold;
}

const wanted = process.argv.slice(2);
const holds = new Map<string, string[]>();
try {
  for (const count of sizes) {
    const server = await serve();
    const scene = await prepare(server, count);
    for (const [name, measure] of Object.entries(scenes)) {
      if (wanted.length > 0 && !wanted.some((part) => name.includes(part))) continue;
      const found: Hold[] = [];
      for (let round = 0; round < rounds; round += 1) found.push(await measure(scene, round));
      const times = found.map(({ ms }) => ms);
      holds.set(name, [...(holds.get(name) ?? []), `${figure(median(times))} (${figure(Math.max(...times))})`]);
      if (named)
        console.log(
          `${count} devices, ${name}: ${found.map(({ ms, names }) => `\n  ${figure(ms)} ms: ${names}`).join('')}`,
        );
    }
    await server.close();
  }
  console.log(`\nLongest hold of the loop in ms of processor time, ${rounds} rounds: median (worst)\n`);
  console.log(
    table(
      ['what', ...sizes.map((count) => `${count} devices`)],
      [...holds].map(([name, cells]) => [name, ...cells]),
    ),
  );
} finally {
  client.disconnect();
  await database.stop();
  await rm(data, { recursive: true, force: true, maxRetries: 20 });
}
