/** Proves that no answer of a hostile server speaks to a terminal, whatever text it holds and wherever: controls, escapes, reversed lines, HTML, long texts. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { paths } from '../../src/api/paths.ts';
import { useProgram } from '../lib/stage.ts';

const installed = useProgram();

const marker = 'POISON';
/** A title of the terminal, a cleared screen, a link, a return, C1, bidirectional controls, tags, separators, a page, and much of it. */
const poison = `${marker}\u001b]0;x\u0007\u001b[2J\u001b]8;;http://x\u001b\\\r\b\u0085\u009b2J\u202e\u2066\u200b\u{e0041}\u2028</script><img src=x onerror=alert(1)>${'é'.repeat(300)}`;
const id = 'a0000000-0000-4000-8000-000000000001';

/** Everything that any record has, each text of it poisoned but for ids; `time`: what stands where times are. */
function recordWith(time: string): Readonly<Record<string, unknown>> {
  const rule = {
    ip_protocol: 'tcp',
    from_port: 22,
    to_port: 22,
    ip_ranges: ['10.0.0.1', poison],
    description: poison,
    peers: [{ labels: [poison] }],
  };
  const named = (names: string, value: string) => Object.fromEntries(names.split(' ').map((name) => [name, value]));
  const text = named(
    'name username group_name group_description hostname description public_key tunnel_ip email role detail reason actor by action summary url state code in_force interface agent_version local_ip kind word why title token key device_token verdict protocol far sentence event error',
    poison,
  );
  const ids = named(
    'id org_id organization_id user_id owner_id device_id group_id token_id change_id trial_id key_id',
    id,
  );
  const times = named('created_at updated_at at expires_at since until last_seen_at reported_at', time);
  const numbers = { revision: 7, uses_left: 1, packets: 3, count: 3, total: 3, devices_total: 1 };
  const flat = { ...text, ...ids, ...times, ...numbers };
  return {
    ...flat,
    is_default: true,
    inbound_rules: [rule],
    outbound_rules: [rule],
    labels: [poison],
    addresses: [poison, '10.0.0.2'],
    security_groups: [id],
    child_prefix: [poison],
    changes: [{ ...flat, before: flat, after: flat, fields: { [poison]: [poison, poison] } }],
    devices: [flat],
    groups: [flat],
    warnings: [poison, { ...flat }],
    status: flat,
    before: flat,
    after: flat,
    user: flat,
    subject: flat,
    organizations: [flat],
    results: [flat],
    rules: [rule],
    entries: [flat],
    isolated: { ...flat, allow: [{ labels: [poison] }] },
  };
}

const problem = {
  type: poison,
  title: poison,
  detail: poison,
  code: 'conflict',
  errors: [{ pointer: `/${poison}`, code: poison, detail: poison }],
  devices: [poison],
  enrollment_keys: [poison],
  tests: [{ name: poison, from: poison, to: poison, detail: poison }],
  request_id: poison,
  needs: poison,
};

const lists = Object.values(paths)
  .filter(([, , kind]) => kind === 'list')
  .map(([method, path]) => ({ method, path: new RegExp(`^${path.replaceAll(/\{[^}]+\}/g, '[^/]+')}$`) }));

interface Answer {
  readonly status: number;
  readonly type: string;
  readonly body: (isList: boolean) => string;
}
const json = (value: unknown): string => JSON.stringify(value);
const records = (time: string): Answer => ({
  status: 200,
  type: 'application/json',
  body: (isList) => json(isList ? [recordWith(time)] : recordWith(time)),
});
const answers: readonly (readonly [what: string, answer: Answer])[] = [
  ['records', records('2026-01-01T00:00:00.000Z')],
  ['records without times', records(poison)],
  ...[400, 401, 403, 404, 409, 412, 422, 429, 500, 503].map(
    (status) =>
      [
        `problems with status ${status}`,
        { status, type: 'application/problem+json', body: () => json(problem) },
      ] as const,
  ),
  ['pages', { status: 502, type: 'text/html', body: () => poison }],
  ['no JSON', { status: 200, type: 'application/json', body: () => poison }],
  ['texts', { status: 200, type: 'application/json', body: (isList) => json(isList ? [poison] : poison) }],
];

const commands =
  `whoami|org list|user list|member list|member invitations|group list|device list|device status|label list|trial list|test list|test run|status
export|key list|token list|webhook list|evidence key|log|doctor --state nowhere|org show ID|member show ID|group show ID|device show ID|key show ID|token show ID
trial show ID|group history ID|group usage ID|group diff ID|group observation ID|device history ID|device groups list ID|flows ID|propose ID|nft ID
explain --from ID --to ID --port 22|webhook deliveries ID|group create x --in tcp:22|group edit ID --description x|group delete ID --yes
device edit ID --relay yes|device delete ID --yes|token create x|key create x|member add x|device isolate ID --reason x --yes|undo ID --yes
names -- group show|names -- device show`
    .split(/[|\n]/)
    .map((line) => line.replaceAll('ID', id).split(' '));

let server: Server;
let answer: Answer | undefined;
beforeAll(async () => {
  server = createServer((request, response) => {
    request.resume();
    const { pathname } = new URL(request.url ?? '/', 'http://x');
    const isList = lists.some(({ method, path }) => method === request.method && path.test(pathname));
    const { status, type, body } = answer ?? { status: 500, type: 'text/plain', body: () => '' };
    response.writeHead(status, { 'content-type': type }).end(body(isList));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});
afterAll(() => {
  server?.closeAllConnections();
  server?.close();
});

/** Beside line ends nothing that is invisible, and none of it is a stack trace. */
function expectHarmless(output: string, args: readonly string[]): void {
  const [bad] = /[^\P{C}\n]|[\u2028\u2029]/u.exec(output) ?? [];
  const where = bad === undefined ? '' : output.slice(Math.max(0, output.indexOf(bad) - 100), output.indexOf(bad) + 20);
  expect([args.join(' '), JSON.stringify(where)]).toEqual([args.join(' '), '""']);
  expect([args.join(' '), /\n +at .*\.mjs:/.test(output)]).toEqual([args.join(' '), false]);
}

describe('a hostile server', () => {
  it.each(answers)(
    'that answers with %s full of poison commands no terminal, and no program breaks down',
    async (what, given) => {
      answer = given;
      let shown = 0;
      for (const [index, args] of commands.entries()) {
        const { port } = server.address() as AddressInfo;
        const env = {
          RINGFENCE_SERVER: `http://127.0.0.1:${port}`,
          RINGFENCE_TOKEN: 'rf_user_x',
          RINGFENCE_ORG: id,
          NO_COLOR: '1',
        };
        // Data are read by people too.
        const format = index % 3 === 0 && args[0] !== 'complete' ? ['-o', index % 2 === 0 ? 'json' : 'yaml'] : [];
        const { stdout, stderr } = await installed.program.run([...args, ...format], {
          env,
        });
        expectHarmless(stdout + stderr, args);
        if ((stdout + stderr).includes(marker)) shown += 1;
      }
      // Otherwise nothing would be proven.
      if (/^(records|problems)/.test(what)) expect(shown).toBeGreaterThan(5);
    },
  );
});
