/**
 * Measures how soon a stream ends when its token is revoked: at the server that was asked, and at another one on the same database. The
 * floor in the same run is PostgreSQL's own NOTIFY from one connection to another. Not measured: networks, and machines that do nothing else.
 */
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { Agent, request, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { Client } from 'pg';
import { openDatabase } from '../src/server/database/supervise.ts';
import { Api } from '../test/lib/http.ts';
import { temporaryDirectory } from '../test/lib/postgres.ts';
import { Program } from '../test/lib/run.ts';
import { showGoals } from './lib/goals.ts';
import { figure, table } from './lib/table.ts';

const rounds = Number(process.env['RINGFENCE_BENCH_ROUNDS'] ?? 200);
const warmUp = 20;
const token = 'operator-token-0123456789-0123456789';

const at = (sorted: readonly number[], share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;

function row(name: string, times: readonly number[]): string[] {
  const sorted = times.toSorted((a, b) => a - b);
  return [name, ...[at(sorted, 0.5), at(sorted, 0.99), sorted.at(-1) ?? Number.NaN].map((ms) => `${figure(ms)} ms`)];
}

/** An open stream that has shown its tail; `ended` resolves with the time of its last byte. */
async function openStream(agent: Agent, url: string, secret: string, org: string): Promise<{ ended: Promise<number> }> {
  const body = JSON.stringify([{ kind: 'device' }]);
  const asked = request(`${url}/api/organizations/${org}/events`, {
    method: 'POST',
    agent,
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
  });
  asked.end(body);
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  const ended = once(answer, 'end').then(() => performance.now());
  await new Promise<void>((resolve) => {
    answer.on('data', (chunk: Buffer) => {
      if (chunk.includes('tail')) resolve();
    });
  });
  return { ended };
}

/** From one connection's NOTIFY to another's hearing of it. */
async function floor(url: string): Promise<number[]> {
  const [teller, listener] = [new Client({ connectionString: url }), new Client({ connectionString: url })];
  await Promise.all([teller.connect(), listener.connect()]);
  await listener.query('LISTEN bench');
  const times: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const heard = once(listener, 'notification').then(() => performance.now());
    const begun = performance.now();
    await teller.query('NOTIFY bench');
    times.push((await heard) - begun);
  }
  await Promise.all([teller.end(), listener.end()]);
  return times;
}

const dir = await temporaryDirectory();
const program = await Program.build();
const database = await openDatabase({ dir });
const agent = new Agent();
const args = ['--database-url', database.url, '--workers', '1', '--rate-limit', '0', '--log-level', 'warn'];
async function start(name: string) {
  const options = ['server', '--data', join(dir, name), '--listen', '127.0.0.1:0', ...args];
  const run = program.run(options, { RINGFENCE_ADMIN_TOKEN: token });
  return { url: await run.url(), run };
}
try {
  const asked = await start('asked');
  const other = await start('other');
  const api = new Api(asked.url, token);
  try {
    const { id: org } = await api.expect(201, 'POST', '/api/organizations', { name: 'bench' });
    const times = { here: [] as number[], there: [] as number[], asking: [] as number[] };
    for (let round = 0; round < warmUp + rounds; round += 1) {
      const issued = await api.expect(201, 'POST', '/api/users/me/tokens', {});
      const [here, there] = await Promise.all(
        [asked, other].map(({ url }) => openStream(agent, url, issued.token, org)),
      );
      if (here === undefined || there === undefined) throw new Error('two streams were asked for');
      const begun = performance.now();
      await api.expect(200, 'DELETE', `/api/tokens/${issued.id}`);
      const answered = performance.now();
      const [endHere, endThere] = await Promise.all([here.ended, there.ended]);
      if (round < warmUp) continue;
      times.here.push(endHere - answered);
      times.there.push(endThere - answered);
      times.asking.push(endThere - begun);
    }
    const hears = await floor(database.url);
    console.log(`${rounds} revocations; a negative time is before the answer.`);
    console.log(
      table(
        ['from … to the end of the stream', 'median', 'p99', 'worst'],
        [
          row('DELETE answered, at the server that was asked', times.here),
          row('DELETE answered, at another server', times.there),
          row('DELETE sent, at another server', times.asking),
          row('floor: NOTIFY sent to NOTIFY heard', hears),
        ],
      ),
    );
    showGoals([
      {
        what: 'a stream of a revoked token ends, on every server, worst',
        goal: 1_000,
        measured: Math.max(...times.here, ...times.there),
        unit: 'ms',
        beside: `NOTIFY heard ${figure(Math.max(...hears))} ms`,
      },
    ]);
  } finally {
    api.close();
    await Promise.all([asked.run.stop(), other.run.stop()]);
  }
} finally {
  agent.destroy();
  await database.stop();
  await program.close();
  await rm(dir, { recursive: true, force: true, maxRetries: 20 });
}
