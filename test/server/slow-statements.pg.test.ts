/**
 * Proves that slow statements of one organization hold up nobody else: neither who is asking, nor what others read, nor an answer that only wants to warn.
 * A lock on a table stands for a statement that takes as long as it likes.
 */
import { rm } from 'node:fs/promises';
import { Client } from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { Api } from '../lib/http.ts';
import { startPostgres, temporaryDirectory, type TestPostgres } from '../lib/postgres.ts';
import { Program, type Run } from '../lib/run.ts';

const token = `rf_user_${'s'.repeat(43)}`;
let program: Program;
let postgres: TestPostgres;
let data: string;
let url: string;
let run: Run;
let rogue: Api;
let victim: Api;
let ofRogue: string;
let ofVictim: string;

beforeAll(async () => {
  [program, postgres, data] = await Promise.all([Program.build(), startPostgres(), temporaryDirectory()]);
  url = await postgres.freshUrl();
  run = program.run(['server', '--listen', '127.0.0.1:0', '--data', data, '--workers', '1'], {
    RINGFENCE_ADMIN_TOKEN: token,
    RINGFENCE_DATABASE_URL: url,
  });
  const admin = new Api(await run.url(), token);
  const person = async (username: string): Promise<Api> => {
    const { id } = await admin.expect(201, 'POST', '/api/users', { username });
    const issued = await admin.expect(201, 'POST', `/api/users/${id}/tokens`, { name: 'x' });
    return admin.as(issued.token);
  };
  [rogue, victim] = await Promise.all([person('rogue'), person('victim')]);
  const organizationOf = async (api: Api): Promise<string> =>
    `/api/organizations/${(await api.expect(201, 'POST', '/api/organizations', { name: 'x' })).id}`;
  [ofRogue, ofVictim] = await Promise.all([organizationOf(rogue), organizationOf(victim)]);
});
afterAll(async () => {
  victim?.close();
  rogue?.close();
  await run?.stop();
  await program?.close();
  await postgres?.stop();
  await rm(data, { recursive: true, force: true });
});

/** Holds the table until it is told to let go. */
async function block(table: string): Promise<() => Promise<void>> {
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query('BEGIN');
  await client.query(`LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`);
  let isHeld = true;
  const letGo = async (): Promise<void> => {
    if (!isHeld) return;
    isHeld = false;
    await client.query('ROLLBACK');
    await client.end();
  };
  onTestFinished(letGo);
  return letGo;
}

test('who is asking is known, and others read, while statements of one organization do not end', async () => {
  const letGo = await block('webhooks');
  let answered = 0;
  const slow = Array.from({ length: 12 }, async () => {
    const { status } = await rogue.get(`${ofRogue}/webhooks`);
    answered += 1;
    return status;
  });
  for (let asked = 0; asked < 40; asked += 1) {
    await victim.expect(200, 'GET', '/api/users/me');
    await Promise.all([
      victim.expect(200, 'GET', `${ofVictim}/security_groups`),
      victim.expect(200, 'GET', `${ofVictim}/devices`),
      victim.expect(200, 'GET', ofVictim),
    ]);
  }
  // The organization whose statements they are is known who asks in it, too.
  await rogue.expect(200, 'GET', '/api/users/me');
  expect(answered).toBe(0);
  await letGo();
  expect(new Set(await Promise.all(slow))).toEqual(new Set([200]));
});
