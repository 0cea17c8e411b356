/** Proves that bodies which are held back cost their sender, not the server: beyond a bound of bytes they are refused, and others go on (reference 8 (12)). */
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  newPerson,
  newPlace,
  startPostgres,
  startTestServer,
  type Place,
  type TestPostgres,
  type TestServer,
} from '../lib/server.ts';

const mebibyte = 1024 ** 2;
let postgres: TestPostgres;
let server: TestServer;
let sockets: Socket[] = [];

beforeAll(async () => {
  postgres = await startPostgres();
  server = await startTestServer(postgres, {
    maxUserBodyMemory: 8 * mebibyte,
    maxAddressBodyMemory: 12 * mebibyte,
    trustedProxy: ['127.0.0.1'],
  });
});
afterAll(async () => {
  letGo();
  await server?.close();
  await postgres?.stop();
});
function letGo(): void {
  for (const socket of sockets) socket.destroy();
  sockets = [];
}

interface HeldBody {
  /** What was answered so far. */
  answer(): string;
}

/** Sends all of a request but its last byte. */
function holdBack(
  { base }: Place,
  { token, size, chunked = false, from = '' }: { token: string; size: number; chunked?: boolean; from?: string },
): HeldBody {
  const { hostname, port } = new URL(server.url);
  const socket = connect(Number(port), hostname);
  sockets.push(socket);
  let answer = '';
  socket.on('error', () => {}).on('data', (bytes: Buffer) => (answer += bytes.toString()));
  const lines = [
    `POST ${base}/security_groups HTTP/1.1`,
    'Host: x',
    `Authorization: Bearer ${token}`,
    'Content-Type: application/json',
    ...(from === '' ? [] : [`X-Forwarded-For: ${from}`]),
    chunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${size}`,
  ];
  socket.write(`${lines.join('\r\n')}\r\n\r\n`);
  if (chunked) socket.write(`${size.toString(16)}\r\n`);
  socket.write(`{"group_name":"${'x'.repeat(size - 16)}`);
  return { answer: () => answer };
}

const refusedBy = (bodies: readonly HeldBody[], status: number): number =>
  bodies.filter((body) => body.answer().startsWith(`HTTP/1.1 ${status} `)).length;

test('of 40 bodies of a mebibyte that one user holds back, so many stay as it may have; others write meanwhile, and so does the user afterwards', async () => {
  const place = await newPlace(server);
  const { token } = place.owner;
  const bodies = Array.from({ length: 40 }, (_, n) => holdBack(place, { token, size: mebibyte, chunked: n % 2 === 0 }));
  await expect.poll(() => refusedBy(bodies, 429)).toBeGreaterThanOrEqual(32);
  const refused = bodies.find((body) => body.answer() !== '')?.answer() ?? '';
  expect(refused.toLowerCase()).toContain('\r\nretry-after: 5\r\n');
  expect(refused).toContain('"code":"rate_limited"');
  const write = { group_name: 'g', group_description: '' };
  await place.member.api.expect(201, 'POST', `/api/user/${place.org}/security_groups`, write);
  // By its declared length, before a byte of it has come.
  const early = { body: { ...write, group_description: 'x'.repeat(2 * mebibyte) } };
  expect(await place.owner.api.status('POST', `${place.base}/security_groups`, early)).toBe(429);
  letGo();
  await expect.poll(() => place.owner.api.status('POST', `${place.base}/security_groups`, { body: write })).toBe(201);
});

test('users who share an address share its bytes; those at other addresses behind the same proxy go on', async () => {
  const place = await newPlace(server);
  const from = '203.0.113.7';
  const people = [place.owner, await newPerson(server), await newPerson(server)];
  for (const person of people.slice(1)) {
    await place.owner.api.expect(201, 'POST', `${place.base}/members`, { user_id: person.id });
    await place.owner.api.expect(200, 'PATCH', `${place.base}/members/${person.id}`, { role: 'owner' });
  }
  const bodies = people.flatMap(({ token }) =>
    Array.from({ length: 7 }, () => holdBack(place, { token, size: mebibyte, from })),
  );
  await expect.poll(() => refusedBy(bodies, 429)).toBeGreaterThanOrEqual(9);
  const write = { group_name: 'g', group_description: '' };
  await place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, write);
  letGo();
});
