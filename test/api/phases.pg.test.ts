/** Proves the three phases: limits, rights, and the refusal to lower the phase below what the data uses. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { StartError } from '../../src/server/lifecycle/start-error.ts';
import type { Json } from '../lib/http.ts';
import { newPlace, startPostgres, startTestServer, type TestPostgres } from '../lib/server.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(async () => {
  await postgres.stop();
});

describe('phase 1', () => {
  test('one group per organization, no user groups, empty lists; the owner writes, every member reads', async () => {
    const server = await startTestServer(postgres, { phase: 1 });
    try {
      const { owner, member, base, org, defaultGroup } = await newPlace(server);
      for (const path of [`${base}/security_groups`, `/api/user/${org}/security_groups`]) {
        const answer = await owner.api.post(path, { group_name: 'second' });
        expect([answer.status, answer.json.code]).toEqual([409, 'phase_limit']);
      }
      // reference 1.3 (3), 1.4 (5): a body that only phase 3 takes is invalid here, before there is anything to conflict with.
      for (const body of [
        { applies_to: [{ all_devices: true }] },
        { guardrail: 'require', applies_to: [{ labels: ['a'] }] },
      ])
        await owner.api.expect(422, 'POST', `${base}/security_groups`, { group_name: 'by label', ...body });
      expect(await member.api.expect(200, 'GET', `${base}/security_groups`)).toHaveLength(1);
      expect((await member.api.patch(`${base}/security_groups/${defaultGroup}`, { group_name: 'x' })).status).toBe(403);
      await owner.api.expect(200, 'PATCH', `${base}/security_groups/${defaultGroup}`, { inbound_rules: [] });
      await member.api.expect(201, 'POST', `${base}/devices`, { public_key: 'a', security_groups: [] });
      const listed = await member.api.post(`${base}/devices`, { public_key: 'b', security_groups: [defaultGroup] });
      expect(listed.status).toBe(422);
      expect(listed.json.errors[0].pointer).toMatch(/^\/security_groups/);
    } finally {
      await server.close();
    }
  });
});

describe('phase 2', () => {
  test('user groups, and at most one entry in a list', async () => {
    const server = await startTestServer(postgres, { phase: 2 });
    try {
      const { owner, member, base, org } = await newPlace(server);
      const mine = await member.api.expect(201, 'POST', `/api/user/${org}/security_groups`, { group_name: 'mine' });
      const common = await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'common' });
      const create = (key: string, security_groups: string[]) =>
        member.api.post(`${base}/devices`, { public_key: key, security_groups });
      expect((await create('a', [mine.id])).status).toBe(201);
      expect((await create('b', [common.id])).status).toBe(201);
      const two = await create('c', [mine.id, common.id]);
      expect(two.status).toBe(422);
      expect(two.json.errors).toMatchObject([{ pointer: '/security_groups', code: 'too_many_items' }]);
      const byLabel = { group_name: 'by label', applies_to: [{ all_devices: true }] };
      for (const body of [byLabel, { ...byLabel, guardrail: 'forbid' }]) {
        const refused = await owner.api.expect(422, 'POST', `${base}/security_groups`, body);
        expect(refused.errors.map(({ pointer, code }: Json) => `${pointer} ${code}`)).toEqual(
          Object.keys(body)
            .filter((field) => field !== 'group_name')
            .map((field) => `/${field} phase_limit`),
        );
      }
    } finally {
      await server.close();
    }
  });
});

describe('phase 3', () => {
  test('a list of up to 64 groups', async () => {
    const server = await startTestServer(postgres);
    try {
      const { owner, base } = await newPlace(server);
      const ids: string[] = [];
      for (let i = 0; i < 65; i += 1) {
        ids.push((await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: `g${i}` })).id);
      }
      const device = await owner.api.expect(201, 'POST', `${base}/devices`, {
        public_key: 'a',
        security_groups: ids.slice(0, 64),
      });
      expect(device.security_groups).toEqual(ids.slice(0, 64));
      expect((await owner.api.patch(`${base}/devices/${device.id}`, { security_groups: ids })).status).toBe(422);
    } finally {
      await server.close();
    }
  });
});

test('lowering the phase below what the stored data uses is refused at start, with what stands in the way', async () => {
  const url = await postgres.freshUrl();
  const server = await startTestServer(postgres, { url });
  const { owner, base } = await newPlace(server);
  const groups = [];
  for (const group_name of ['a', 'b'])
    groups.push(await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name }));
  await owner.api.expect(201, 'POST', `${base}/devices`, {
    public_key: 'k',
    security_groups: groups.map((group) => group.id),
  });
  const applies_to = [{ labels: ['db'] }];
  await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'by label', applies_to });
  // The end of a trial brings back what was there before.
  const before = await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'before', applies_to });
  const path = `${base}/security_groups/${before.id}?confirm_within=86400`;
  await owner.api.expect(200, 'PATCH', path, { applies_to: [] });
  const tried = await owner.api.expect(201, 'POST', `${base}/devices`, {
    public_key: 'tried',
    security_groups: groups.map((group) => group.id),
  });
  const list = `${base}/devices/${tried.id}?confirm_within=86400`;
  await owner.api.expect(200, 'PATCH', list, { security_groups: [] });
  await server.close();
  const refusal = async (phase: 1 | 2 | 3): Promise<StartError> => {
    try {
      await (await startTestServer(postgres, { url, phase })).close();
    } catch (error) {
      if (error instanceof StartError) return error;
      throw error;
    }
    throw new Error(`phase ${phase} was not refused`);
  };
  const second = await refusal(2);
  expect(second.exitCode).toBe(2);
  expect(second.lines[0]).toBe('the stored data is not possible in phase 2:');
  expect(second.lines[1]).toMatch(/^ {2}- organization .* \(acme\): 2 devices have more than 1 group/);
  expect(second.lines[2]).toMatch(/^ {2}- organization .* \(acme\): 2 groups apply by label$/);
  expect((await refusal(1)).lines.length).toBeGreaterThan(second.lines.length);
  await (await startTestServer(postgres, { url })).close();
});
