/** Proves what happens when the disk is full: 503 while it is, nothing acknowledged is lost, and everything again when there is room. */
import { execFile } from 'node:child_process';
import { open, rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Api } from '../lib/http.ts';
import { temporaryDirectory } from '../lib/postgres.ts';
import { Program } from '../lib/run.ts';

const run = promisify(execFile);
let disk: string;
let program: Program;
beforeAll(async () => {
  disk = await temporaryDirectory();
  await run('mount', ['-t', 'tmpfs', '-o', 'size=160m,mode=0755', 'ringfence-test', disk]);
  program = await Program.build();
});
afterAll(async () => {
  await program.close();
  // PostgreSQL ends with its server, but not in the same instant.
  for (let tries = 0; tries < 600; tries += 1) {
    try {
      await run('umount', [disk]);
      break;
    } catch {
      await sleep(100);
    }
  }
  await rm(disk, { recursive: true, force: true });
});

/** Takes what is left of the disk. */
async function fill(file: string): Promise<void> {
  const handle = await open(file, 'w');
  try {
    const block = Buffer.alloc(64 * 1024);
    for (;;) await handle.write(block);
  } catch (error) {
    expect((error as NodeJS.ErrnoException).code).toBe('ENOSPC');
  } finally {
    await handle.close();
  }
}

test('a full disk is 503 with Retry-After; with room again, the same server goes on and has every acknowledged write', async () => {
  const token = 'operator-token-0123456789-0123456789';
  const server = program.run(['server', '--listen', '127.0.0.1:0', '--data', join(disk, 'data')], {
    RINGFENCE_ADMIN_TOKEN: token,
  });
  const api = new Api(await server.url(), token);
  const { id } = await api.expect(201, 'POST', '/api/organizations', { name: 'full' });
  const base = `/api/organizations/${id}`;
  const acknowledged: string[] = [];
  let serial = 0;
  const write = async () => {
    serial += 1;
    const group_name = `group ${serial}`;
    const answer = await api.post(`${base}/security_groups`, { group_name, group_description: 'x'.repeat(4000) });
    if (answer.status === 201) acknowledged.push(group_name);
    return answer;
  };
  for (let i = 0; i < 20; i += 1) expect((await write()).status).toBe(201);

  await fill(join(disk, 'filler'));
  const refused: number[] = [];
  const codes = new Set<string>();
  // Pages and log that were allocated before take some writes still.
  for (let i = 0; i < 20_000 && refused.length < 5; i += 1) {
    const answer = await write();
    if (answer.status === 201) continue;
    expect([answer.status, answer.json.code], answer.text).toEqual([
      503,
      expect.stringMatching(/^(storage_full|unavailable|outcome_unknown)$/),
    ]);
    codes.add(answer.json.code);
    expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0);
    refused.push(answer.status);
  }
  expect(refused).toHaveLength(5);
  expect((await statfs(disk)).bavail).toBeLessThan(1024);
  expect([...codes]).toContain('storage_full');
  const ready = await api.get('/readyz');
  expect([ready.status, ready.json.detail]).toEqual([503, 'Not ready: the disk of the database is full.']);

  await rm(join(disk, 'filler'));
  let recovered = false;
  for (let tries = 0; tries < 2_400 && !recovered; tries += 1) {
    recovered = (await write()).status === 201;
    if (!recovered) await sleep(50);
  }
  expect(recovered).toBe(true);
  const stored = (await api.expect(200, 'GET', `${base}/security_groups`)) as { group_name: string }[];
  const names = new Set(stored.map((group) => group.group_name));
  expect(acknowledged.filter((name) => !names.has(name))).toEqual([]);
  api.close();
  expect(server.child.exitCode).toBeNull();
  expect((await server.stop()).code).toBe(0);
});
