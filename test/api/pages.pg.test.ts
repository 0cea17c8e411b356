/** Proves the paths: aliases of every operation, and the pages besides the operations. */
import { describe, expect, test } from 'vitest';
import { useServer } from '../lib/stage.ts';
import { operations } from '../../src/api/operations.ts';
import { operationIds, pathsOf } from '../../src/api/paths.ts';
import { signInPathIds } from '../../src/api/sign-in.ts';
import { databaseChecks, Health, laterSchemaMs } from '../../src/server/http/pages/health.ts';
import { query } from '../../src/server/store/store.fixture.ts';

const stage = useServer();

describe('paths', () => {
  test('every operation answers under /api and bare, user and users alike, with the same answer', async () => {
    for (const id of operationIds) {
      const { method, params } = operations[id];
      const answers = [];
      for (const path of pathsOf(id)) {
        let filled = path;
        for (const name of params) filled = filled.replace(`{${name}}`, stage.place.org);
        // Without a credential: each is guarded, so each exists.
        answers.push((await stage.server.nobody.ask(method, filled)).status);
      }
      expect(answers, id).toEqual(pathsOf(id).map(() => 401));
    }
  });

  test('the paths of the reference, in every spelling (reference 4.1)', async () => {
    const { member, org } = stage.place;
    for (const prefix of ['', '/api']) {
      const made = await member.api.expect(201, 'POST', `${prefix}/user/${org}/security_groups`, { group_name: 'a' });
      expect(await member.api.expect(200, 'GET', `${prefix}/user/${org}/security_groups/${made.id}`)).toEqual(made);
      const changed = await member.api.expect(200, 'PATCH', `${prefix}/users/${org}/security_groups/${made.id}`, {
        group_name: 'b',
      });
      expect(await member.api.expect(200, 'GET', `${prefix}/organizations/${org}/security_groups/${made.id}`)).toEqual(
        changed,
      );
      const list = await member.api.expect(200, 'GET', `${prefix}/organizations/${org}/security_groups`);
      expect(list.map((group: { id: string }) => group.id)).toEqual([stage.place.defaultGroup, made.id]);
      await member.api.expect(200, 'DELETE', `${prefix}/users/${org}/security_groups/${made.id}`);
      expect(await member.api.expect(200, 'GET', `${prefix}/organizations/${org}/devices`)).toEqual([]);
    }
  });

  test('ids may be written in capitals', async () => {
    expect(
      (await stage.place.owner.api.get(stage.place.base.replace(stage.place.org, stage.place.org.toUpperCase())))
        .status,
    ).toBe(200);
  });

  test('HEAD answers like GET, without a body', async () => {
    const head = await stage.place.owner.api.ask('HEAD', stage.place.base);
    const get = await stage.place.owner.api.get(stage.place.base);
    expect([head.status, head.text, head.headers.etag]).toEqual([200, '', get.headers.etag]);
  });
});

describe('pages', () => {
  test('/ leads to /ui/', async () => {
    const answer = await stage.server.nobody.get('/');
    expect([answer.status, answer.headers.location]).toEqual([302, '/ui/']);
    const page = await stage.server.nobody.get('/ui/');
    expect(page.status).toBe(200);
    expect(page.headers['content-type']).toMatch(/^text\/html/);
    expect(page.headers['content-security-policy']).toContain("default-src 'none'");
  });

  test('/healthz says that the process lives, /readyz that the database is reached', async () => {
    expect((await stage.server.nobody.get('/healthz')).json).toEqual({ status: 'ok' });
    expect((await stage.server.nobody.get('/readyz')).json).toEqual({ status: 'ready' });
  });

  test('a later version has migrated the database: the server works, /readyz says so for ten minutes, and then that it must be upgraded', async () => {
    const { server, place } = stage;
    let now = 0;
    const health = new Health(databaseChecks(server.store), () => now);
    expect(await health.lacking(10_000)).toBeUndefined();
    await query(server.databaseUrl, `INSERT INTO schema_versions (version, title) VALUES (9999, 'from the future')`);
    try {
      expect((await server.nobody.get('/readyz')).status).toBe(200);
      expect((await place.owner.api.get('/api/users/me')).status).toBe(200);
      expect(await health.lacking(10_000)).toBeUndefined();
      now = laterSchemaMs - 1;
      expect(await health.lacking(10_000)).toBeUndefined();
      now = laterSchemaMs;
      expect(await health.lacking(10_000)).toBe('a later version has migrated the database; upgrade this server');
    } finally {
      await query(server.databaseUrl, 'DELETE FROM schema_versions WHERE version = 9999');
    }
    expect(await health.lacking(10_000)).toBeUndefined();
  });

  test('/metrics counts requests by operation and status', async () => {
    await stage.place.owner.api.get('/api/users/me');
    const metrics = (await stage.server.nobody.get('/metrics')).text;
    expect(metrics).toMatch(/ringfence_http_requests_total\{operation="whoAmI",status="200"\} [1-9]/);
    expect(metrics).toContain('process_resident_memory_bytes');
  });

  test('/api/openapi.json describes every operation', async () => {
    const document = (await stage.server.nobody.get('/api/openapi.json')).json;
    expect(document.openapi).toBe('3.1.0');
    const ids = Object.values(document.paths as Record<string, Record<string, { operationId: string }>>)
      .flatMap((methods) => Object.values(methods))
      .map((operation) => operation.operationId);
    expect(ids.toSorted()).toEqual([...operationIds, ...signInPathIds].toSorted());
  });

  test('/api/docs is one page without script that names every operation and error', async () => {
    const { text, headers } = await stage.server.nobody.get('/api/docs');
    for (const id of [...operationIds, ...signInPathIds]) expect(text).toContain(`id="${id}"`);
    expect(text).toContain('id="error-group_in_use"');
    expect(text).not.toContain('<script');
    expect(headers['content-security-policy']).not.toContain('unsafe');
    const broken = [...text.matchAll(/href="#([^"]+)"/g)].filter(([, target]) => !text.includes(`id="${target}"`));
    expect(broken).toEqual([]);
    const levels = [...text.matchAll(/<h([1-6])[ >]/g)].map(([, level]) => Number(level));
    expect(levels.filter((level, index) => level > (levels[index - 1] ?? 0) + 1)).toEqual([]);
    expect((await stage.server.nobody.get('/api/docs/style.css')).headers['content-type']).toMatch(/^text\/css/);
  });
});
