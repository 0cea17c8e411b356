/** Proves trials on the command line: the question with what a person needs to see, what a script gets, and every way a trial ends. */
import { expect, it } from 'vitest';
import type { Json } from '../lib/http.ts';
import { done, json, usePeople } from './people.fixture.ts';

const people = usePeople();
const env = { NO_COLOR: '1' };

let serial = 0;
/** A group that a device lists, whose agent has reported that it failed. */
async function setUp(labels: readonly string[] = []) {
  const { owner, place, server } = people;
  const name = `tried-${(serial += 1)}`;
  const group = await json(owner.run(['group', 'create', name, '--in', 'tcp 22', '-o', 'json']));
  const made = await place.owner.api.expect(201, 'POST', `${place.base}/devices`, {
    public_key: name,
    hostname: `host-${name}`,
    tunnel_ip: `100.64.1.${serial}`,
    security_groups: [group.id],
    ...(labels.length > 0 && { labels }),
  });
  const fail = (): Promise<Json> =>
    server.nobody.as(made.device_token).expect(200, 'PUT', `${place.base}/devices/${made.id}/status`, {
      state: 'failed',
      observed_revision: made.revision + 1,
      detail: 'nft is missing',
    });
  const ports = async (): Promise<number[]> =>
    (await place.owner.api.expect(200, 'GET', `${place.base}/security_groups/${group.id}`)).inbound_rules.map(
      ({ from_port }: Json) => from_port,
    );
  return { name, group, device: made, fail, ports, allow: ['group', 'allow', name, 'in', 'tcp', '80'] };
}

it('a person sees how devices and tests are and what happens at the end, waits once, and keeps the change', async () => {
  const { name, device, fail, ports, allow } = await setUp(['canary']);
  await fail();
  const { owner, place } = people;
  await place.owner.api.expect(200, 'PUT', `${place.base}/policy_tests`, [
    {
      name: 'web is closed',
      from: { address: '100.64.9.9' },
      to: { device_id: device.id },
      protocol: 'tcp',
      port: 80,
      expect: 'refuse',
    },
  ]);
  const refused = await owner.run([...allow, '--confirm-within', '5m']);
  expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('web is closed')]);
  await place.owner.api.expect(200, 'PUT', `${place.base}/policy_tests`, []);
  const kept = await owner.inTerminal([...allow, '--confirm-within', '5m', '--on', 'label:canary', '--wait=1s'], {
    env,
    typed: [
      [/\[k\/r\/w\]/, 'w\r'],
      [/\[k\/r\/w\][^]*\[k\/r\/w\]/, 'k\r'],
    ],
  });
  expect(kept.code, kept.stdout).toBe(0);
  expect(kept.stdout).toMatch(
    /If you do nothing or close this terminal, the server takes the change back at \S+Z \(in /,
  );
  expect(kept.stdout).toContain('and so does each device that cannot reach the server');
  expect(kept.stdout).toContain('in force on 0 of 1 device (1 failed) in its scope: label:canary.');
  expect(kept.stdout).toMatch(new RegExp(`failed +host-${name} +.*nft is missing`));
  expect(kept.stdout).toContain('No policy test fails.');
  expect(kept.stdout).toContain('The change stays.');
  expect(await ports()).toEqual([22, 80]);
});

it('a person takes the change back, which is exit code 1', async () => {
  const { ports, allow } = await setUp();
  const reverted = await people.owner.inTerminal([...allow, '--confirm-within', '5m', '--wait=1s'], {
    env,
    typed: [[/\[k\/r\/w\]/, 'revert\r']],
  });
  expect(reverted.code, reverted.stdout).toBe(1);
  expect(reverted.stdout).toContain('The change was taken back.');
  expect(await ports()).toEqual([22]);
});

it('a change that no device would try asks first; a script is warned', async () => {
  const { owner } = people;
  await done(owner.run(['group', 'create', 'unused', '--in', 'tcp 22']));
  const words = ['group', 'allow', 'unused', 'in', 'tcp', '80', '--confirm-within', '5m'];
  const asked = await owner.inTerminal(words, { env, typed: [[/Continue\?/, 'n\r']] });
  expect(asked.code, asked.stdout).toBe(1);
  expect(asked.stdout).toContain('Warning: no device would try this change');
  expect(await json(owner.run(['trial', 'list', '-o', 'json']))).toEqual([]);
  const script = await owner.run([...words, '--wait=0']);
  expect([script.code, script.stderr]).toEqual([0, expect.stringContaining('no device would try this change')]);
  const [pending] = await json(owner.run(['trial', 'list', '-o', 'json']));
  await done(owner.run(['trial', 'revert', String(pending?.id)]));
});

it('Ctrl-C leaves the trial as it is and says when it ends; a question that nobody answers ends with 6', async () => {
  const [left, late] = [await setUp(), await setUp()];
  const [ended, expired] = await Promise.all([
    people.owner.inTerminal([...left.allow, '--confirm-within', '5m', '--wait=1s'], {
      env,
      typed: [[/\[k\/r\/w\]/, '\u0003']],
    }),
    people.owner.inTerminal([...late.allow, '--confirm-within', '10s', '--wait=1s'], { env }),
  ]);
  expect(ended.code, ended.stdout).toBe(130);
  expect(ended.stdout).toMatch(/The trial goes on: the server takes the change back at/);
  expect(await left.ports()).toEqual([22, 80]);
  expect(expired.code, expired.stdout).toBe(6);
  expect(expired.stdout).toContain('The time is over: the change was taken back.');
  expect(await late.ports()).toEqual([22]);
  const [pending] = await json(people.owner.run(['trial', 'list', '-o', 'json']));
  await done(people.owner.run(['trial', 'revert', String(pending?.id)]));
});

it('a script gets the id of the trial and how to end it; its exit code tells whether devices are there', async () => {
  const { name, ports, allow, fail } = await setUp();
  const { owner } = people;
  const behind = await owner.run([...allow, '--confirm-within', '5m', '--wait=0', '-q']);
  expect(behind.code).toBe(6);
  const id = behind.stdout.trim();
  expect(id).toMatch(/^[0-9a-f-]{36}$/);
  const again = await owner.run(['group', 'allow', name, 'in', 'tcp', '81', '--confirm-within', '5m']);
  expect([again.code, again.stderr]).toEqual([5, expect.stringContaining(`ringfence trial revert ${id}`)]);
  expect(again.stderr).toContain(`  ${people.place.owner.username} is trying it, and it is taken back at `);
  // A dry run ends as the write would.
  for (const dry of [
    ['group', 'allow', name, 'in', 'tcp', '81'],
    ['group', 'delete', name],
  ])
    expect(await owner.run([...dry, '--dry-run'])).toMatchObject({
      code: 5,
      stderr: expect.stringContaining(`ringfence trial revert ${id}`),
    });
  const status = await owner.run(['status']);
  expect(status.stdout).toMatch(
    new RegExp(`Trial ${id} on all devices, in force on 0 of 1 device .*: taken back at .* unless confirmed`),
  );
  expect((await owner.run(['trial', 'show', id.slice(-12)])).stdout).toMatch(/state +pending, ends in/);

  await fail();
  const unsure = await owner.run(['trial', 'confirm', id]);
  expect([unsure.code, unsure.stderr]).toEqual([2, expect.stringContaining('Keep the change all the same?')]);
  expect(unsure.stderr).toContain('nft is missing');
  expect(await done(owner.run(['trial', 'confirm', id, '--yes']))).toContain('The change stays.');
  expect(await ports()).toEqual([22, 80]);
  expect(await owner.run(['trial', 'revert', id])).toMatchObject({ code: 5 });
  const failed = await owner.run(['group', 'allow', name, 'in', 'tcp', '81', '--confirm-within', '5m', '--yes']);
  expect(failed.code).toBe(1);
  expect(failed.stderr).toMatch(/To keep it: ringfence trial confirm [0-9a-f-]{36}/);
});

it('what cannot be tried, and a time that is none, is refused before anything is written', async () => {
  const { ports, allow } = await setUp();
  const rows = [
    [['--on', 'label:canary'], /--on needs --confirm-within/],
    [['--confirm-within', '9s'], /is not a time for a trial: give one from 10s to 24h/],
    [['--confirm-within', 'soon'], /is not a time for a trial/],
    [['--confirm-within', '1m', '--on', 'canary'], /label:app/],
  ] as const;
  for (const [more, told] of rows) {
    const { code, stderr } = await people.owner.run([...allow, ...more]);
    expect([code, stderr], more.join(' ')).toEqual([2, expect.stringMatching(told)]);
  }
  expect(await ports()).toEqual([22]);
});

it('takes one record out of a trial by its name, refuses a name that the trial does not have, and ends with the last one', async () => {
  const { group, device, ports } = await setUp();
  const { owner, place } = people;
  const body = {
    security_groups: [{ id: group.id, inbound_rules: [] }],
    devices: [{ id: device.id, security_groups: [] }],
  };
  const written = await place.owner.api.expect(200, 'POST', `${place.base}/changes?confirm_within=600`, body);
  const id = String(written.security_groups[0].trial.id);
  const wrong = await owner.run(['trial', 'revert', id, '--only', 'elsewhere']);
  expect([wrong.code, wrong.stderr]).toEqual([3, expect.stringContaining('no record of the trial')]);
  const out = await done(owner.run(['trial', 'revert', id, '--only', String(group.group_name)]));
  expect(out).toContain('Took 1 of 2 records out of the trial');
  expect(await ports()).toEqual([22]);
  const last = await done(owner.run(['trial', 'revert', id, '--only', String(device.id)]));
  expect(last).toContain('The change was taken back.');
});
