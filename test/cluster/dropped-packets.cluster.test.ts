/**
 * Proves what happens while the packets between a server and its database are dropped: callers get clear answers, readers keep their streams or go to another
 * server, and afterwards nothing is lost. Nothing hangs; how long answers took is printed.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { InformerSource } from '../../src/agent/source/informer-policy-source.ts';
import { choosingFetch } from '../../src/agent/source/server-choice.ts';
import { Client } from '../../src/client/http.ts';
import { createNodeFetch } from '../../src/node/fetch.ts';
import { adminToken } from '../faults/replicas.ts';
import { DatabaseNode } from '../lib/database-node.ts';
import { eventually } from '../lib/eventually.ts';
import { Api } from '../lib/http.ts';
import { Namespace } from '../lib/netns.ts';
import { Program } from '../lib/run.ts';
import { EventStream } from '../lib/stream.ts';
import { ServerNamespace } from './server-namespace.ts';

const answerTimeout = 5;
/** No measures: an answer or a server that takes longer hangs. */
const [hungAnswerMs, hungMs] = [3 * answerTimeout * 1_000, 60_000];

/** A database, and so many servers, each with its own cable to it. All are ready. */
async function startServers(count: number): Promise<readonly ServerNamespace[]> {
  const program = await Program.build();
  onTestFinished(() => program.close());
  const folder = await mkdtemp(join(tmpdir(), 'rf-cut-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const database = await Namespace.create();
  onTestFinished(() => database.close());
  const servers: ServerNamespace[] = [];
  for (let number = 1; number <= count; number += 1)
    servers.push(await ServerNamespace.open({ database, number, folder, program: program.file }));
  const node = await DatabaseNode.primary({}, { namespace: database, address: '0.0.0.0' });
  onTestFinished(() => node.remove());
  for (const [index, server] of servers.entries()) {
    const url = `postgres://ringfence@${ServerNamespace.databaseAddress(index + 1)}:${node.port}/postgres`;
    await server.start(url, ['--answer-timeout', String(answerTimeout), '--stream-heartbeat', '2']);
  }
  return servers;
}

async function newOrganization(server: ServerNamespace): Promise<{ api: Api; org: string; base: string }> {
  const api = new Api(server.url, adminToken);
  onTestFinished(() => api.close());
  const { id } = await api.expect(201, 'POST', '/api/organizations', { name: 'acme' });
  return { api, org: id, base: `/api/organizations/${id}` };
}

interface Written {
  readonly name: string;
  readonly status: number;
  readonly code: string | undefined;
  readonly retryAfter: string | undefined;
  readonly ms: number;
}

/** Creates groups one after the other until it is stopped. */
async function write(api: Api, base: string, prefix: string, signal: AbortSignal): Promise<readonly Written[]> {
  const written: Written[] = [];
  for (let number = 0; !signal.aborted; number += 1) {
    const name = `${prefix}-${number}`;
    const begun = performance.now();
    const { status, json, headers } = await api.post(`${base}/security_groups`, { group_name: name });
    written.push({ name, status, code: json.code, retryAfter: headers['retry-after'], ms: performance.now() - begun });
    await sleep(100);
  }
  return written;
}

/** Looks at what callers were answered, and at what became of their writes. */
async function expectNothingLost(api: Api, base: string, stream: EventStream, written: readonly Written[]) {
  const stored: { group_name: string }[] = await api.expect(200, 'GET', `${base}/security_groups`);
  const names = new Set(stored.map(({ group_name }) => group_name));
  expect(names.size).toBe(stored.length);
  for (const { name, status, code, retryAfter } of written) {
    if (status === 201) expect(names, name).toContain(name);
    else {
      expect([status, Number(retryAfter) > 0]).toEqual([503, true]);
      expect(code).toMatch(/^(unavailable|outcome_unknown)$/);
      if (code === 'unavailable') expect(names, `${name} was answered with ${code}`).not.toContain(name);
    }
  }
  const shown = (): string[] =>
    stream.documents.flatMap(({ type, value }) => (type === 'change' ? [value.group_name] : []));
  await eventually('the stream shows everything', () => new Set(shown()).size === names.size);
  expect(shown().toSorted()).toEqual([...names].toSorted());
}

const slowest = (written: readonly Written[]): number => Math.round(Math.max(...written.map(({ ms }) => ms)));

test.each([5, 60])(
  'while packets to the database are dropped for %i s, writes are answered with 503, the server is not ready, and afterwards nothing is lost',
  async (seconds) => {
    const [server] = await startServers(1);
    if (server === undefined) throw new Error('there is no server');
    const { api, org, base } = await newOrganization(server);
    const stream = await new EventStream(server.url, adminToken, org, [{ kind: 'security-groups' }]).tail();
    onTestFinished(() => stream.close());
    const stop = new AbortController();
    onTestFinished(() => stop.abort());
    const writing = ['a', 'b', 'c', 'd'].map((prefix) => write(api, base, prefix, stop.signal));
    await stream.shows('"a-3"');
    await server.cut();
    const begun = performance.now();
    await eventually('the server is not ready', async () => (await server.readiness()) === 503);
    const noticed = performance.now() - begun;
    await sleep(Math.max(0, seconds * 1_000 - noticed));
    await server.mend();
    const mended = performance.now();
    await eventually(
      () => `a write succeeds; the server says ${server.said}`,
      async () => {
        const answer = await api.post(`${base}/security_groups`, { group_name: `again ${performance.now()}` });
        return answer.status === 201;
      },
    );
    const back = performance.now() - mended;
    await eventually('the server is ready', async () => (await server.readiness()) === 200);
    stop.abort();
    const written = (await Promise.all(writing)).flat();
    await expectNothingLost(api, base, stream, written);
    expect(stream.closed).toBe(false);
    const refused = written.filter(({ status }) => status === 503);
    expect(refused.length).toBeGreaterThan(0);
    expect(slowest(written)).toBeLessThan(hungAnswerMs);
    expect([noticed, back].filter((ms) => ms >= hungMs)).toEqual([]);
    console.log(
      `packets dropped for ${seconds} s: not ready after ${Math.round(noticed)} ms; ${refused.length} of ${written.length} writes answered with 503 ` +
        `(${refused.filter(({ code }) => code === 'outcome_unknown').length} outcome_unknown), the slowest after ${slowest(written)} ms ` +
        `(--answer-timeout ${answerTimeout}); first write ${Math.round(back)} ms after the end`,
    );
  },
);

test('while packets to the database are dropped forever, every request is answered, an agent goes to another server, and the server shuts down when it is told to', async () => {
  const [cut, other] = await startServers(2);
  if (cut === undefined || other === undefined) throw new Error('there are no servers');
  const { api, org, base } = await newOrganization(cut);
  const device = await api.expect(201, 'POST', `${base}/devices`, { public_key: 'mine' });
  const group = (await api.expect(200, 'GET', base)).security_groups[0];
  const setPolicy = (by: Api, port: number): Promise<unknown> =>
    by.expect(200, 'PATCH', `${base}/security_groups/${group}`, {
      inbound_rules: [{ ip_protocol: 'tcp', from_port: port, to_port: port }],
    });
  await setPolicy(api, 22);
  let random = 0;
  const servers = [cut.url, other.url];
  // The first in the list is asked first.
  const fetch = choosingFetch(createNodeFetch(), { servers, random: () => (random += 0.001) });
  const client = new Client({ url: cut.url, token: device.device_token, fetch });
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const faults: unknown[] = [];
  const source = new InformerSource({
    client,
    organization: org,
    device: device.id,
    onFault: (fault) => faults.push(fault),
  });
  void source.run({ signal: stop.signal });
  const port = (): number | undefined => {
    const known = source.read();
    return known.kind === 'known' ? known.policy.groups[0]?.inbound[0]?.from_port : undefined;
  };
  await eventually('the agent has its policy', () => port() === 22);
  const stayed = await new EventStream(cut.url, adminToken, org, [{ kind: 'device' }]).tail();

  await cut.cut();
  const begun = performance.now();
  const there = new Api(other.url, adminToken);
  onTestFinished(() => there.close());
  await setPolicy(there, 80);
  // The last policy stays in force until the agent has found another server.
  await eventually('the agent has the policy of the other server', () => {
    expect([22, 80]).toContain(port());
    return port() === 80;
  });
  const left = performance.now() - begun;
  expect(faults).toEqual([]);

  const asked = Array.from({ length: 40 }, async (_, number) => {
    const at = performance.now();
    const answer =
      number % 2 === 0 ? await api.get(base) : await api.post(`${base}/security_groups`, { group_name: `${number}` });
    return { status: answer.status, code: answer.json.code, ms: performance.now() - at };
  });
  const answers = await Promise.all(asked);
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([503]));
  for (const { code } of answers) expect(code).toMatch(/^(unavailable|outcome_unknown)$/);
  expect(await cut.readiness()).toBe(503);
  // A reader that knows no other server keeps its stream, and gets heartbeats.
  const before = stayed.raw.length;
  await stayed.until('a heartbeat', ({ raw }) => raw.length > before);
  expect(stayed.closed).toBe(false);
  const ending = performance.now();
  await cut.stop('SIGTERM');
  await stayed.end();
  const ended = performance.now() - ending;
  const slowestAnswer = Math.max(...answers.map(({ ms }) => ms));
  expect(slowestAnswer).toBeLessThan(hungAnswerMs);
  expect([left, ended].filter((ms) => ms >= hungMs)).toEqual([]);
  console.log(
    `packets dropped forever: the agent had another server's policy after ${Math.round(left)} ms; 40 requests were answered with 503, ` +
      `the slowest after ${Math.round(slowestAnswer)} ms (--answer-timeout ${answerTimeout}); the server ended ${Math.round(ended)} ms after SIGTERM`,
  );
});
