/** Proves that a write that was made is never answered as one that was not: the database goes away between its commit and the reads for its answer. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { temporaryDirectory } from '../lib/postgres.ts';
import { newPlace, startTestServer } from '../lib/server.ts';
import { useServer } from '../lib/stage.ts';

const stage = useServer();

/** A place on a server whose database goes away when it is asked something that `fails` matches, once the place is there. */
async function failing(fails: RegExp): Promise<Awaited<ReturnType<typeof newPlace>> & { readonly heal: () => void }> {
  const [before = '', host = ''] = stage.server.databaseUrl.split('?host=');
  const sockets = decodeURIComponent(host);
  const name = '.s.PGSQL.5432';
  let isWell = true;
  const proxy = createServer((near) => {
    const far = connect(join(sockets, name));
    near.on('error', () => far.destroy()).on('close', () => far.destroy());
    far.on('error', () => near.destroy()).on('close', () => near.destroy());
    far.pipe(near);
    near.on('data', (chunk) => (!isWell && fails.test(chunk.toString('latin1')) ? near.destroy() : far.write(chunk)));
  });
  const dir = await temporaryDirectory();
  proxy.listen(join(dir, name));
  await once(proxy, 'listening');
  const url = `${before}?host=${encodeURIComponent(dir)}`;
  const server = await startTestServer(stage.postgres, { url });
  onTestFinished(async () => {
    await server.close();
    proxy.close();
    await rm(dir, { recursive: true, force: true });
  });
  const place = await newPlace(server);
  isWell = false;
  return { ...place, heal: () => (isWell = true) };
}

test('a group whose warnings cannot be read, and the answer with its key repeats', async () => {
  const { owner, base, heal } = await failing(/groups_same_name/);
  const path = `${base}/security_groups`;
  expect(await owner.api.post(path, { group_name: 'web' })).toMatchObject({
    status: 503,
    json: { code: 'outcome_unknown' },
  });
  const headers = { 'idempotency-key': randomUUID() };
  // The key has the answer without its warnings.
  expect((await owner.api.post(path, { group_name: 'web' }, headers)).status).toBe(201);
  heal();
  const groups = await owner.api.expect(200, 'GET', path);
  expect(groups.filter((group: { group_name: string }) => group.group_name === 'web')).toHaveLength(2);
});

test('a trial whose devices cannot be read', async () => {
  const { owner, base, heal } = await failing(/groups_by_id/);
  const create = `${base}/security_groups?confirm_within=600&scope=label:a`;
  const { trial } = await owner.api.expect(201, 'POST', create, { group_name: 'web' });
  const path = `${base}/trials/${trial.id}`;
  expect(await owner.api.patch(path, { scope: null })).toMatchObject({
    status: 503,
    json: { code: 'outcome_unknown' },
  });
  heal();
  expect(await owner.api.expect(200, 'GET', path)).not.toHaveProperty('scope');
});

test('a token that has ended while the writes by it cannot be waited for', async () => {
  const { owner, heal } = await failing(/find_places_of_user/);
  const { id, token } = await owner.api.expect(201, 'POST', '/api/users/me/tokens', { name: 'ci' });
  expect(await owner.api.delete(`/api/tokens/${id}`)).toMatchObject({ status: 503, json: { code: 'outcome_unknown' } });
  heal();
  expect((await owner.api.as(token).get('/api/users/me')).status).toBe(401);
});
