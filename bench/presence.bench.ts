/**
 * Measures what presence of 10,000 idle devices costs: streams over the server's own TLS by device tokens, each with a sign of life every 20 seconds, beside as many streams of user
 * tokens without signs. Both get heartbeats. Not measured: changes, reports, proxies. The generator shares the machine's processors; only processor time of the server and its database counts.
 */
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { defaultWatchSettings } from '../src/server/watch/settings.ts';
import { signEveryMs } from '../src/server/watch/signs.ts';
import { first } from '../test/lib/certificates.ts';
import type { Json } from '../test/lib/http.ts';
import { temporaryDirectory } from '../test/lib/postgres.ts';
import { Program } from '../test/lib/run.ts';
import { showGoals } from './lib/goals.ts';
import { ProcessorMeter, sumOf } from './lib/processor-time.ts';
import { figure, table } from './lib/table.ts';
import { Fleet, makeDevices } from './receipts/fleet.ts';

const count = Number(process.env['RINGFENCE_BENCH_DEVICES'] ?? 10_000);
const idleSeconds = Number(process.env['RINGFENCE_BENCH_IDLE'] ?? 60);
/** As many as one credential may hold. */
const streamsOfToken = 1_000;
const adminToken = `rf_user_${'b'.repeat(43)}`;

const program = await Program.build();
const data = await temporaryDirectory();
let fleet: Fleet | undefined;
try {
  const [cert, key] = [join(data, 'tls.crt'), join(data, 'tls.key')];
  await Promise.all([writeFile(cert, first.cert), writeFile(key, first.key)]);
  const options = `--listen 127.0.0.1:0 --log-level error --rate-limit 0 --workers 1 --max-address-connections 1000000 --tls-cert ${cert} --tls-key ${key}`;
  const server = program.run(['server', '--data', join(data, 'database'), ...options.split(' ')], {
    RINGFENCE_ADMIN_TOKEN: adminToken,
  });
  const url = await server.url();
  // The certificate is the benchmark's own.
  process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0';
  const headers = { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' };
  const api = {
    async expect(status: number, method: string, path: string, body?: unknown): Promise<Json> {
      const answer = await fetch(`${url}${path}`, {
        method,
        headers,
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      if (answer.status !== status) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
      return answer.json();
    },
  };
  const { id: org } = await api.expect(201, 'POST', '/api/organizations', { name: 'bench' });
  const base = `/api/organizations/${org}`;
  const group = await api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'all' });
  fleet = new Fleet(url, org, await makeDevices(api, base, group.id, count));
  const pid = server.child.pid ?? 0;
  /** Percent of a core. */
  const idle = async (): Promise<number> => {
    // What opening the streams leaves behind does not count.
    await sleep(10_000);
    const meter = new ProcessorMeter(pid);
    meter.start();
    const began = performance.now();
    await sleep(idleSeconds * 1_000);
    meter.stop();
    return (sumOf(meter.total) / 1_000 / (performance.now() - began)) * 100;
  };

  const tokens = await Promise.all(
    Array.from({ length: Math.ceil(count / streamsOfToken) }, (_, index) =>
      api.expect(201, 'POST', `/api/users/me/tokens`, { name: `streams ${index}` }),
    ),
  );
  await fleet.connect((_, index) => tokens[Math.floor(index / streamsOfToken)].token);
  const without = await idle();
  fleet.disconnect();
  await fleet.connect(undefined, signEveryMs(defaultWatchSettings));
  const withSigns = await idle();
  const online = (await api.expect(200, 'GET', `${base}/overview`)).online;
  if (online !== count) throw new Error(`${online} of ${count} devices are online`);
  const presence = withSigns - without;
  const signs = (count * 1_000) / signEveryMs(defaultWatchSettings);
  console.log(
    table(
      [`${figure(count)} idle streams over TLS, ${idleSeconds} s`, '% of a core'],
      [
        ['with heartbeats only', figure(without)],
        ['with heartbeats and signs of life', figure(withSigns)],
      ],
    ),
  );
  showGoals([
    {
      what: 'presence of the idle fleet',
      goal: 3,
      measured: presence,
      unit: '% of a core',
      beside: `${figure((presence * 10_000) / signs)} µs a sign, ${figure(signs)} a second; with heartbeats ${figure(withSigns)} %`,
    },
  ]);
} finally {
  fleet?.close();
  await program.close();
  await rm(data, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
}
