/** Proves the audit log: every committed entry with a stable id, over several servers, restarts and rotations, and no request that waits for it. */
import { chmod, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { auditLines } from '../../src/server/audit-log/lines.ts';
import { auditLogWork, type AuditLogOptions } from '../../src/server/audit-log/service.ts';
import { sinkOf } from '../../src/server/audit-log/sink.ts';
import { DueWorkLoop } from '../../src/server/scheduling/due-work.ts';
import { query } from '../../src/server/store/store.fixture.ts';
import { eventually } from '../lib/eventually.ts';
import type { Json } from '../lib/http.ts';
import { newPlace, startPostgres, startTestServer, type TestPostgres, type TestServer } from '../lib/server.ts';

let postgres: TestPostgres;
let folder: string;
beforeAll(async () => {
  postgres = await startPostgres();
  folder = await mkdtemp(join(tmpdir(), 'ringfence-audit-log-'));
});
afterAll(async () => {
  await postgres.stop();
  await rm(folder, { recursive: true, force: true });
});

const start = async (values: Parameters<typeof startTestServer>[1]): Promise<TestServer> => {
  const server = await startTestServer(postgres, values);
  onTestFinished(() => server.close());
  return server;
};
const linesOf = async (...files: readonly string[]): Promise<readonly Json[]> => {
  const texts = await Promise.all(files.map((file) => readFile(file, 'utf8').catch(() => '')));
  return texts.flatMap((text) => text.split('\n').filter((line) => line !== '')).map((line) => JSON.parse(line));
};
const idsOf = async (url: string): Promise<readonly string[]> =>
  (await query<{ id: string }>(url, 'SELECT id FROM audit ORDER BY id')).map(({ id }) => id);
const nothingWaits = async (url: string): Promise<boolean> =>
  (await query(url, 'SELECT FROM audit_outbox LIMIT 1')).length === 0;

test('every entry is written once by one of two servers, with before and after and without a secret, through rotation and restart', async () => {
  const file = join(folder, 'audit.jsonl');
  const first = await start({ auditLog: file });
  const { databaseUrl: url } = first;
  const second = await start({ auditLog: file, url });
  const known = new Set(await idsOf(url));
  const place = await newPlace(first);
  const group = await place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, { group_name: 'web' });
  const path = `${second.url}${place.base}/security_groups/${group.id}`;
  const headers = { authorization: `Bearer ${place.owner.token}`, 'content-type': 'application/json' };
  const body = JSON.stringify({ inbound_rules: [{ ip_protocol: 'tcp', from_port: 443, to_port: 443 }] });
  expect((await fetch(path, { method: 'PATCH', headers, body })).status).toBe(200);
  await eventually('the change is written', async () =>
    (await linesOf(file)).some(({ after }) => after?.inbound_rules),
  );

  await rename(file, `${file}.1`);
  const { device_token } = await place.owner.api.expect(201, 'POST', `${place.base}/devices`, { public_key: 'k' });
  await eventually('the new file has it', async () =>
    (await linesOf(file)).some(({ operation }) => operation === 'createDevice'),
  );
  await Promise.all([first.close(), second.close()]);
  const silent = await start({ url });
  await silent.nobody
    .as(place.owner.token)
    .expect(201, 'POST', `${place.base}/security_groups`, { group_name: 'later' });
  await start({ url, auditLog: file });
  await eventually('nothing waits', () => nothingWaits(url));

  const lines = await linesOf(`${file}.1`, file);
  const written = lines.map(({ id }) => String(id));
  expect(written.toSorted()).toEqual((await idsOf(url)).filter((id) => !known.has(id)));
  expect(lines.find(({ operation }) => operation === 'updateSecurityGroup')).toMatchObject({
    type: 'audit',
    organization_id: place.org,
    username: expect.any(String),
    subject: { name: 'web' },
    before: { inbound_rules: [] },
    after: { inbound_rules: [{ from_port: 443 }] },
  });
  const text = JSON.stringify(lines);
  for (const secret of [device_token, place.owner.token, place.member.token]) expect(text).not.toContain(secret);
});

test('a sink that hangs holds up no request and no stop; another process writes in its place, and what was dropped is a number', async () => {
  const server = await start({});
  const { store, databaseUrl: url } = server;
  const common: Omit<AuditLogOptions, 'sink'> = {
    waiting: store.auditExport,
    where: '-',
    refused: false,
    clock: Date.now,
    onWarning: () => {},
    leaseMs: 300,
    restMs: 20,
  };
  const startLog = async (options: AuditLogOptions): Promise<DueWorkLoop> => {
    const loop = new DueWorkLoop({ leases: store.leases, onWarning: options.onWarning });
    loop.start(await auditLogWork(options));
    return loop;
  };
  let asked = 0;
  const hung = { write: (text: string) => (text === '' ? Promise.resolve() : new Promise<void>(() => (asked += 1))) };
  const first = await startLog({ ...common, sink: { ...hung, close: () => Promise.resolve() } });
  const place = await newPlace(server);
  await eventually('the first hangs', () => asked === 1);
  await place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, { group_name: 'meanwhile' });
  await query(url, 'UPDATE audit_log_losses SET lost = 3');
  await query(url, 'DELETE FROM audit WHERE id = (SELECT audit_id FROM audit_outbox ORDER BY n LIMIT 1)');
  let text = '';
  const warnings: string[] = [];
  const sink = { write: async (more: string) => void (text += more), close: () => Promise.resolve() };
  const second = await startLog({ ...common, sink, onWarning: (message) => warnings.push(message) });
  await eventually('nothing waits', () => nothingWaits(url));
  const lines: Json[] = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(lines[0]).toMatchObject({ type: 'lost', entries: 4 });
  expect(warnings).toEqual([expect.stringContaining('4 entries')]);
  expect(lines.at(-1)).toMatchObject({ operation: 'createSecurityGroup', after: { group_name: 'meanwhile' } });
  expect(await query(url, 'SELECT lost FROM audit_log_losses')).toEqual([{ lost: '0' }]);
  await Promise.all([first.close(), second.close()]);
});

test('refused traffic is written where the operator asks for it, and the path of a webhook is not', async () => {
  const file = join(folder, 'refused.jsonl');
  const server = await start({
    auditLog: file,
    auditLogRefused: true,
    webhookHosts: [{ kind: 'exact', scheme: 'http:', host: '127.0.0.1', port: '9' }],
  });
  const { owner, base, org } = await newPlace(server);
  await owner.api.expect(200, 'PATCH', base, { observe: 'all' });
  const url = 'http://127.0.0.1:9/services/secret';
  await owner.api.expect(201, 'POST', `${base}/webhooks`, { url, events: ['device.refused_surge'] });
  const { id, device_token } = await owner.api.expect(201, 'POST', `${base}/devices`, {
    public_key: 'k',
    hostname: 'db',
  });
  const now = Date.now();
  const tuple = { direction: 'in', verdict: 'refused', far: '100.64.0.7', protocol: 'tcp', port: 22, packets: 3 };
  await server.nobody.as(device_token).expect(200, 'POST', `${base}/devices/${id}/flows`, {
    since: new Date(now - 60_000).toISOString(),
    until: new Date(now).toISOString(),
    observed: 'all',
    tuples: [{ ...tuple, verdict: 'admitted', port: 80 }, tuple],
    not_recorded: 0,
  });
  await eventually('it is written', async () => (await linesOf(file)).some(({ type }) => type === 'refused'));
  const lines = await linesOf(file);
  expect(lines.filter(({ type }) => type === 'refused')).toEqual([
    {
      type: 'refused',
      id: `${id}.${now}.0.1`,
      organization_id: org,
      device_id: id,
      hostname: 'db',
      since: new Date(now - 60_000).toISOString(),
      until: new Date(now).toISOString(),
      direction: 'in',
      far: '100.64.0.7',
      protocol: 'tcp',
      port: 22,
      packets: 3,
    },
  ]);
  expect(JSON.stringify(lines)).not.toContain('services/secret');
  expect((await server.nobody.get('/metrics')).text).toContain(
    `ringfence_refused_packets_total{organization="${org}"} 3`,
  );
});

test('the program for syslog gets the lines, is started again when it ends, and long lines come without their states', async () => {
  const [log, program] = [join(folder, 'syslog'), join(folder, 'logger')];
  await writeFile(program, `#!/bin/sh\necho "$@" >> ${log}\nhead -n 1 >> ${log}\n`);
  await chmod(program, 0o755);
  const path = process.env['PATH'];
  process.env['PATH'] = `${folder}:${path}`;
  onTestFinished(() => void (process.env['PATH'] = path));
  const sink = sinkOf('syslog');
  onTestFinished(() => sink.close());
  const taken = async (text: string): Promise<void> => {
    await eventually(`${text} is taken`, async () => {
      await sink.write(`${text}\n`).catch(() => {});
      return (await readFile(log, 'utf8').catch(() => '')).includes(text);
    });
  };
  await taken('one');
  await taken('two');
  expect(await readFile(log, 'utf8')).toContain('--tag ringfence-audit --priority auth.info');
  const entry = { id: 'x', at: 'now', operation: 'updateSecurityGroup', after: { rules: 'x'.repeat(8_192) } };
  const found = { entries: [entry as never], refused: [], lost: 0, places: ['1'] };
  const line = auditLines(found, '', sink.longestLine);
  expect(JSON.parse(line)).toEqual({ type: 'audit', id: 'x', at: 'now', operation: entry.operation, truncated: true });
});

test('a line of the audit log holds no command for a terminal and no reversed text, whatever a device or a group is called', () => {
  const name = 'db\u009b2J\u202e\n<0>{"type":"audit"}\u2028\u0007';
  const entry = { id: 'x', at: 'now', operation: 'createDevice', subject: { name }, after: { hostname: name } };
  const found = { entries: [entry as never], refused: [], lost: 0, places: ['1'] };
  for (const longest of [undefined, 10]) {
    const text = auditLines(found, '', longest);
    expect(text).toMatch(/^[\x20-\x7e]+\n$/);
    expect(JSON.parse(text)).toMatchObject({ subject: { name } });
  }
});
