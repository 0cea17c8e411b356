/** Proves that an agent which is one field behind holds its policy and says so: the agent of the last commit that knew no peers, with this server. */
import { existsSync, mkdtempSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { Device, driver, removeFolder, type RunningAgent } from '../agent/device.ts';
import { eventually } from '../lib/eventually.ts';
import { commitOf, olderProgram } from '../lib/older-program.ts';
import {
  newPlace,
  startPostgres,
  startTestServer,
  type Place,
  type TestPostgres,
  type TestServer,
} from '../lib/server.ts';

const lastWithoutPeers = 'agent: hold the last good policy where a group has a field that is not understood';

let postgres: TestPostgres | undefined;
let server: TestServer | undefined;
let older: string | undefined;
beforeAll(async () => {
  [postgres, older] = await Promise.all([startPostgres(), olderProgram(commitOf(lastWithoutPeers))]);
  server = await startTestServer(postgres);
});
afterAll(async () => {
  await server?.close();
  await postgres?.stop();
  if (older !== undefined) await removeFolder(older);
});

let place: Place;
let device: Device;
let agent: RunningAgent | undefined;
let state: string;
beforeEach(async () => {
  if (server === undefined || older === undefined) throw new Error('nothing is built');
  expect(existsSync(join(older, 'src/policy/fleet'))).toBe(false);
  place = await newPlace(server);
  device = await Device.open(join(older, 'bin/ringfence'));
  device.door.target = server.url;
  state = mkdtempSync(join(tmpdir(), 'ringfence-state-'));
});
afterEach(async () => {
  await agent?.end('SIGKILL');
  await device?.close();
  await removeFolder(state);
});

const tcp = (port: number, fields: object = {}) => ({ ip_protocol: 'tcp', from_port: port, to_port: port, ...fields });
const groups = (): string => `${place.base}/security_groups`;

test.each<[string, () => Promise<unknown>]>([
  [
    'a rule with peers in its own group',
    () =>
      place.owner.api.expect(200, 'PATCH', `${groups()}/${place.defaultGroup}`, {
        inbound_rules: [tcp(22), tcp(443, { peers: [{ all_devices: true }] })],
      }),
  ],
  [
    'a group that applies by label, to whomever',
    () =>
      place.owner.api.expect(201, 'POST', groups(), {
        group_name: 'by label',
        applies_to: [{ labels: ['nobody'] }],
        inbound_rules: [tcp(80)],
      }),
  ],
  [
    'a guardrail',
    () =>
      place.owner.api.expect(201, 'POST', groups(), {
        group_name: 'never',
        guardrail: 'forbid',
        applies_to: [{ all_devices: true }],
        inbound_rules: [tcp(22)],
      }),
  ],
])('an older agent that meets %s holds its last good policy and reports not_understood', async (_, meet) => {
  await place.owner.api.expect(200, 'PATCH', `${groups()}/${place.defaultGroup}`, { inbound_rules: [tcp(22)] });
  const { id, device_token } = await place.owner.api.expect(201, 'POST', `${place.base}/devices`, { public_key: 'k' });
  const file = join(state, 'token');
  await writeFile(file, `${device_token}\n`, { mode: 0o600 });
  const running = device.start(
    `--server ${device.door.url} --organization ${place.org} --interface ${driver} --state ${state} --device ${id} --token-file ${file}`.split(
      ' ',
    ),
  );
  agent = running;
  await device.untilOpen('22', running);
  await meet();
  await eventually(
    () => `the server hears that it is not understood\n${running.output}`,
    async () => {
      const statuses = await place.owner.api.expect(200, 'GET', `${place.base}/device_statuses`);
      const { status } = statuses.find((each: { device_id: string }) => each.device_id === id) ?? {};
      return status?.state === 'failed' && status.code === 'not_understood';
    },
  );
  expect(await device.openPorts()).toBe('22');
});
