/**
 * Proves two server processes on one PostgreSQL: many writers, revisions without gaps, no update lost; and waiters whose server is killed.
 * That the store keeps its order however many write is proven by `concurrency.pg.test.ts` with five times the writes; here it is that
 * answers, lists and entity tags of two processes tell the same order.
 */
import { rm } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { canonicalize } from '../../src/policy/canonicalize.ts';
import { digestForm } from '../../src/policy/digest/digest-form.ts';
import { policyDigest } from '../../src/policy/digest/digest.ts';
import { parseGroupId, parseOrganizationId } from '../../src/policy/ids.ts';
import { openStore, type Store } from '../../src/server/store/open.ts';
import { Api, type Answered } from '../lib/http.ts';
import { startPostgres, temporaryDirectory, type TestPostgres } from '../lib/postgres.ts';
import { Program, type Run } from '../lib/run.ts';
import { rounds } from '../lib/thorough.ts';

const token = 'operator-token-0123456789-0123456789';
const writers = 16;
const writesEach = rounds(20, 100);

let postgres: TestPostgres;
let program: Program;
let data: string;
let store: Store;
/** One caller of each replica. */
let replicas: [Api, Api];
let runs: [Run, Run];
let start: (n: number) => Run;

beforeAll(async () => {
  [postgres, program, data] = await Promise.all([startPostgres(), Program.build(), temporaryDirectory()]);
  const url = await postgres.freshUrl();
  // One serves in several processes, the other in one.
  start = (n) =>
    program.run(['server', '--listen', '127.0.0.1:0', '--data', data, '--database-url', url, '--log-level', 'warn'], {
      RINGFENCE_ADMIN_TOKEN: token,
      RINGFENCE_WORKERS: n === 0 ? '2' : '1',
    });
  runs = [start(0), start(1)];
  replicas = [new Api(await runs[0].url(), token), new Api(await runs[1].url(), token)];
  store = await openStore({ url, phase: 3 });
});
afterAll(async () => {
  for (const api of replicas) api.close();
  await store.close();
  await program.close();
  await postgres.stop();
  await rm(data, { recursive: true, force: true });
});

const replica = (n: number): Api => (n % 2 === 0 ? replicas[0] : replicas[1]);

async function newOrganization(): Promise<{ id: string; base: string; revision: number }> {
  const { id, revision } = await replicas[0].expect(201, 'POST', '/api/organizations', { name: 'busy' });
  return { id, base: `/api/organizations/${id}`, revision };
}

interface Acknowledged {
  readonly id: string;
  readonly type: 'change' | 'delete';
  readonly revision: number;
}

/** One writer's share: creates, changes and deletes devices, each through the other replica than the last time. */
async function write(
  writer: number,
  organizations: readonly { base: string; id: string }[],
  log: Map<string, Acknowledged[]>,
) {
  const own: { base: string; id: string; org: string }[] = [];
  for (let i = 0; i < writesEach; i += 1) {
    const api = replica(writer + i);
    const { base, id: org } = organizations[(writer * 7 + i) % organizations.length] ?? { base: '', id: '' };
    const mine = own[i % Math.max(1, own.length)];
    const kind = mine === undefined || i % 3 === 0 ? 'create' : i % 5 === 0 ? 'delete' : 'change';
    let answer: Answered;
    let into = org;
    if (kind === 'create' || mine === undefined) {
      answer = await api.post(`${base}/devices`, { public_key: `${writer}/${i}` });
      expect(answer.status, answer.text).toBe(201);
      own.push({ base, id: answer.json.id, org });
    } else {
      into = mine.org;
      const path = `${mine.base}/devices/${mine.id}`;
      answer = kind === 'delete' ? await api.delete(path) : await api.patch(path, { hostname: `host ${writer}/${i}` });
      expect(answer.status, answer.text).toBe(200);
      if (kind === 'delete') own.splice(own.indexOf(mine), 1);
    }
    const entries = log.get(into) ?? [];
    log.set(into, entries);
    entries.push({ id: answer.json.id, type: kind === 'delete' ? 'delete' : 'change', revision: answer.json.revision });
  }
}

/**
 * Reads heads and lists on both replicas in turn until it is stopped: no later read may be older than an earlier one.
 */
async function watchHeads(base: string, signal: AbortSignal): Promise<number> {
  let head = 0;
  let reads = 0;
  while (!signal.aborted) {
    const organization = await replica(reads).expect(200, 'GET', base);
    expect(organization.revision).toBeGreaterThanOrEqual(head);
    head = organization.revision;
    const newer = (await replica(reads + 1).expect(
      200,
      'GET',
      `${base}/devices?gt_revision=${Math.max(0, head - 5)}`,
    )) as {
      revision: number;
    }[];
    head = Math.max(head, ...newer.map((device) => device.revision));
    reads += 1;
  }
  return reads;
}

/** The acknowledged writes are the organization's log, revision by revision. */
async function expectExact(
  organization: { id: string; revision: number },
  acknowledged: readonly Acknowledged[],
): Promise<void> {
  const sorted = acknowledged.toSorted((a, b) => a.revision - b.revision);
  expect(sorted.map(({ revision }) => revision)).toEqual(sorted.map((_, i) => organization.revision + 1 + i));
  const org = parseOrganizationId(organization.id);
  const stored = await store.log.readChanges(org, organization.revision, acknowledged.length + 10);
  expect(stored?.map(({ id, type, revision }) => ({ id, type, revision }))).toEqual(sorted);
}

describe(`16 writers × ${writesEach} writes through two replicas`, () => {
  test('to one organization: every revision once, without a gap, in the order that readers see', async () => {
    const organization = await newOrganization();
    const log = new Map<string, Acknowledged[]>();
    const stop = new AbortController();
    const reading = watchHeads(organization.base, stop.signal);
    await Promise.all(Array.from({ length: writers }, (_, writer) => write(writer, [organization], log)));
    stop.abort();
    expect(await reading).toBeGreaterThan(3);
    const acknowledged = log.get(organization.id) ?? [];
    expect(acknowledged).toHaveLength(writers * writesEach);
    await expectExact(organization, acknowledged);
    expect((await replicas[1].expect(200, 'GET', organization.base)).revision).toBe(
      organization.revision + writers * writesEach,
    );
  });

  test('to 32 organizations: each has its own counter', async () => {
    const organizations = await Promise.all(Array.from({ length: 32 }, newOrganization));
    const log = new Map<string, Acknowledged[]>();
    await Promise.all(Array.from({ length: writers }, (_, writer) => write(writer, organizations, log)));
    let total = 0;
    for (const organization of organizations) {
      const acknowledged = log.get(organization.id) ?? [];
      total += acknowledged.length;
      await expectExact(organization, acknowledged);
    }
    expect(total).toBe(writers * writesEach);
  });

  test('with If-Match no update is lost: every increment counts', async () => {
    const { base } = await newOrganization();
    const group = await replicas[0].expect(201, 'POST', `${base}/security_groups`, {
      group_name: 'counter',
      group_description: '0',
    });
    const path = `${base}/security_groups/${group.id}`;
    const each = 5;
    const seen = new Set<number>();
    const increment = async (writer: number): Promise<void> => {
      for (let done = 0; done < each;) {
        const now = await replica(writer + done).get(path);
        const group_description = String(Number(now.json.group_description) + 1);
        const answer = await replica(writer).patch(path, { group_description }, { 'if-match': now.headers.etag ?? '' });
        expect([200, 412], answer.text).toContain(answer.status);
        seen.add(answer.status);
        if (answer.status === 200) done += 1;
      }
    };
    await Promise.all(Array.from({ length: writers }, (_, writer) => increment(writer)));
    expect((await replicas[0].expect(200, 'GET', path)).group_description).toBe(String(writers * each));
    expect(seen).toContain(412);
  });
});

test('either is killed beside waiters: those of the other wait on and are answered, and so is who asks the one that took its place', async () => {
  const { base } = await newOrganization();
  let group = await replicas[0].expect(201, 'POST', `${base}/security_groups`, { group_name: 'web' });
  const devices: { readonly id: string; readonly device_token: string }[] = [];
  for (const public_key of ['a', 'b']) {
    const body = { public_key, hostname: public_key, security_groups: [group.id] };
    devices.push(await replicas[0].expect(201, 'POST', `${base}/devices`, body));
  }
  for (const victim of [1, 0] as const) {
    const rules = [{ ip_protocol: 'tcp', from_port: 80 + victim, to_port: 80 + victim }];
    group = await replicas[0].expect(200, 'PATCH', `${base}/security_groups/${group.id}`, { inbound_rules: rules });
    const { revision } = group;
    const wait = (api: Api) => api.expect(200, 'GET', `${base}/convergence?revision=${revision}&wait=120`);
    const lost = wait(replicas[victim]).then(
      () => 'answered',
      () => 'lost',
    );
    const waiting = wait(replica(1 - victim));
    await runs[victim].stop('SIGKILL');
    expect(await lost).toBe('lost');
    replicas[victim].close();
    runs[victim] = start(victim);
    replicas[victim] = new Api(await runs[victim].url(), token);
    const again = wait(replicas[victim]);
    const { id, group_name: name, inbound_rules: inbound } = group;
    const policy = { source: 'list', groups: [{ id: parseGroupId(id), name, inbound, outbound: [] }] } as const;
    const status = {
      state: 'applied',
      revision,
      policy_digest: policyDigest(canonicalize(policy)),
      policy_digest_form: digestForm,
    };
    for (const [index, device] of devices.entries()) {
      const speaker = replica(index).as(device.device_token);
      await speaker.expect(200, 'PUT', `${base}/devices/${device.id}/status`, status);
    }
    for (const answer of await Promise.all([waiting, again]))
      expect(answer).toMatchObject({ revision, devices: 2, in_force: 2, pending: [] });
  }
});
