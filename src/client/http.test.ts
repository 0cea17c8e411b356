/**
 * Proves that every operation is sent as the table of operations says, and that every response is read or rejected with
 * its own error.
 */
import { describe, expect, it } from 'vitest';
import { paths } from '../api/paths.ts';
import type { CallId } from './calls.ts';
import { RingfenceError } from './error.ts';
import { fakeNetwork, json, problem, turn, type Handler } from './fake.fixture.ts';
import { revisionOf } from './headers.ts';
import type { Client } from './http.ts';
import { device, deviceId, group, groupId, organization as org } from './records.fixture.ts';

const id = deviceId(7);
const sg = groupId(7);

const flowReport = {
  since: '2026-11-18T08:00:00Z',
  until: '2026-11-18T08:01:00Z',
  observed: 'refused',
  tuples: [],
  not_recorded: 0,
} as const;

/** Every operation by the method that sends it: the compiler asks for a row when an operation is added. */
const calls: { readonly [Id in CallId]: readonly [(client: Client) => Promise<unknown>, sent: object] } = {
  whoAmI: [(c) => c.whoAmI(), {}],
  createUser: [(c) => c.users.create({ username: 'ada' }), { body: { username: 'ada' } }],
  listUsers: [(c) => c.users.list({ limit: 2 }), { query: 'limit=2' }],
  readUser: [(c) => c.users.get(id), { user_id: id }],
  removeUser: [(c) => c.users.remove(id), { user_id: id }],
  createMyToken: [(c) => c.tokens.create({ name: 'ci' }), { body: { name: 'ci' } }],
  listMyTokens: [(c) => c.tokens.list(), {}],
  createUserToken: [(c) => c.tokens.createFor(id), { user_id: id, body: {} }],
  readToken: [(c) => c.tokens.get(id), { token_id: id }],
  rotateToken: [(c) => c.tokens.rotate(id), { token_id: id }],
  revokeToken: [(c) => c.tokens.revoke(id), { token_id: id }],
  createOrganization: [(c) => c.organizations.create({ name: 'x' }), { body: { name: 'x' } }],
  listOrganizations: [(c) => c.organizations.list({ limit: 3, after: 'a b&c' }), { query: 'limit=3&after=a%20b%26c' }],
  readOrganization: [(c) => c.organizations.get(org), { org_id: org }],
  updateOrganization: [
    (c) => c.organizations.update(org, { name: 'y' }, { ifMatch: 4 }),
    { org_id: org, body: { name: 'y' }, ifMatch: '"4"' },
  ],
  deleteOrganization: [(c) => c.organizations.delete(org, { ifMatch: '"x"' }), { org_id: org, ifMatch: '"x"' }],
  listMembers: [(c) => c.members.list(org), { org_id: org }],
  createInvitation: [
    (c) => c.invitations.create(org, { email: 'kim@example.org' }),
    { org_id: org, body: { email: 'kim@example.org' } },
  ],
  listInvitations: [(c) => c.invitations.list(org), { org_id: org }],
  revokeInvitation: [(c) => c.invitations.revoke(org, id), { org_id: org, invitation_id: id }],
  addMember: [(c) => c.members.add(org, { username: 'ada' }), { org_id: org, body: { username: 'ada' } }],
  readMember: [(c) => c.members.get(org, id), { org_id: org, user_id: id }],
  updateMember: [
    (c) => c.members.update(org, id, { role: 'owner' }),
    { org_id: org, user_id: id, body: { role: 'owner' } },
  ],
  acceptMember: [(c) => c.members.accept(org, id), { org_id: org, user_id: id }],
  removeMember: [
    (c) => c.members.remove(org, id, { keep: 'devices', detach: true }),
    { org_id: org, user_id: id, query: 'keep=devices&detach=true' },
  ],
  createDevice: [(c) => c.devices.create(org, { public_key: 'k' }), { org_id: org, body: { public_key: 'k' } }],
  listDevicesInOrganization: [(c) => c.devices.list(org, { gt_revision: 9 }), { org_id: org, query: 'gt_revision=9' }],
  readDevice: [(c) => c.devices.get(org, id), { org_id: org, device_id: id }],
  updateDevice: [
    (c) => c.devices.update(org, id, { security_groups: [sg] }, { ifMatch: 1 }),
    { org_id: org, device_id: id, body: { security_groups: [sg] }, ifMatch: '"1"' },
  ],
  deleteDevice: [(c) => c.devices.delete(org, id), { org_id: org, device_id: id }],
  moveDevice: [(c) => c.devices.move(org, id, { user_id: id }), { org_id: org, device_id: id, body: { user_id: id } }],
  isolateDevice: [
    (c) => c.devices.isolate(org, id, { reason: 'r' }),
    { org_id: org, device_id: id, body: { reason: 'r' } },
  ],
  previewIsolation: [(c) => c.devices.previewIsolation(org, id), { org_id: org, device_id: id }],
  liftIsolation: [(c) => c.devices.liftIsolation(org, id), { org_id: org, device_id: id }],
  listDeviceGroups: [(c) => c.devices.groups(org, id), { org_id: org, device_id: id }],
  reportDeviceStatus: [
    (c) => c.statuses.report(org, id, { state: 'applied', revision: 3 }),
    { org_id: org, device_id: id, body: { state: 'applied', revision: 3 } },
  ],
  reportFlows: [(c) => c.statuses.reportFlows(org, id, flowReport), { org_id: org, device_id: id, body: flowReport }],
  listFlows: [
    (c) => c.flows.list(org, { verdict: 'refused', limit: 5 }),
    { org_id: org, query: 'verdict=refused&limit=5' },
  ],
  readFlowCoverage: [(c) => c.flows.coverage(org, { device_id: id }), { org_id: org, query: `device_id=${id}` }],
  listDeviceStatuses: [(c) => c.statuses.list(org), { org_id: org }],
  readConvergence: [
    (c) => c.statuses.convergence(org, { revision: 7, wait: 5 }),
    { org_id: org, query: 'revision=7&wait=5' },
  ],
  simulateChanges: [
    (c) => c.simulate(org, { delete: [id] }, { limit: 10 }),
    { org_id: org, query: 'limit=10', body: { delete: [id] } },
  ],
  proposeRules: [(c) => c.propose(org, { labels: ['db'] }), { org_id: org, body: { labels: ['db'] } }],
  explainConnection: [
    (c) => c.statuses.explain(org, { from: id, to: '10.0.0.1', port: 22 }),
    { org_id: org, query: `from=${id}&to=10.0.0.1&port=22` },
  ],
  readOverview: [(c) => c.statuses.overview(org, { hours: 6 }), { org_id: org, query: 'hours=6' }],
  createEnrollmentKey: [(c) => c.enrollmentKeys.create(org, { uses: 2 }), { org_id: org, body: { uses: 2 } }],
  listEnrollmentKeys: [(c) => c.enrollmentKeys.list(org), { org_id: org }],
  readEnrollmentKey: [(c) => c.enrollmentKeys.get(org, id), { org_id: org, key_id: id }],
  revokeEnrollmentKey: [(c) => c.enrollmentKeys.revoke(org, id), { org_id: org, key_id: id }],
  listPolicyTests: [(c) => c.policyTests.list(org), { org_id: org }],
  replacePolicyTests: [
    (c) => c.policyTests.replace(org, [], { skip_tests: true, ifMatch: 3 }),
    { org_id: org, body: [], query: 'skip_tests=true', ifMatch: '"3"' },
  ],
  listTrials: [(c) => c.trials.list(org), { org_id: org }],
  readTrial: [(c) => c.trials.get(org, id), { org_id: org, trial_id: id }],
  widenTrial: [
    (c) => c.trials.widen(org, id, { scope: 'label:edge' }),
    { org_id: org, trial_id: id, body: { scope: 'label:edge' } },
  ],
  confirmTrial: [(c) => c.trials.confirm(org, id), { org_id: org, trial_id: id }],
  revertTrial: [
    (c) => c.trials.revert(org, id, { records: [sg] }),
    { org_id: org, trial_id: id, body: { records: [sg] } },
  ],
  createWebhook: [
    (c) => c.webhooks.create(org, { url: 'https://x', events: ['device.failed'] }),
    { org_id: org, body: { url: 'https://x', events: ['device.failed'] } },
  ],
  listWebhooks: [(c) => c.webhooks.list(org), { org_id: org }],
  readWebhook: [(c) => c.webhooks.get(org, id), { org_id: org, webhook_id: id }],
  updateWebhook: [
    (c) => c.webhooks.update(org, id, { name: 'y' }),
    { org_id: org, webhook_id: id, body: { name: 'y' } },
  ],
  deleteWebhook: [(c) => c.webhooks.delete(org, id), { org_id: org, webhook_id: id }],
  testWebhook: [(c) => c.webhooks.test(org, id), { org_id: org, webhook_id: id }],
  listWebhookDeliveries: [
    (c) => c.webhooks.deliveries(org, id, { limit: 2 }),
    { org_id: org, webhook_id: id, query: 'limit=2' },
  ],
  applyChanges: [
    (c) => c.changes.apply(org, { delete: [sg] }, { detach: true }),
    { org_id: org, body: { delete: [sg] }, query: 'detach=true' },
  ],
  readChangeSet: [(c) => c.changes.get(org, id), { org_id: org, change_id: id }],
  revertChangeSet: [
    (c) => c.changes.revert(org, id, { force: true }),
    { org_id: org, change_id: id, query: 'force=true' },
  ],
  createEvidence: [
    (c) => c.evidence.create(org, id, { at: '2026-01-01T00:00:00Z' }),
    { org_id: org, device_id: id, body: { at: '2026-01-01T00:00:00Z' } },
  ],
  listEvidenceKeys: [(c) => c.evidence.keys(org), { org_id: org }],
  rotateEvidenceKey: [(c) => c.evidence.rotateKey(org), { org_id: org }],
  listAudit: [(c) => c.audit.list(org), { org_id: org }],
  listServerAudit: [(c) => c.audit.server(), {}],
  listDeviceHistory: [(c) => c.history.device(org, id, { limit: 2 }), { org_id: org, device_id: id, query: 'limit=2' }],
  listDeviceNamesakes: [
    (c) => c.history.namesakes(org, id, { limit: 2 }),
    { org_id: org, device_id: id, query: 'limit=2' },
  ],
  listSecurityGroupHistory: [(c) => c.history.group(org, sg), { org_id: org, sg_id: sg }],
  restoreSecurityGroup: [
    (c) => c.history.restore(org, sg, { revision: 3 }, { ifMatch: 4 }),
    { org_id: org, sg_id: sg, body: { revision: 3 }, ifMatch: '"4"' },
  ],
  createSecurityGroup: [
    (c) => c.groups.create(org, { group_name: 'g' }, { force: true }),
    { org_id: org, body: { group_name: 'g' }, query: 'force=true' },
  ],
  listSecurityGroups: [(c) => c.groups.list(org), { org_id: org }],
  readSecurityGroupUsage: [
    (c) => c.groups.usage(org, sg, { since: '2026-01-01T00:00:00Z' }),
    { org_id: org, sg_id: sg, query: 'since=2026-01-01T00%3A00%3A00Z' },
  ],
  readUnusedRules: [(c) => c.groups.unused(org), { org_id: org }],
  readSecurityGroupObservation: [
    (c) => c.groups.observation(org, sg, { limit: 5 }),
    { org_id: org, sg_id: sg, query: 'limit=5' },
  ],
  readSecurityGroup: [(c) => c.groups.get(org, sg), { org_id: org, sg_id: sg }],
  updateSecurityGroup: [
    (c) => c.groups.update(org, sg, { inbound_rules: [] }, { ifMatch: 2 }),
    { org_id: org, sg_id: sg, body: { inbound_rules: [] }, ifMatch: '"2"' },
  ],
  deleteSecurityGroup: [
    (c) => c.groups.delete(org, sg, { detach: true, ifMatch: 2 }),
    { org_id: org, sg_id: sg, query: 'detach=true', ifMatch: '"2"' },
  ],
  createUserSecurityGroup: [
    (c) => c.userGroups.create(org, { group_name: 'g' }),
    { org_id: org, body: { group_name: 'g' } },
  ],
  listUserSecurityGroups: [(c) => c.userGroups.list(org), { org_id: org }],
  readUserSecurityGroup: [(c) => c.userGroups.get(org, sg), { org_id: org, sg_id: sg }],
  updateUserSecurityGroup: [
    (c) => c.userGroups.update(org, sg, { group_name: 'h' }),
    { org_id: org, sg_id: sg, body: { group_name: 'h' } },
  ],
  deleteUserSecurityGroup: [(c) => c.userGroups.delete(org, sg), { org_id: org, sg_id: sg }],
};

const answering = (handler: Handler) => fakeNetwork(handler);
const caught = async (work: Promise<unknown>): Promise<unknown> => {
  try {
    return await work;
  } catch (error) {
    return error;
  }
};

describe('the client', () => {
  it.each(Object.keys(calls) as CallId[])(
    'sends %s as the table says and answers with what came back',
    async (name) => {
      const [method, path] = paths[name];
      const [run, sent] = calls[name];
      const { body, query, ifMatch, ...params } = sent as Record<string, unknown> & { readonly query?: string };
      const answer = paths[name][2] === 'list' ? [{ id: 'one' }] : { id: 'one' };
      const { client, seen, clock } = answering(() => json(answer, { status: method === 'POST' ? 201 : 200 }));

      expect(await run(client)).toEqual(answer);
      expect(seen).toHaveLength(1);
      const filled = path.replace(/\{(\w+)\}/g, (_, variable: string) => String(params[variable]));
      expect(seen[0]).toMatchObject({ method, headers: { authorization: 'Bearer rf_user_secret' } });
      expect(seen[0]?.url).toBe(`http://server.test${filled}${query === undefined ? '' : `?${query}`}`);
      expect(seen[0]?.body).toEqual(body);
      expect(seen[0]?.headers['if-match']).toBe(ifMatch);
      expect(seen[0]?.headers['content-type']).toBe(body === undefined ? undefined : 'application/json');
      expect(clock.timers).toBe(0);
    },
  );

  it('tells what the headers of an answer say', async () => {
    const { client } = answering(() =>
      json(group(1, 12), {
        status: 201,
        headers: { etag: '"12"', location: `/api/organizations/${org}/security_groups/x`, 'x-request-id': 'r-1' },
      }),
    );
    const answer = await client.request('createSecurityGroup', { params: { org_id: org }, body: { group_name: 'g' } });
    expect(answer).toMatchObject({ status: 201, etag: '"12"', requestId: 'r-1', next: undefined });
    expect(answer.location).toContain('/security_groups/');
    expect(revisionOf(answer.etag)).toBe(12);
  });

  it('walks a list page by page and never lets a link lead it to another server', async () => {
    const { client, seen } = answering(({ url }) => {
      const after = new URL(url).searchParams.get('after');
      if (after === null) {
        const link = '<http://evil.test/api/x?limit=2&after=t%3D1>; rel="next"';
        return json([device(1, 1), device(2, 2)], { headers: { 'content-type': 'application/json', link } });
      }
      return json([device(3, 3)]);
    });
    const revisions: number[] = [];
    for await (const { revision } of client.devices.each(org, { limit: 2 })) revisions.push(revision);
    expect(revisions).toEqual([1, 2, 3]);
    expect(seen.map(({ url }) => new URL(url).host)).toEqual(['server.test', 'server.test']);
    expect(seen[1]?.url).toContain('?limit=2&after=t%3D1');
  });

  it('does not walk in circles when a server keeps naming the same page', async () => {
    const link = '</x?after=1>; rel="next"';
    const { client } = answering(() => json([device(1, 1)], { headers: { 'content-type': 'application/json', link } }));
    const walk = (async () => {
      for await (const _ of client.devices.each(org));
    })();
    expect(await caught(walk)).toMatchObject({ code: 'bad_answer' });
  });

  it('asks a token function before each request, and tells when it has none to give', async () => {
    let count = 0;
    const { client, seen } = fakeNetwork(() => json({}), {
      token: () => {
        count += 1;
        if (count === 3) throw new Error('signed out');
        return Promise.resolve(`t${count}`);
      },
    });
    await client.whoAmI();
    await client.whoAmI();
    expect(seen.map(({ headers }) => headers['authorization'])).toEqual(['Bearer t1', 'Bearer t2']);
    expect(await caught(client.whoAmI())).toMatchObject({ code: 'unauthenticated', status: undefined });
  });
});

describe('a failure', () => {
  it('carries code, status, every problem, the devices in the way and the request id', async () => {
    const errors = [
      {
        pointer: '/inbound_rules/0/from_port',
        code: 'port_reversed',
        detail: 'from_port 9 is greater than to_port 1.',
      },
      { pointer: '/group_name', code: 'text_too_short', detail: 'group_name must not be empty.' },
    ];
    const { client } = answering(() =>
      problem(422, { code: 'invalid', title: 'Invalid', detail: '2 problems', request_id: 'r-9', errors }),
    );
    const error = await caught(client.groups.create(org, { group_name: '' }));
    expect(error).toBeInstanceOf(RingfenceError);
    expect(error).toMatchObject({ code: 'invalid', status: 422, requestId: 'r-9', errors, retryable: false });

    const busy = answering(() => problem(409, { code: 'group_in_use', detail: 'In use.', devices: [id] }));
    expect(await caught(busy.client.groups.delete(org, sg))).toMatchObject({ code: 'group_in_use', devices: [id] });
  });

  it.each([
    [400, 'malformed_request'],
    [401, 'unauthenticated'],
    [403, 'forbidden'],
    [404, 'not_found'],
    [409, 'conflict'],
    [410, 'revision_gone'],
    [412, 'precondition_failed'],
    [413, 'payload_too_large'],
    [418, 'bad_answer'],
    [429, 'rate_limited'],
    [500, 'internal'],
    [502, 'unavailable'],
    [503, 'unavailable'],
    [504, 'unavailable'],
  ])('of status %i gets the code %s also when a proxy answers with a page of its own', async (status, code) => {
    const { client } = answering(() => new Response('<html>', { status, headers: { 'content-type': 'text/html' } }));
    expect(await caught(client.whoAmI())).toMatchObject({ code, status });
    const newer = answering(() => problem(status, { code: 'from_the_future', detail: 'Hm.' }));
    expect(await caught(newer.client.whoAmI())).toMatchObject({ code, status, message: 'Hm.' });
  });

  it('survives a problem document that is broken in every way', async () => {
    for (const body of ['', 'null', '[]', '{"errors":[1,{"pointer":2}],"detail":{},"devices":[1]}', '{"co']) {
      const { client } = answering(
        () => new Response(body, { status: 422, headers: { 'content-type': 'application/problem+json' } }),
      );
      expect(await caught(client.whoAmI())).toMatchObject({ code: 'invalid', errors: [], devices: [] });
    }
  });

  it('reads Retry-After as seconds and as a date', async () => {
    const { client, clock } = answering(() => problem(503, {}, { 'retry-after': 'Tue, 14 Nov 2023 22:13:30 GMT' }));
    expect(clock.now()).toBe(Date.parse('2023-11-14T22:13:20Z'));
    expect(await caught(client.whoAmI())).toMatchObject({ retryAfter: 10_000 });
    const odd = answering(() => problem(503, {}, { 'retry-after': 'soon' }));
    expect(await caught(odd.client.whoAmI())).toMatchObject({ retryAfter: undefined });
  });

  it('to reach the server tells the deepest cause', async () => {
    const cause = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:1'), { code: 'ECONNREFUSED' });
    const { client } = answering(() => Promise.reject(new TypeError('fetch failed', { cause })));
    expect(await caught(client.whoAmI())).toMatchObject({
      code: 'unreachable',
      message: 'http://server.test: connect ECONNREFUSED 127.0.0.1:1',
      retryable: true,
    });
  });

  it('is told when the answer takes longer than the timeout, and nothing stays behind', async () => {
    const { client, clock, seen } = answering(() => new Promise<never>(() => undefined));
    const work = caught(client.whoAmI());
    await clock.advance(30_000);
    expect(await work).toMatchObject({ code: 'timed_out' });
    expect(seen[0]?.signal.aborted).toBe(true);
    expect(clock.timers).toBe(0);
  });

  it("is not an abort: then the signal's own reason is thrown", async () => {
    const reason = new Error('enough');
    const abort = new AbortController();
    const { client } = answering(() => new Promise<never>(() => undefined));
    const work = caught(client.whoAmI({ signal: abort.signal }));
    const own = fakeNetwork(() => new Promise<never>(() => undefined), { signal: abort.signal });
    const unsignalled = caught(own.client.devices.get(org, id));
    const signalled = own.client.devices.get(org, id, { signal: new AbortController().signal });
    await turn();
    abort.abort(reason);
    expect(await work).toBe(reason);
    expect(await unsignalled).toBe(reason);
    expect(await Promise.race([signalled, Promise.resolve('still asking')])).toBe('still asking');
    expect(await caught(own.client.whoAmI())).toBe(reason);
    expect(own.seen).toHaveLength(2);
  });

  it('is reported, and the credential not carried along, when the server redirects', async () => {
    const { client, seen } = answering(
      () => new Response(null, { status: 308, headers: { location: 'https://b.test/' } }),
    );
    expect(await caught(client.whoAmI())).toMatchObject({
      code: 'bad_answer',
      message: 'http://server.test redirects to https://b.test/: give the final address',
    });
    expect(seen).toHaveLength(1);
  });

  it('is told when a success is no JSON, or no record, or no list', async () => {
    for (const body of ['<html>', '"text"', 'null', '[]']) {
      const { client } = answering(() => new Response(body));
      expect(await caught(client.whoAmI())).toMatchObject({ code: 'bad_answer' });
    }
    const { client } = answering(() => json({}));
    expect(await caught(client.devices.list(org))).toMatchObject({ code: 'bad_answer' });
  });
});
