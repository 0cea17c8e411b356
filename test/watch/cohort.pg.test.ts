/** Proves what streams that come together cost the database: as much as a few of them (reference 4.3 (19)). */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { afterEach, expect, test, vi } from 'vitest';
import type { Place, TestServer } from '../lib/server.ts';
import { watching, type Device } from '../lib/watching.ts';

// Without the beat of the clock: it asks the database however few streams there are.
// Fifty streams of each device token: more than a device may have by default.
const world = watching({ watch: { pollMs: 600_000 }, maxDeviceStreams: 100 });
const streams = 1_000;
const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});

function requestOf({ org }: Place, token: string, items: readonly object[]): string {
  const body = JSON.stringify(items);
  return (
    `POST /api/organizations/${org}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n` +
    `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  );
}

/** Connections that the server has taken, and nothing has been said on. */
async function connections(server: TestServer): Promise<readonly Socket[]> {
  const { hostname, port } = new URL(server.url);
  const made = Array.from({ length: streams }, () => connect({ host: hostname, port: Number(port) }));
  sockets.push(...made);
  await Promise.all(made.map((socket) => once(socket, 'connect')));
  while ((await server.listener.connections()) < streams) await sleep(5);
  return made;
}

/** All that comes until something has come. */
function received(socket: Socket, awaited: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let all = '';
    socket.on('data', (chunk: Buffer) => {
      all += chunk.toString();
      if (all.includes(awaited)) resolve(all);
    });
    socket.on('close', () => reject(new Error(`closed: ${all}`)));
  });
}

/** Says everything at once, and gives what came back and how many statements the database was sent meanwhile. */
async function cohort(place: Place, devices: readonly Device[], items: readonly object[], awaited: string) {
  const made = await connections(world.server);
  const statements = vi.spyOn(Client.prototype, 'query');
  const answers = made.map((socket) => received(socket, awaited));
  for (const [index, socket] of made.entries()) {
    socket.write(requestOf(place, devices[index % devices.length]?.device_token ?? '', items));
  }
  const texts = await Promise.all(answers);
  const count = statements.mock.calls.length;
  statements.mockRestore();
  return { texts, statements: count };
}

test('a thousand streams of twenty credentials begin, and come back, for some dozen statements', async () => {
  const place = await world.place();
  const devices: Device[] = [];
  for (let i = 0; i < 20; i += 1) devices.push(await world.newDevice(place));
  const listed = await cohort(place, devices, [{ kind: 'device' }], '"tail"');
  for (const text of listed.texts) expect(text.match(/"type":"change"/g)).toHaveLength(20);
  expect(listed.statements).toBeLessThan(50);

  for (const socket of sockets.splice(0)) socket.destroy();
  const known = devices.at(-1)?.revision ?? 0;
  const last = await world.newDevice(place);
  const resumed = await cohort(place, devices, [{ kind: 'device', gt_revision: known }], '"tail"');
  for (const text of resumed.texts) {
    expect(text.match(/"type":"change"/g)).toHaveLength(1);
    expect(text).toContain(`"revision":${last.revision}`);
  }
  expect(resumed.statements).toBeLessThan(50);
});

test('each of them is judged by itself: among a thousand, the revoked are refused and nobody else', async () => {
  const place = await world.place();
  const devices: Device[] = [];
  for (let i = 0; i < 20; i += 1) devices.push(await world.newDevice(place));
  const revoked = new Set(devices.slice(0, 5).map(({ device_token }) => device_token));
  // Deleting a device ends its token; another server learns of it only through the database.
  const replica = await world.replica();
  for (const { id } of devices.slice(0, 5)) {
    await place.owner.api.expect(200, 'DELETE', `${place.base}/devices/${id}`);
  }
  const { hostname, port } = new URL(replica.url);
  const answers = Array.from({ length: streams }, (_, index) => {
    const token = devices[index % devices.length]?.device_token ?? '';
    const socket = connect({ host: hostname, port: Number(port) });
    sockets.push(socket);
    socket.write(requestOf(place, token, [{ kind: 'security-groups' }]));
    return received(socket, '\r\n\r\n').then((text) => [revoked.has(token), Number(text.slice(9, 12))] as const);
  });
  for (const [ended, status] of await Promise.all(answers)) expect(status).toBe(ended ? 401 : 200);
});
