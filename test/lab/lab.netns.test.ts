/** Proves the lab's commands: it comes up, packets tell its policy, and nothing of it is left however it ends. */
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../lib/eventually.ts';
import { Program, Run } from '../lib/run.ts';

const folder = '/run/ringfence-lab';

interface LabRecord {
  readonly pid: number;
  readonly folder: string;
  readonly url: string;
  readonly place: { readonly organization: string; readonly token: string };
  readonly devices: readonly { readonly holder: number }[];
}

const top = fileURLToPath(new URL('../..', import.meta.url));
const runs: Run[] = [];
let program: Program;
beforeAll(async () => {
  program = await Program.build();
});
afterAll(async () => {
  await Promise.all(runs.map((run) => run.stop('SIGKILL')));
  await program?.close();
});

const names = ['kill', 'int'].map((word) => `test-${word}-${process.pid}`);
const [killed = '', interrupted = ''] = names;
const recordOf = (name: string): LabRecord => JSON.parse(readFileSync(`${folder}/${name}.json`, 'utf8')) as LabRecord;
const lab = (...args: readonly string[]): Run => {
  const run = new Run(join(top, 'dev/lab/lab'), args, { RINGFENCE_LAB_PROGRAM: program.file });
  runs.push(run);
  return run;
};

const networkOf = (pid: number): string | undefined => {
  try {
    return readlinkSync(`/proc/${pid}/ns/net`);
  } catch {
    return undefined;
  }
};
/** The processes in any of these networks. */
const inside = (networks: ReadonlySet<string | undefined>): readonly string[] =>
  readdirSync('/proc').filter((entry) => /^\d+$/.test(entry) && networks.has(networkOf(Number(entry)) ?? '-'));

describe('a lab with tunnels that runs by itself', { timeout: 600_000 }, () => {
  let record: LabRecord;
  beforeAll(async () => {
    const { code, stdout, stderr } = await lab(
      'up',
      '--detach',
      '--devices',
      '2',
      '--tunnel',
      'wireguard',
      '--name',
      killed,
    ).ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    record = recordOf(killed);
    expect(stdout).toContain(`export RINGFENCE_SERVER=${record.url}\n`);
    expect(stdout).toContain(`ip netns exec ${killed}-device-2 sh`);
  }, 600_000);
  afterAll(() => lab('down', killed).ended);

  test('shows itself, and is not built twice', async () => {
    expect((await lab('status').ended).stdout).toContain(`${killed}: up, ${record.url}/ui/`);
    expect(await lab('up', '--name', killed).ended).toMatchObject({ code: 5 });
  });

  test('lets everything pass at first, and what a group says afterwards', async () => {
    const try22 = ['try', '--name', killed, '1', 'device-2', 'tcp', '22'];
    expect(await lab(...try22).ended).toMatchObject({ code: 0, stdout: expect.stringMatching(/tcp 22: open\n$/) });
    const env = {
      RINGFENCE_SERVER: record.url,
      RINGFENCE_TOKEN: record.place.token,
      RINGFENCE_ORG: record.place.organization,
    };
    const say = (...args: readonly string[]) => program.run(args, env).ended;
    expect(await say('group', 'create', 'pings')).toMatchObject({ code: 0 });
    expect(await say('group', 'allow', 'pings', 'in', 'icmp')).toMatchObject({ code: 0 });
    expect(await say('device', 'groups', 'set', 'device-2', 'pings')).toMatchObject({ code: 0 });
    const held = `/proc/${record.devices[1]?.holder ?? 0}/ns/net`;
    await eventually('the device has a closed policy', () => {
      const log = readFileSync(`${record.folder}/devices/device-2.log`, 'utf8');
      return existsSync(held) && log.split('origin=server').length > 2;
    });
    expect(await lab(...try22).ended).toMatchObject({ code: 1, stdout: expect.stringMatching(/tcp 22: closed\n$/) });
    expect(await lab('try', '--name', killed, '1', '2', 'icmp').ended).toMatchObject({ code: 0 });
    expect(await lab('run', '--name', killed, '2', '--', 'hostname').ended).toMatchObject({ stdout: 'device-2\n' });
  });

  test('leaves nothing but files when it is killed, and those go with the next `lab down`', async () => {
    const networks = new Set(record.devices.map(({ holder }) => networkOf(holder)));
    expect(inside(networks).length).toBeGreaterThan(6);
    process.kill(record.pid, 'SIGKILL');
    await eventually('its programs are gone', () => inside(networks).length === 0);
    await eventually('its names are gone', () => !readdirSync('/run/netns').some((name) => name.startsWith(killed)));
    expect((await lab('status').ended).stdout).toContain(`${killed}: died`);
    expect(await lab('down', killed).ended).toMatchObject({ code: 0, stdout: `The lab ${killed} is down.\n` });
    expect(existsSync(record.folder)).toBe(false);
    expect(await lab('down', killed).ended).toMatchObject({ code: 3 });
  });
});

test('a lab in a terminal ends with Ctrl-C and takes everything with it', async () => {
  const running = lab('up', '--devices', '1', '--name', interrupted);
  await running.shows(/The lab is up/);
  const record = recordOf(interrupted);
  const networks = new Set(record.devices.map(({ holder }) => networkOf(holder)));
  const { code, stderr } = await running.stop('SIGINT');
  expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringMatching(/Taking the lab down …\n$/) });
  // Processes that were asked to end do so soon after the lab; everything else is gone at once.
  await eventually(
    () => `nobody is left: ${inside(networks).join(' ')}`,
    () => inside(networks).length === 0,
  );
  expect(readdirSync('/run/netns').filter((name) => name.startsWith(interrupted))).toEqual([]);
  expect([existsSync(record.folder), existsSync(`${folder}/${interrupted}.json`)]).toEqual([false, false]);
});

test.each([
  [['try', '1', '2', 'tcp', '22', '--name', 'absent'], 3, /lab absent does not exist/],
  [['up', '--name', 'No/Such'], 2, /lowercase letters/],
  [['up', '--devices', 'many'], 2, /--devices must be a number/],
])('a wrong command is one line: %j', async (args, code, message) => {
  const ended = await lab(...args).ended;
  expect(ended).toMatchObject({ code, stderr: expect.stringMatching(message) });
  expect(ended.stderr.trim().split('\n')).toHaveLength(1);
});
