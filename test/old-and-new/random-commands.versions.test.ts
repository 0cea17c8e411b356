/**
 * Proves that this program answers as an older one does: both get the same random commands of owners, members, strangers, devices and
 * tokens, and every answer, the final lists, histories, audit and streams are compared. `RINGFENCE_OLD` names the older program, by its
 * commit or by the folder of a built checkout.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Random } from '../lib/random.ts';
import type { Answered } from '../lib/http.ts';
import type { EventStream } from '../lib/stream.ts';
import { Commands, type Caller, type Command, type People } from './commands.ts';
import { justification } from './justified.ts';
import { TwoServers } from './two-servers.ts';

const older = process.env['RINGFENCE_OLD'];
const requests = Number(process.env['RINGFENCE_REQUESTS'] ?? 4_000);
const firstSeed = Number(process.env['RINGFENCE_SEED'] ?? 1);
/** The commands of one seed go to one organization: it stays small enough for its records to meet. */
const requestsOfSeed = 500;
const seeds = Array.from({ length: Math.ceil(requests / requestsOfSeed) }, (_, index) => firstSeed + index);

let servers: TwoServers;
beforeAll(async () => {
  if (older === undefined) throw new Error('set RINGFENCE_OLD to a commit or to the folder of a built checkout');
  servers = await TwoServers.start(older);
});
afterAll(async () => {
  await servers?.stop();
});

/** An organization with two owners, two members, a stranger, devices and keys of theirs, made on both servers. */
async function settle(seed: number): Promise<People> {
  const names = ['owner', 'second', 'ada', 'bob', 'stranger'] as const;
  const named = (name: string): Caller => `${name}-${seed}`;
  const users: string[] = [];
  for (const name of names) {
    const made = await servers.expect(201, {
      as: 'admin',
      method: 'POST',
      path: '/api/users',
      body: { username: named(name) },
    });
    const { id } = made.old.json;
    users.push(id);
    const path = `/api/users/${id}/tokens`;
    servers.signIn(named(name), await servers.expect(201, { as: 'admin', method: 'POST', path, body: {} }));
    const readOnly = { name: 'reads', scope: 'read-only' };
    servers.signIn(
      `${named(name)} reads`,
      await servers.expect(201, { as: 'admin', method: 'POST', path, body: readOnly }),
    );
  }
  const [owner, second, ada, bob, stranger] = names.map(named) as [Caller, Caller, Caller, Caller, Caller];
  const as =
    (caller: Caller) =>
    (method: string, path: string, body?: unknown): Command => ({ as: caller, method, path, body });
  const made = await servers.expect(201, as(owner)('POST', '/api/organizations', { name: `org-${seed}` }));
  const { id: org, security_groups: groups } = made.old.json;
  const base = `/api/organizations/${org}`;
  for (const user of users.slice(1, 4))
    await servers.expect(201, as(owner)('POST', `${base}/members`, { user_id: user }));
  await servers.expect(200, as(owner)('PATCH', `${base}/members/${users[1]}`, { role: 'owner' }));
  for (const person of [ada, bob]) {
    const device = await servers.expect(
      201,
      as(person)('POST', `${base}/devices`, { public_key: `first of ${person}` }),
    );
    servers.signIn(`${person} device`, device);
    servers.signIn(
      `${person} key`,
      await servers.expect(201, as(person)('POST', `${base}/enrollment_keys`, { uses: 50 })),
    );
  }
  const often = (caller: Caller, times: number): Caller[] => Array.from({ length: times }, () => caller);
  return {
    org,
    owner,
    defaultGroup: groups[0],
    users: users.slice(1),
    usernames: names.map(named),
    callers: [
      ...often(owner, 24),
      ...often(second, 8),
      ...often(ada, 8),
      ...often(bob, 5),
      stranger,
      'admin',
      `${owner} reads`,
      `${ada} device`,
      `${bob} device`,
      `${ada} key`,
      'nobody',
    ],
  };
}

const headersThatCount = [
  'etag',
  'location',
  'link',
  'content-type',
  'allow',
  'www-authenticate',
  'cache-control',
] as const;

interface Found {
  readonly seed: number;
  readonly at: number | string;
  readonly asked: string;
  readonly differences: readonly unknown[];
}

const found: Found[] = [];
const justified = new Map<string, number>();

/** What devices report and do is told a moment later: such answers become alike. */
const settles = /\/(device_statuses|convergence|explain|overview|trials|simulate)\b/;

/** Whether the two have parted: a meant difference of a write, after which their records differ. */
async function compare(seed: number, at: number | string, command: Command, commands?: Commands): Promise<boolean> {
  const heads = ({ headers, status }: Answered): unknown => ({
    status,
    ...Object.fromEntries(
      headersThatCount.flatMap((name) => (headers[name] === undefined ? [] : [[name, headers[name]]])),
    ),
  });
  const isRead = command.method === 'GET' || command.path.endsWith('/simulate');
  for (let tries = isRead && settles.test(command.path) ? 30 : 1; tries > 0; tries -= 1) {
    const answers = await servers.ask(command);
    const differences = [
      ...servers.ids.differences(heads(answers.old), heads(answers.new)),
      ...servers.ids.differences(withoutRequestId(answers.old.json), withoutRequestId(answers.new.json)),
    ];
    if (differences.length > 0 && tries > 1) {
      await sleep(100);
      continue;
    }
    commands?.learn(command, answers.old);
    count(command, answers.old.status);
    if (differences.length === 0) return false;
    const meant = justification(command, answers, differences);
    if (meant !== undefined) {
      const { reason, parts = !isRead && answers.old.status < 300 !== answers.new.status < 300 } = meant;
      justified.set(reason, (justified.get(reason) ?? 0) + 1);
      return parts;
    }
    const body = command.body === undefined ? '' : JSON.stringify(command.body);
    found.push({ seed, at, asked: `${command.as}: ${command.method} ${command.path} ${body}`, differences });
    return false;
  }
  return false;
}

/** How often each kind of command was answered how: what never succeeds or is never refused compares little. */
const counts = new Map<string, Map<number, number>>();
function count({ method, path }: Command, status: number): void {
  const kind = `${method} ${path
    .replace(/\?.*/, '')
    .replace(/[0-9a-f-]{36}/g, '*')
    .replace(/^\/api\/(organizations|user)\/\*/, '')}`;
  const of = counts.get(kind) ?? new Map<number, number>();
  counts.set(kind, of.set(status, (of.get(status) ?? 0) + 1));
}

/** A problem names the request, and each server numbers its own. */
function withoutRequestId(json: unknown): unknown {
  if (typeof json !== 'object' || json === null || !('request_id' in json)) return json;
  const { request_id: _, ...rest } = json;
  return rest;
}

/** What both streams have sent, once nothing more comes: a write that was answered before is on its way to a stream for milliseconds. */
async function compareStreams(
  seed: number,
  name: string,
  pair: { readonly old: EventStream; readonly new: EventStream },
): Promise<void> {
  await Promise.all([pair.old.answered(), pair.new.answered()]);
  const sent = (): number => pair.old.documents.length + pair.new.documents.length;
  for (let quiet = 0, before = sent(); quiet < 3;) {
    await sleep(100);
    const now = sent();
    quiet = now === before && pair.old.documents.length === pair.new.documents.length ? quiet + 1 : quiet + 0.25;
    before = now;
  }
  const ended = ({ status, closed, documents }: EventStream): unknown => ({ status, closed, documents });
  const differences = servers.ids.differences(ended(pair.old), ended(pair.new));
  if (differences.length > 0) found.push({ seed, at: 'stream', asked: name, differences });
  pair.old.close();
  pair.new.close();
}

async function run(seed: number): Promise<void> {
  const people = await settle(seed);
  const commands = new Commands(new Random(seed), people);
  const base = `/api/organizations/${people.org}`;
  const [owner, , ada] = people.usernames as [Caller, Caller, Caller];
  const both = [{ kind: 'device' }, { kind: 'security-groups' }];
  const followed = [
    [`stream of ${owner}`, servers.streams(owner, people.org, both)],
    [`stream of ${ada}`, servers.streams(ada, people.org, both)],
    ['by identity', servers.streams(owner, people.org, [{ kind: 'device', view: 'identity' }])],
  ] as const;
  for (const [, pair] of followed) await Promise.all([pair.old.tail(), pair.new.tail()]);
  for (let at = 0; at < requestsOfSeed; at += 1) {
    if (!(await compare(seed, at, commands.next(), commands))) continue;
    for (const [, pair] of followed) [pair.old, pair.new].forEach((stream) => stream.close());
    return;
  }
  const atTheEnd = async (as: Caller, path: string): Promise<void> => {
    await compare(seed, 'end', { as, method: 'GET', path });
  };
  for (const caller of [owner, ada]) {
    for (const list of [
      'devices',
      'security_groups',
      'members',
      'trials',
      'policy_tests',
      'enrollment_keys',
      'audit',
      'device_statuses',
    ])
      await atTheEnd(caller, `${base}/${list}`);
  }
  for (const id of commands.ever.devices) {
    await atTheEnd(owner, `${base}/devices/${id}/groups`);
    await atTheEnd(owner, `${base}/devices/${id}/history`);
  }
  for (const id of commands.ever.groups) await atTheEnd(owner, `${base}/security_groups/${id}/history`);
  for (const [name, pair] of followed) await compareStreams(seed, name, pair);
  for (const caller of [owner, ada]) {
    await compareStreams(seed, `listing of ${caller}`, servers.streams(caller, people.org, both));
  }
}

test(`${seeds.length * requestsOfSeed} random commands, from seed ${firstSeed} on, are answered alike`, async () => {
  for (let at = 0; at < seeds.length && found.length === 0; at += 3)
    await Promise.all(seeds.slice(at, at + 3).map(run));
  const lines = [...counts].map(([kind, statuses]) => {
    const answers = [...statuses].map(([status, times]) => `${status} × ${times}`);
    return `${kind}: ${answers.toSorted((a, b) => a.localeCompare(b)).join(', ')}`;
  });
  for (const line of lines.toSorted((a, b) => a.localeCompare(b))) console.log(line);
  for (const [reason, times] of justified) console.log(`${times} × ${reason}`);
  expect(found.slice(0, 5)).toEqual([]);
});
