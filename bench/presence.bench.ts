/**
 * Measures what presence of 10,000 idle devices costs: streams over the server's own TLS by device tokens, each with a sign of life every 20 seconds, in turn with stretches of 20 seconds
 * in which the same streams show none. Heartbeats go on all the time. Not measured: changes, reports, proxies. The generator shares the machine's processors; only processor time of the
 * server and its database counts. Ends in about two and a half minutes on a quiet machine, most of which is for making devices and opening streams.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { defaultWatchSettings } from '../src/server/watch/settings.ts';
import { signEveryMs } from '../src/server/watch/signs.ts';
import type { Json } from '../test/lib/http.ts';
import { temporaryDirectory } from '../test/lib/postgres.ts';
import { Program } from '../test/lib/run.ts';
import { median, showGoals } from './lib/goals.ts';
import { ProcessorMeter, sumOf } from './lib/processor-time.ts';
import { figure, table } from './lib/table.ts';
import { makeCertificate } from './lib/tls.ts';
import { Fleet, makeDevices } from './receipts/fleet.ts';

const count = Number(process.env['RINGFENCE_BENCH_DEVICES'] ?? 10_000);
/** Pairs of stretches, with signs and without. */
const pairs = Number(process.env['RINGFENCE_BENCH_PAIRS'] ?? 2);
const everyMs = signEveryMs(defaultWatchSettings);
const adminToken = `rf_user_${'b'.repeat(43)}`;

const program = await Program.build();
const data = await temporaryDirectory();
let fleet: Fleet | undefined;
try {
  const { serverArguments } = makeCertificate(data);
  const options = '--listen 127.0.0.1:0 --log-level error --rate-limit 0 --workers 1 --max-address-connections 1000000';
  const args = ['server', '--data', join(data, 'database'), ...options.split(' '), ...serverArguments];
  const server = program.run(args, { RINGFENCE_ADMIN_TOKEN: adminToken });
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
  /** Percent of a core, in one interval of signs. */
  const idle = async (): Promise<number> => {
    const meter = new ProcessorMeter(pid);
    meter.start();
    const began = performance.now();
    await sleep(everyMs);
    meter.stop();
    return (sumOf(meter.total) / 1_000 / (performance.now() - began)) * 100;
  };
  await fleet.connect(undefined, everyMs);
  // What opening the streams leaves behind does not count, and every device has shown a sign.
  await sleep(everyMs);
  const [withSigns, without]: [number[], number[]] = [[], []];
  for (let pair = 0; pair < pairs; pair += 1) {
    withSigns.push(await idle());
    // A device may be silent for more than two intervals: none goes offline.
    fleet.showsSigns = false;
    without.push(await idle());
    fleet.showsSigns = true;
  }
  const online = (await api.expect(200, 'GET', `${base}/overview`)).online;
  if (online !== count) throw new Error(`${online} of ${count} devices are online`);
  const presence = median(withSigns) - median(without);
  const signs = (count * 1_000) / everyMs;
  console.log(
    table(
      [`${figure(count)} idle streams over TLS, stretches of ${everyMs / 1_000} s in turn`, '% of a core'],
      [
        ['with heartbeats only', without.map(figure).join(', ')],
        ['with heartbeats and signs of life', withSigns.map(figure).join(', ')],
      ],
    ),
  );
  showGoals([
    {
      what: 'presence of the idle fleet',
      goal: 3,
      measured: presence,
      unit: '% of a core',
      beside: `${figure((presence * 10_000) / signs)} µs a sign, ${figure(signs)} a second; with heartbeats ${figure(median(withSigns))} %`,
    },
  ]);
} finally {
  fleet?.close();
  await program.close();
  await rm(data, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
}
