/** Proves evidence about a device over HTTP and against a real database: what it says, who gets it, and how it is signed (reference 4.19). */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { EvidenceDocument, EvidenceState } from '../../src/api/evidence/document.ts';
import { checkEvidence, digestOfEvidence, parseEvidenceKey } from '../../src/node/evidence-file.ts';
import { canonicalize } from '../../src/policy/canonicalize.ts';
import { digestForm } from '../../src/policy/digest/digest-form.ts';
import { policyDigest } from '../../src/policy/digest/digest.ts';
import { readGroupRecord } from '../../src/policy/fleet/group-record.ts';
import { deviceIdentity } from '../../src/policy/fleet/identity.ts';
import { evidenceInWords } from '../../src/web/model/evidence.ts';
import type { Json } from '../lib/http.ts';
import { query } from '../../src/server/store/store.fixture.ts';
import {
  newPlace,
  startPostgres,
  startTestServer,
  type Place,
  type TestPostgres,
  type TestServer,
} from '../lib/server.ts';

let postgres: TestPostgres;
let server: TestServer;
beforeAll(async () => {
  postgres = await startPostgres();
  server = await startTestServer(postgres);
});
afterAll(async () => {
  await server.close();
  await postgres.stop();
});

/** A moment that no write shares. */
function moment(): string {
  const now = Date.now();
  while (Date.now() <= now + 1);
  return new Date(now + 1).toISOString();
}

const tcp = (port: number, more: object): object => ({ ip_protocol: 'tcp', from_port: port, to_port: port, ...more });

interface Fleet extends Place {
  readonly app: string;
  readonly db: string;
  readonly dbToken: string;
  readonly group: string;
  /** Before anything was changed. */
  readonly start: string;
}

const hostile = '</script><img src=x onerror=alert(1)>\u202e';

async function newFleet(): Promise<Fleet> {
  const place = await newPlace(server);
  const { owner, base } = place;
  const device = (hostname: string, tunnel_ip: string, labels: readonly string[]): Promise<Json> =>
    owner.api.expect(201, 'POST', `${base}/devices`, {
      public_key: `${base} ${hostname}`,
      hostname,
      tunnel_ip,
      labels,
    });
  const { id: app } = await device('app-1', '100.64.0.1', ['app']);
  const { id: db, device_token } = await device('db-1', '100.64.0.2', ['db']);
  await device('guest-1', '100.64.0.3', []);
  const { id: group } = await owner.api.expect(201, 'POST', `${base}/security_groups`, {
    group_name: 'database',
    applies_to: [{ labels: ['db'] }],
    inbound_rules: [tcp(5432, { peers: [{ labels: ['app'] }], description: hostile })],
    outbound_rules: [tcp(443, { ip_ranges: ['192.0.2.0/24'] })],
  });
  return { ...place, app, db, dbToken: device_token, group, start: moment() };
}

interface Received {
  readonly file: string;
  readonly key: string;
  readonly document: EvidenceDocument;
  /** As the page says it. */
  readonly words: string;
}

async function evidence({ owner, base }: Place, device: string, span: object): Promise<Received> {
  const signed = await owner.api.expect(200, 'POST', `${base}/devices/${device}/evidence`, span);
  const [file, { key }] = [JSON.stringify(signed), signed.signature];
  const checked = checkEvidence(Buffer.from(file), [parseEvidenceKey(key) ?? Buffer.alloc(0)]);
  if (checked.outcome !== 'verified') throw new Error(checked.outcome);
  const words = (evidenceInWords(file)?.sections ?? []).flatMap(({ sentences }) => sentences).join('\n');
  return { file, key, document: checked.document as EvidenceDocument, words };
}

const reachOf = (rows: EvidenceState['reached_by']): readonly string[] =>
  rows.map(
    ({ devices, traffic }) =>
      `${devices.map(({ hostname }) => hostname).join()}: ${traffic.map(({ protocol, ports }) => `${protocol} ${ports?.map(({ from }) => from).join() ?? ''}`).join()}`,
  );

test('evidence of a moment says who could connect, by which rules, who wrote them, and what is not known', async () => {
  const fleet = await newFleet();
  const { document, words } = await evidence(fleet, fleet.db, { at: fleet.start });
  expect(document).toMatchObject({
    format: 'ringfence-evidence-1',
    organization: { id: fleet.org },
    device: { id: fleet.db, hostname: 'db-1' },
    at: fleet.start,
    created_by: { user_id: fleet.owner.id },
    policy_tests: { known: true, tests: [] },
  });
  expect(document).not.toHaveProperty('to');
  const [state, ...others] = document.states;
  expect(others).toEqual([]);
  expect(state?.groups).toEqual([{ id: fleet.group, name: 'database', by: 'label' }]);
  expect(reachOf(state?.reached_by ?? [])).toEqual(['app-1: tcp 5432']);
  // Its outbound rules name an address that no device has.
  expect(state?.reaches).toEqual([]);
  expect(state?.admits).toEqual([
    { direction: 'inbound', protocol: 'tcp', ports: [{ from: 5432, to: 5432 }], ranges: ['100.64.0.1'] },
    { direction: 'outbound', protocol: 'tcp', ports: [{ from: 443, to: 443 }], ranges: ['192.0.2.0/24'] },
  ]);
  const [reach] = state?.reached_by ?? [];
  expect(reach?.source).toEqual(['open']);
  expect(document.rules[reach?.target[0] ?? '']).toMatchObject({
    group_name: 'database',
    direction: 'inbound',
    rule: { from_port: 5432, description: hostile },
    written: { by: { user_id: fleet.owner.id }, operation: 'createSecurityGroup', credential: 'user_token' },
  });
  expect(document.in_force.now).toMatchObject({ in_force: 'never_seen', same_policy: true });
  // The other end of what may pass has a kernel of its own.
  expect(document.in_force.others).toMatchObject({
    whose: 'reach',
    devices: 1,
    proven: 0,
    receipts: [{ hostname: 'app-1', in_force: 'never_seen', same_policy: true }],
  });
  expect(document.not_known.join(' ')).toMatch(
    /Whether the device enforced its policy in that time is not known.*What was refused in that time is not known/,
  );
  // Nothing that people write hides on the page.
  expect(words).toContain(
    `database inbound tcp 5432 from label:app # </script><img src=x onerror=alert(1)>\\u202e, since `,
  );
  expect(words).toContain('app-1: tcp 5432. Let out by no outbound rules, let in by r1.');
});

test('evidence of a span has each state with the change that made it, up to the deletion of the device', async () => {
  const fleet = await newFleet();
  const { owner, base, db, app, group, start } = fleet;
  const rules = [tcp(5432, { peers: [{ labels: ['app'] }], description: 'renamed' }), tcp(22, {})];
  const expires_at = new Date(Date.now() + 5_000).toISOString();
  const { change_id } = await owner.api.expect(200, 'POST', `${base}/changes`, {
    security_groups: [{ id: group, inbound_rules: [...rules, tcp(80, { expires_at })] }],
    devices: [{ id: app, labels: ['app', 'web'] }],
  });
  moment();
  // It concerns neither end.
  await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'unused' });
  while (Date.now() <= Date.parse(expires_at) + 1) await new Promise((resolve) => setTimeout(resolve, 20));
  await owner.api.expect(200, 'POST', `${base}/devices/${db}/isolate`, { reason: 'strange traffic' });
  moment();
  await owner.api.expect(200, 'DELETE', `${base}/devices/${db}`);
  const { document } = await evidence(fleet, db, { at: start, to: moment() });
  expect(document.states.map(({ reached_by }) => reachOf(reached_by))).toEqual([
    ['app-1: tcp 5432'],
    ['app-1: tcp 22,80,5432', 'guest-1: tcp 22,80'],
    ['app-1: tcp 22,5432', 'guest-1: tcp 22'],
    [],
    [],
  ]);
  expect(document.states.map(({ from }) => from)).toEqual(document.states.map(({ from }) => from).toSorted());
  expect(document.states.map(({ until }) => until)).toEqual([
    ...document.states.slice(1).map(({ from }) => from),
    undefined,
  ]);
  const [first, widened, expired, isolated, deleted] = document.states;
  expect(first?.causes).toEqual([]);
  expect(widened?.causes.map(({ kind }) => kind).toSorted()).toEqual(['device', 'group']);
  for (const cause of widened?.causes ?? []) expect(cause).toMatchObject({ change_id, by: { user_id: owner.id } });
  expect(widened?.causes.find(({ kind }) => kind === 'group')).toMatchObject({
    name: 'database',
    type: 'changed',
    before: { inbound_rules: [{ from_port: 5432 }] },
    after: { inbound_rules: [{ from_port: 5432 }, { from_port: 22 }, { from_port: 80 }] },
  });
  expect(expired?.causes).toEqual([{ kind: 'time', at: expires_at }]);
  expect(isolated?.device).toMatchObject({ isolated: { reason: 'strange traffic' } });
  expect(isolated?.causes).toMatchObject([{ kind: 'device', name: 'db-1', operation: 'isolateDevice' }]);
  expect(deleted).not.toHaveProperty('device');
  expect(deleted?.causes).toMatchObject([{ kind: 'device', name: 'db-1', type: 'deleted', operation: 'deleteDevice' }]);
  // A rule that only got another description is as old as before.
  const written = Object.values(document.rules).map(
    ({ rule, written: write }) => `${rule.from_port} ${write?.operation}`,
  );
  expect(written.toSorted()).toEqual([
    '22 updateSecurityGroup',
    '443 createSecurityGroup',
    '5432 createSecurityGroup',
    '80 updateSecurityGroup',
  ]);
  expect(document.device.hostname).toBe('db-1');
  expect(document.in_force).not.toHaveProperty('now');
});

test('evidence has the refusals, the receipt and the policy tests of its time', async () => {
  const fleet = await newFleet();
  const { owner, base, db, dbToken } = fleet;
  await owner.api.expect(200, 'PATCH', base, { observe: 'refused' });
  const policyTest = (name: string) => ({
    name,
    from: { labels: ['app'] },
    to: { labels: ['db'] },
    protocol: 'tcp',
    port: 5432,
    expect: 'allow',
  });
  await owner.api.expect(200, 'PUT', `${base}/policy_tests`, [policyTest('app reaches db')]);
  const now = Date.now();
  await server.nobody.as(dbToken).expect(200, 'POST', `${base}/devices/${db}/flows`, {
    since: new Date(now - 60_000).toISOString(),
    until: new Date(now).toISOString(),
    observed: 'refused',
    tuples: [{ direction: 'in', verdict: 'refused', far: '100.64.0.3', protocol: 'tcp', port: 5432, packets: 3 }],
    not_recorded: 7,
  });
  const at = moment();
  // Later tests and rules say nothing about that time.
  await owner.api.expect(200, 'PUT', `${base}/policy_tests`, [policyTest('another')]);
  await owner.api.expect(200, 'PATCH', `${base}/security_groups/${fleet.group}`, { inbound_rules: [tcp(5432, {})] });
  const { document } = await evidence(fleet, db, { at });
  expect(document.policy_tests).toMatchObject({ known: true, tests: [{ name: 'app reaches db', state: 'passing' }] });
  expect(document.traffic).toMatchObject({
    refused: [{ far: '100.64.0.3', port: 5432, packets: 3, decision: { verdict: 'refused', reason: 'no-rule' } }],
    recorded: [{ not_recorded: 7 }],
    more: false,
  });
  expect(document.in_force.now).toMatchObject({ same_policy: false });
  expect(document.not_known.join(' ')).toMatch(/The policy of the device has changed since.*7 packets/);
});

test('evidence of an isolated device has the report of every other device, and says which of them do not prove that they refuse it', async () => {
  const fleet = await newFleet();
  const { owner, base, db } = fleet;
  const rest = await owner.api.expect(201, 'POST', `${base}/security_groups`, {
    group_name: 'rest',
    inbound_rules: [tcp(80, {})],
  });
  const register = async (hostname: string): Promise<(status: object) => Promise<Json>> => {
    const made = await owner.api.expect(201, 'POST', `${base}/devices`, {
      public_key: `${base} ${hostname}`,
      hostname,
      security_groups: [rest.id],
    });
    return (status) =>
      server.nobody.as(made.device_token).expect(200, 'PUT', `${base}/devices/${made.id}/status`, status);
  };
  const [good, stale] = [await register('good'), await register('stale')];
  await register('late');
  const isolated = await owner.api.expect(200, 'POST', `${base}/devices/${db}/isolate`, { reason: 'strange traffic' });
  const group = readGroupRecord(rest);
  const digestOf = (more: object): string => policyDigest(canonicalize({ source: 'list', groups: [group], ...more }));
  const isolation = { refused: [{ id: db, addresses: deviceIdentity(isolated).addresses }] };
  const refusing = digestOf({ isolation });
  const report = (policy_digest: string) => ({
    state: 'applied',
    revision: isolated.revision,
    policy_digest,
    policy_digest_form: digestForm,
  });
  await good(report(refusing));
  // It has the revision in force, as it says, and its rules do not refuse the isolated device.
  await stale(report(digestOf({})));
  const at = moment();
  const othersOf = async (): Promise<EvidenceDocument['in_force']['others']> =>
    (await evidence(fleet, db, { at })).document.in_force.others;
  const { document, words } = await evidence(fleet, db, { at });
  expect(document.in_force.others).toMatchObject({ whose: 'every_device', devices: 5, proven: 1 });
  const receipts = document.in_force.others?.receipts ?? [];
  expect(receipts.map(({ hostname, in_force, same_policy }) => `${hostname} ${in_force} ${same_policy}`)).toEqual([
    'app-1 never_seen true',
    'guest-1 never_seen true',
    'late never_seen true',
    'stale failed true',
    'good yes true',
  ]);
  expect(receipts.at(-1)).toMatchObject({ revision: isolated.revision, policy_digest: refusing });
  expect(document.not_known.join(' ')).toMatch(
    /isolated in a state in whose time no sample.*every other device that had to refuse it did so is not known.*Of the 5 other devices, .*4 do not prove now/,
  );

  expect(words).toContain('every other device has to refuse it');

  // What devices report of another policy proves nothing about that time, nor do devices that are gone.
  await owner.api.expect(200, 'DELETE', `${base}/devices/${fleet.app}`);
  await owner.api.expect(200, 'DELETE', `${base}/devices/${db}/isolate`);
  await good({ ...report(digestOf({})), revision: isolated.revision + 2 });
  const later = await othersOf();
  expect(later).toMatchObject({ devices: 5, proven: 0 });
  expect(
    later?.receipts.map(({ hostname, in_force, same_policy }) => `${hostname} ${in_force} ${same_policy}`),
  ).toContain('good yes false');
  expect(later?.receipts[0]).toMatchObject({ hostname: 'app-1', in_force: 'deleted', same_policy: false });
});

test('evidence of an isolated device says that those which its isolation allows need not refuse it', async () => {
  const fleet = await newFleet();
  const { owner, base, db, app } = fleet;
  await owner.api.expect(200, 'POST', `${base}/devices/${db}/isolate`, {
    reason: 'strange traffic',
    allow: [{ labels: ['app'] }],
  });
  const { document, words } = await evidence(fleet, db, { at: moment() });
  expect(document.states[0]?.reached_by.flatMap(({ devices }) => devices)).toEqual([{ id: app, hostname: 'app-1' }]);
  expect(document.not_known.join(' ')).toContain(
    'Of the 2 other devices, which have to refuse the isolated device except those that its isolation allows, 2 do not prove',
  );
  expect(words).toContain('every other device has to refuse it except those that its isolation allows: 2.');
});

test('only owners make evidence, of the past, and of devices that the organization had; the audit has the digest of each file', async () => {
  const fleet = await newFleet();
  const { owner, member, base, db, start } = fleet;
  const path = `${base}/devices/${db}/evidence`;
  const another = await newFleet();
  await member.api.expect(403, 'POST', path, { at: start });
  await another.owner.api.expect(404, 'POST', path, { at: start });
  await owner.api.expect(404, 'POST', `${base}/devices/${another.db}/evidence`, { at: start });
  const ahead = new Date(Date.now() + 3_600_000).toISOString();
  for (const [body, pointer] of [
    [{ at: ahead }, '/at'],
    [{ at: start, to: ahead }, '/to'],
    [{ at: moment(), to: start }, '/to'],
  ] as const) {
    expect(await owner.api.expect(422, 'POST', path, body)).toMatchObject({ errors: [{ pointer }] });
  }
  await owner.api.expect(410, 'POST', path, { at: '2001-01-01T00:00:00Z' });
  const { signature: _signature, ...document } = await owner.api.expect(200, 'POST', path, { at: start });
  const [entry, ...more] = (await owner.api.expect(200, 'GET', `${base}/audit`)).filter(
    ({ operation }: Json) => operation === 'createEvidence',
  );
  expect(more).toEqual([]);
  expect(entry).toMatchObject({
    subject_id: db,
    subject: { name: 'db-1' },
    user_id: owner.id,
    after: { at: start, sha256: digestOfEvidence(document) },
  });
});

test('each organization signs with a key of its own, and a replaced key signs nothing more', async () => {
  const [fleet, another] = [await newFleet(), await newFleet()];
  const { owner, member, base, db, start } = fleet;
  const keys = (): Promise<Json> => member.api.expect(200, 'GET', `${base}/evidence_keys`);
  // Two that ask for the first time get the same.
  const [[first], [same]] = await Promise.all([keys(), keys()]);
  expect(same.key).toBe(first.key);
  const before = await evidence(fleet, db, { at: start });
  expect(before.key).toBe(first.key);
  const trusted = [parseEvidenceKey(first.key) ?? Buffer.alloc(0)];
  const foreign = await evidence(another, another.db, { at: another.start });
  expect(checkEvidence(Buffer.from(foreign.file), trusted)).toMatchObject({ outcome: 'unknown_key' });

  const fresh = await owner.api.expect(200, 'POST', `${base}/evidence_keys`);
  expect(await keys()).toEqual([fresh, { ...first, retired_at: expect.any(String) as string }]);
  const after = await evidence(fleet, db, { at: start });
  expect(after.key).toBe(fresh.key);
  expect(checkEvidence(Buffer.from(after.file), trusted)).toMatchObject({ outcome: 'unknown_key' });
  expect(checkEvidence(Buffer.from(before.file), trusted)).toMatchObject({ outcome: 'verified' });
  const rows = await query(
    server.databaseUrl,
    `SELECT FROM evidence_keys WHERE retired_at IS NOT NULL AND private_key IS NOT NULL`,
  );
  expect(rows).toEqual([]);
});
