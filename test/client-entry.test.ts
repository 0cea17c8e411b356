/** Proves that the client library can be imported from outside: built, typed, run, and free of anything but fetch. */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { clientInto } from './lib/built.ts';

const run = promisify(execFile);
const top = fileURLToPath(new URL('..', import.meta.url));
const organization = 'a0000000-0000-4000-8000-000000000001';
const user = 'b0000000-0000-4000-8000-000000000001';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ringfence-entry-'));
  const installed = join(folder, 'node_modules/ringfence');
  await mkdir(installed, { recursive: true });
  const manifest = JSON.parse(await readFile(join(top, 'package.json'), 'utf8'));
  const { name, version, type, exports } = manifest;
  await writeFile(join(installed, 'package.json'), JSON.stringify({ name, version, type, exports }));
  await writeFile(join(folder, 'package.json'), JSON.stringify({ type: 'module' }));
  await symlink(join(top, 'node_modules/typebox'), join(folder, 'node_modules/typebox'));
  await clientInto(join(installed, 'dist'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** A small program as a stranger would write it. */
const consumer = `
import { Client, createInformer, RingfenceError, watch, type Change, type Device } from 'ringfence/client';

const client = new Client({ url: URL_OF_SERVER, token: 'rf_user_x' });
const organization = '${organization}';

const me: string = (await client.whoAmI()).username;

const informer = createInformer({ client, organization, kinds: ['device', 'security-groups'] });
const seen: string[] = [];
informer.onChange((changes: readonly Change<'device' | 'security-groups'>[]) => {
  for (const change of changes) {
    switch (change.type) {
      case 'added':
        if (change.kind === 'device') seen.push(change.new.hostname);
        else seen.push(change.new.group_name);
        break;
      case 'updated':
      case 'deleted':
        seen.push(change.old.id);
    }
  }
});
const stop = new AbortController();
const running = informer.run({ signal: stop.signal });
await informer.whenSynced();
const devices: Device[] = [...informer.view('device')];
stop.abort();
await running;

let code = 'none';
try {
  for await (const event of watch(client, '${user}', [{ kind: 'device' }])) if (event.type === 'change') seen.push(event.value.public_key);
} catch (error) {
  if (error instanceof RingfenceError) code = error.code;
}
// @ts-expect-error -- a name is no number: the types have arrived whole
const wrong: number = (await client.whoAmI()).username;
// @ts-expect-error -- nor is a group's
for (const { group_name } of informer.view('security-groups')) group_name.toFixed();
// @ts-expect-error -- the kind does not exist
createInformer({ client, organization, kinds: ['gateway'] });

console.log(JSON.stringify({ me, seen, devices: devices.length, code }));
`;

/** Calls that a compiler lets pass or refuses; they are never sent. */
const typedCalls = `
const neverSent = async (): Promise<void> => {
  const address: string | undefined = (await client.devices.update(organization, me, { labels: ['db'] }, { ifMatch: 3, detach: true })).tunnel_ip;
  for await (const { kind } of client.tokens.each({ kind: 'device', limit: 5 })) seen.push(kind ?? address);
  // @ts-expect-error -- the path names two records
  await client.devices.get(organization);
  // @ts-expect-error -- a change has a body
  await client.devices.update(organization, me);
  // @ts-expect-error -- the connection is not named
  await client.statuses.explain(organization);
  // @ts-expect-error -- a read honours no condition
  await client.devices.get(organization, me, { ifMatch: 3 });
  // @ts-expect-error -- users have no revision
  await client.users.list({ gt_revision: 3 });
};
void neverSent;
`;

it.each([
  ['NodeNext', 'NodeNext'],
  ['ESNext', 'Bundler'],
])('its types compile in a strict program of a stranger (%s modules)', async (module, moduleResolution) => {
  const file = join(folder, 'consumer.ts');
  const config = join(folder, `tsconfig.${module}.json`);
  await writeFile(file, consumer.replace('URL_OF_SERVER', "'http://127.0.0.1:1'") + typedCalls);
  const strict = { strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true };
  const target = { target: 'ES2023', lib: ['ES2023', 'DOM'], types: [], skipLibCheck: true, noEmit: true };
  const compilerOptions = { ...strict, ...target, module, moduleResolution };
  await writeFile(config, JSON.stringify({ compilerOptions, files: [file] }));
  const compiled = await run(process.execPath, [join(top, 'node_modules/typescript/bin/tsc'), '-p', config]).catch(
    (error: unknown) => error as { readonly stdout: string },
  );
  expect(compiled.stdout).toBe('');
});

it('its one module imports nothing and names nothing of Node', async () => {
  const code = await readFile(join(folder, 'node_modules/ringfence/dist/client.mjs'), 'utf8');
  expect(code).not.toMatch(/^\s*import\b|\bimport\(|\brequire\(|\bprocess\.|\bBuffer\b|\bglobalThis\.process/m);
  expect(code).toContain('RingfenceError');
  expect(code.length).toBeLessThan(69_200);
});

it('runs in plain Node against a server', async () => {
  const times = { created_at: '2024-01-01T00:00:00Z', updated_at: '2024-01-01T00:00:00Z' };
  const owner = { user_id: user, organization_id: organization };
  const device = { id: user, public_key: 'k', hostname: 'edge-1', tunnel_ip: '', relay: false, revision: 3 };
  const server = createServer((request, response) => {
    if (request.url === '/api/users/me') {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ id: user, username: 'ada', ...times }));
    } else if (request.url?.includes(organization)) {
      response.setHeader('content-type', 'application/json;stream=watch');
      response.write(
        `${JSON.stringify({ type: 'change', kind: 'device', value: { ...owner, ...device, ...times } })}\n`,
      );
      response.write('{"type":"tail","kind":"device"}\n{"type":"tail","kind":"security-groups"}\n');
    } else {
      response.writeHead(404, { 'content-type': 'application/problem+json' });
      response.end('{"code":"not_found"}');
    }
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  try {
    const { port } = server.address() as AddressInfo;
    const file = join(folder, 'consumer.mjs');
    const untyped = consumer
      .replace('URL_OF_SERVER', `'http://127.0.0.1:${port}'`)
      .replace(/, type \w+/g, '')
      .replace(/: readonly Change<[^>]*>\[\]/, '')
      .replace(/(const \w+): [\w[\]]+ =/g, '$1 =');
    await writeFile(file, untyped);
    const { stdout } = await run(process.execPath, [file]);
    expect(JSON.parse(stdout)).toEqual({ me: 'ada', seen: ['edge-1'], devices: 1, code: 'not_found' });
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
