/** Proves that an organization which is as full as its limits allow fits into the memory of a server that has just started, and delays nobody. */
import { rm } from 'node:fs/promises';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { Api } from '../lib/http.ts';
import { startPostgres, temporaryDirectory, type TestPostgres } from '../lib/postgres.ts';
import { Program, type Run } from '../lib/run.ts';
import { forgetPeak, peakMiB } from '../lib/turns.ts';
import { Victim } from '../lib/victim.ts';
import { longLabels } from './worst-requests.ts';

const token = `rf_user_${'b'.repeat(43)}`;
const mostMemoryMiB = 600;
/** Milliseconds of processor time of the loop, on any machine that runs tests. */
const longestWaitMs = 1_500;
let program: Program;
let postgres: TestPostgres;
let data: string;
let run: Run;
let admin: Api;

beforeAll(async () => {
  [program, postgres, data] = await Promise.all([Program.build(), startPostgres(), temporaryDirectory()]);
  const options = ['--workers', '1', '--rate-limit', '0', '--answer-timeout', '300'];
  run = program.run(['server', '--listen', '127.0.0.1:0', '--data', data, ...options], {
    RINGFENCE_ADMIN_TOKEN: token,
    RINGFENCE_DATABASE_URL: await postgres.freshUrl(),
  });
  admin = new Api(await run.url()).as(token);
});
afterAll(async () => {
  admin?.close();
  await program?.close();
  await postgres?.stop();
  await rm(data, { recursive: true, force: true });
});

async function person(username: string): Promise<string> {
  const { id } = await admin.expect(201, 'POST', '/api/users', { username });
  return (await admin.expect(201, 'POST', `/api/users/${id}/tokens`, {})).token;
}

test(
  'an organization full of groups that no device has fits into memory, and questions about it delay nobody',
  { timeout: 600_000 },
  async () => {
    const pid = run.child.pid ?? 0;
    const owner = admin.as(await person('owner'));
    const { id: org } = await owner.expect(201, 'POST', '/api/organizations', { name: 'full' });
    const base = `/api/organizations/${org}`;
    // More than a model may hold in memory, and less than the limits allow.
    for (let n = 0; n < 45; n += 1)
      await owner.expect(201, 'POST', `${base}/security_groups`, {
        group_name: `full ${n}`,
        inbound_rules: longLabels(n, 115),
      });
    const device = await owner.expect(201, 'POST', `${base}/devices`, { public_key: 'x', tunnel_ip: '10.0.0.1' });
    const victim = new Victim({ url: await run.url(), token: await person('victim'), pid });
    onTestFinished(() => victim.stop());
    await victim.waited();
    forgetPeak(pid);
    const ask = (method: string, path: string, body?: object): Promise<number> =>
      owner.status(method, `${base}${path}`, body === undefined ? {} : { body });
    for (const statuses of [
      await Promise.all(Array.from({ length: 8 }, () => ask('GET', '/overview'))),
      await Promise.all(Array.from({ length: 8 }, () => ask('POST', '/simulate', { delete: [device.id] }))),
    ])
      expect(new Set(statuses)).toEqual(new Set([200]));
    const waited = await victim.waited();
    expect(waited.refused).toBe(0);
    expect(waited.loopMs).toBeLessThan(longestWaitMs);
    expect(peakMiB(pid)).toBeLessThan(mostMemoryMiB);
  },
);
