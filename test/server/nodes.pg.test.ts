/** Proves the built server on the oldest and the newest Node that `engines` admits: streams of each kind, bodies in parts, writes, reads and a clean end. */
import { readFile, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { connect as connectSecured } from 'node:tls';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Client } from '../../src/client/http.ts';
import { createNodeFetch } from '../../src/node/fetch.ts';
import { first as certificate } from '../lib/certificates.ts';
import { installedNodes } from '../lib/nodes.ts';
import { temporaryDirectory } from '../lib/postgres.ts';
import { Program } from '../lib/run.ts';
import { EventStream } from '../lib/stream.ts';

let program: Program;
let data: string;
let nodes: Awaited<ReturnType<typeof installedNodes>>;
beforeAll(async () => {
  [program, data, nodes] = await Promise.all([Program.build(), temporaryDirectory(), installedNodes()]);
  await writeFile(join(data, 'tls.crt'), certificate.cert);
  await writeFile(join(data, 'tls.key'), certificate.key);
}, 600_000);
afterAll(async () => {
  await program?.close();
  await rm(data, { recursive: true, force: true });
});

const token = 'operator-token-0123456789-0123456789';
const twoWay = { Connection: 'Upgrade', Upgrade: 'ringfence-watch', Prefer: 'signs-of-life' };

/** Creates a device with a body in two chunks that arrive at once, and gives the first line of the answer. */
async function createInChunks(url: string, org: string, body: string): Promise<string> {
  const { protocol, hostname: host, port, host: named } = new URL(url);
  const at = { host, port: Number(port) };
  const socket = protocol === 'https:' ? connectSecured({ ...at, ca: certificate.cert }) : connect(at);
  const chunks = [body.slice(0, 3), body.slice(3), ''].map((part) => `${part.length.toString(16)}\r\n${part}\r\n`);
  socket.write(
    `POST /api/organizations/${org}/devices HTTP/1.1\r\nHost: ${named}\r\nAuthorization: Bearer ${token}\r\n` +
      `Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n${chunks.join('')}`,
  );
  let text = '';
  for await (const part of socket) text += String(part);
  return text.slice(0, text.indexOf('\r\n'));
}

it('the oldest Node is the one that package.json asks for', async () => {
  const { engines } = JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8')) as {
    readonly engines: { readonly node: string };
  };
  expect(`${engines.node}.0`).toBe(`>=${nodes.oldest.version}`);
  expect(Number.parseInt(nodes.newest.version, 10)).toBeGreaterThan(Number.parseInt(nodes.oldest.version, 10));
});

it.each([
  ['oldest', 'plain HTTP'],
  ['oldest', 'TLS'],
  ['newest', 'plain HTTP'],
  ['newest', 'TLS'],
] as const)('the %s Node serves streams over %s, writes and reads, and ends cleanly', async (age, way) => {
  const secured = way === 'TLS' ? ['--tls-cert', join(data, 'tls.crt'), '--tls-key', join(data, 'tls.key')] : [];
  const args = ['server', '--listen', '127.0.0.1:0', '--data', join(data, age), '--workers', '2', ...secured];
  const server = program.run(args, { RINGFENCE_ADMIN_TOKEN: token }, nodes[age].node);
  const url = await server.url();
  const client = new Client({ url, token, fetch: createNodeFetch({ authorities: async () => certificate.cert }) });
  const [organization] = await client.organizations.list();
  const org = organization?.id ?? expect.fail('there is no organization');
  const open = (headers = {}): EventStream =>
    new EventStream(url, token, org, [{ kind: 'device' }], { headers, ca: certificate.cert });
  // On either worker.
  const streams = Array.from({ length: 6 }, (_, index) => open(index % 2 === 0 ? {} : twoWay));
  for (const stream of streams) await stream.until('the tail', ({ raw }) => raw.includes('"tail"'));
  for (const key of ['one', 'two', 'three']) {
    await client.devices.create(org, { public_key: `${way} ${key}` });
    for (const stream of streams) await stream.until(key, ({ raw }) => raw.includes(`"${way} ${key}"`));
  }
  expect(await createInChunks(url, org, `{"public_key":"${way} in parts"}`)).toBe('HTTP/1.1 201 Created');
  expect((await client.devices.list(org)).map(({ public_key }) => public_key)).toContain(`${way} three`);
  const { code, stderr } = await server.stop();
  for (const [index, stream] of streams.entries()) {
    await stream.until('its end', ({ closed }) => closed);
    if (index % 2 === 0) expect(stream.body.ended).toBe(true);
    else expect(stream.raw.endsWith('{"type":"end"}\n')).toBe(true);
  }
  expect([code, /"level":"(error|fatal)"|Warning/.exec(stderr)?.input]).toEqual([0, undefined]);
});
