/** Proves `--wait`: it waits until a change is in force, and its exit code shows whether that happened in time. */
import { expect, it, onTestFinished } from 'vitest';
import { canonicalize } from '../../src/policy/canonicalize.ts';
import { digestForm } from '../../src/policy/digest/digest-form.ts';
import { policyDigest } from '../../src/policy/digest/digest.ts';
import { parseGroupId } from '../../src/policy/ids.ts';
import type { Json } from '../lib/http.ts';
import { newPerson } from '../lib/server.ts';
import { EventStream } from '../lib/stream.ts';
import { done, json, usePeople } from './people.fixture.ts';

const people = usePeople();

/** A device with a group that was changed once, and what it says of itself. */
async function setUp() {
  const { owner, place } = people;
  const web = await json(owner.run(['group', 'create', 'web', '--in', 'tcp 443', '-o', 'json']));
  const made = await json(owner.run(['device', 'create', 'edge', '--public-key', 'k', '--group', 'web', '-o', 'json']));
  const changed = await json(owner.run(['group', 'allow', 'web', 'in', 'tcp', '22', '-o', 'json']));
  const report = (status: object): Promise<Json> =>
    people.server.nobody
      .as(made.device_token)
      .expect(200, 'PUT', `${place.base}/devices/${made.id}/status`, { agent_version: '1.2.3', ...status });
  /** Reports that the device enforces this state of the group at the organization's revision. */
  const apply = (group: Json, revision: number): Promise<Json> => {
    const { id, group_name: name, inbound_rules: inbound, outbound_rules: outbound = [] } = group;
    const policy = { source: 'list', groups: [{ id: parseGroupId(id), name, inbound, outbound }] } as const;
    return report({
      state: 'applied',
      revision,
      policy_digest: policyDigest(canonicalize(policy)),
      policy_digest_form: digestForm,
    });
  };
  const restore = ['group', 'restore', 'web', String(web.revision), '--yes'];
  const again = ['group', 'restore', 'web', String(changed.revision), '--yes'];
  return { web, made, changed, report, apply, restore, again };
}

it('when the time is over it ends with 6 and names the device that never reported, with progress on a terminal', async () => {
  const { restore } = await setUp();
  const waitForAll = ['--wait-for', 'all'];
  const restored = await people.owner.inTerminal([...restore, '--wait=3s', ...waitForAll], { env: { NO_COLOR: '1' } });
  const allowed = await people.owner.run(['group', 'allow', 'web', 'in', 'tcp', '22', '--wait=1s', ...waitForAll]);
  const asked = await people.owner.run(['status', '--wait=1s']);
  expect(asked.code).toBe(6);
  expect(asked.stdout).toMatch(/^Revision \d+ is in force on 0 of 1 device \(1 never seen\)\.$/m);
  expect(asked.stdout).toMatch(/\n\nnever seen: install the agent on the device, or delete the device\n$/);
  expect(restored.code).toBe(6);
  expect(restored.stdout).toMatch(/waiting for revision \d+: in force on 0 of 1 device \(1 never seen\)/);
  expect(restored.stdout).toMatch(/timeout: revision \d+ is in force on 0 of 1 device \(1 never seen\)/);
  expect(allowed).toMatchObject({
    code: 6,
    stderr: expect.stringContaining('never seen: install the agent on the device'),
  });
  expect(allowed.stderr).toMatch(/^ringfence: timeout: revision \d+ is in force on 0 of 1 device/);
  expect(allowed.stderr).toMatch(/^ +never seen +edge +never +has never reported/m);
});

/** The device holds a stream, so that it is online. */
const connectDevice = (token: string): void => {
  const stream = new EventStream(people.server.url, token, people.place.org, [{ kind: 'device' }]);
  onTestFinished(() => stream.close());
};

it('only installed devices whose policy the change touches count; those that are away are named, and end it with 0', async () => {
  const { web, changed, apply, report, restore, made } = await setUp();
  const { owner, place } = people;
  // Neither the one that was never installed nor the one that failed elsewhere keeps a pipeline red.
  await done(owner.run(['group', 'create', 'other', '--in', 'tcp 80']));
  await done(owner.run(['device', 'create', 'planned', '--public-key', 'p', '--group', 'web']));
  const broken = await json(
    owner.run(['device', 'create', 'broken', '--public-key', 'b', '--group', 'other', '-o', 'json']),
  );
  await people.server.nobody
    .as(broken.device_token)
    .expect(200, 'PUT', `${place.base}/devices/${broken.id}/status`, { state: 'failed', detail: 'nft is missing' });
  const elsewhere = await owner.run(['group', 'create', 'elsewhere', '--wait=50s']);
  expect(elsewhere).toMatchObject({ code: 0, stderr: expect.stringMatching(/concerns no device with an agent\.$/m) });

  await apply(changed, changed.revision);
  const away = await owner.run([...restore, '--wait=50s']);
  expect(away).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(
      /Revision \d+ is in force on 0 of 1 device \(1 offline\)\.\n1 device is away and will follow: edge\.$/m,
    ),
  });
  expect(
    await owner.run(['group', 'revoke', 'web', 'in', 'tcp', '443', '--wait=0s', '--wait-for', 'all']),
  ).toMatchObject({ code: 6 });
  await done(owner.run(restore));

  // Online, it is waited for.
  connectDevice(made.device_token);
  await expect
    .poll(async () => (await owner.run(['device', 'status'])).stdout, { timeout: 60_000 })
    .toContain('behind');
  expect(await owner.run(['group', 'allow', 'web', 'in', 'tcp', '22', '--wait=0s'])).toMatchObject({ code: 6 });
  let reported: Promise<Json> | undefined;
  const online = await owner.inTerminal([...restore, '--wait=50s'], {
    env: { NO_COLOR: '1' },
    shown: {
      pattern: /waiting for revision (\d+): in force on 0 of 1 device \(1 behind\)/,
      act: ([, revision]) => {
        reported = apply(web, Number(revision));
      },
    },
  });
  await reported;
  expect([online.code, online.stdout]).toEqual([
    0,
    expect.stringMatching(/Revision \d+ is in force on 1 of 1 device\./),
  ]);
  await report({ state: 'failed', detail: 'nft is missing' });
  expect(await owner.run(['group', 'create', 'elsewhere too', '--wait=50s'])).toMatchObject({ code: 0 });
  expect((await owner.run(['group', 'list', '--wait-for', 'all'])).code).toBe(2);
  expect((await owner.run(['group', 'create', 'never', '--wait-for', 'all'])).code).toBe(2);
});

it('waits for devices that have not joined yet, and ends with 6 where they do not come', async () => {
  const { owner, place, server } = people;
  expect(await owner.run(['status', '--wait=1s', '--devices', '2'])).toMatchObject({ code: 6 });
  expect(await owner.run(['status', '--devices', '2'])).toMatchObject({ code: 2 });
  const join = async (): Promise<Json> => {
    const made = await place.owner.api.expect(201, 'POST', `${place.base}/devices`, { public_key: 'late' });
    return server.nobody.as(made.device_token).expect(200, 'PUT', `${place.base}/devices/${made.id}/status`, {
      state: 'failed',
      observed_revision: made.revision,
      detail: 'nft is missing',
    });
  };
  let joined: Promise<Json> | undefined;
  const waited = await owner.inTerminal(['status', '--wait=50s', '--devices', '1'], {
    env: { NO_COLOR: '1' },
    shown: {
      pattern: /waiting for devices: 0 of 1 joined/,
      act: () => {
        joined = join();
      },
    },
  });
  await joined;
  expect(waited.stdout).toMatch(/Revision \d+ is in force on 0 of 1 device \(1 failed\)/);
  expect(waited.code).toBe(1);
});

it('a device that failed ends it with 1 once it has said so of this very change, and says why; one that the change repairs, with 0', async () => {
  const { changed, apply, report, restore, again } = await setUp();
  const failed = { state: 'failed', detail: 'nft is missing' };
  await report(failed);
  const waitFor = async (args: readonly string[], act: (revision: number) => Promise<Json>) => {
    let acted: Promise<Json> | undefined;
    const outcome = await people.owner.inTerminal([...args, '--wait=50s'], {
      env: { NO_COLOR: '1' },
      shown: {
        pattern: /waiting for revision (\d+): in force on 0 of 1 device \(1 failed\)/,
        act: ([, revision]) => {
          acted = act(Number(revision));
        },
      },
    });
    await acted;
    return outcome;
  };
  const restored = await waitFor(restore, (revision) => report({ ...failed, observed_revision: revision }));
  expect(restored.stdout).toMatch(/ringfence: revision \d+ is in force on 0 of 1 device \(1 failed\)/);
  expect(restored.stdout).toMatch(
    /^ +failed +edge +\S.* +nft is missing\n +failed: run `ringfence agent status` on the device/m,
  );
  expect(restored.code).toBe(1);
  expect(await people.owner.run(['status', '--wait=50s'])).toMatchObject({ code: 1 });
  const repaired = await waitFor(again, (revision) => apply(changed, revision));
  expect(repaired.stdout).toMatch(/Revision \d+ is in force on 1 of 1 device\./);
  expect(repaired.code).toBe(0);
});

it('a device that put the policy before back ends it with 1; every list, and the answer of the server, says reverted', async () => {
  const { web, changed, apply, report, restore } = await setUp();
  await apply(changed, changed.revision);
  const { owner, place } = people;
  const reverted = { state: 'reverted', revision: web.revision, detail: 'lost its way to the server' };
  await report(reverted);
  const restored = await owner.run([...restore, '--wait=0s']);
  expect([restored.code, restored.stderr]).toEqual([
    1,
    expect.stringContaining('in force on 0 of 1 device (1 reverted)'),
  ]);
  const { revision } = await place.owner.api.expect(200, 'GET', place.base);
  await report({ ...reverted, observed_revision: revision });
  expect(await owner.run(['status', '--wait=50s'])).toMatchObject({ code: 1 });
  expect(await done(owner.run(['status']))).toMatch(/^ *reverted +edge +\S.*lost its way to the server/m);
  expect(await done(owner.run(['device', 'list', '--state', 'reverted']))).toMatch(/^edge\b/m);
  expect(await done(owner.run(['device', 'list', '--state', 'failed']))).not.toContain('edge');
  expect(await done(owner.run(['device', 'status']))).toMatch(/edge.*reverted/);
  const answer = await place.owner.api.expect(200, 'GET', `${place.base}/convergence`);
  expect(answer).toMatchObject({ devices: 1, in_force: 0, reverted: 1, failed: 0, offline: 0 });
  expect(answer.pending).toMatchObject([{ in_force: 'reverted', detail: 'lost its way to the server' }]);
});

it('ends with 0 when every device has said so: at once where the change asks nothing of it, else once it reports', async () => {
  const { web, changed, apply, restore } = await setUp();
  await apply(changed, changed.revision);
  const created = await people.owner.run(['group', 'create', 'elsewhere', '--wait=50s']);
  expect(created).toMatchObject({ code: 0 });
  expect(created.stderr).toMatch(/^Revision \d+ concerns no device with an agent\.$/m);
  let reported: Promise<Json> | undefined;
  const restored = await people.owner.inTerminal([...restore, '--wait=50s', '--wait-for', 'all'], {
    env: { NO_COLOR: '1' },
    shown: {
      pattern: /waiting for revision (\d+): in force on 0 of 1 device/,
      act: ([, revision]) => {
        reported = apply(web, Number(revision));
      },
    },
  });
  await reported;
  expect(restored.code).toBe(0);
  expect(restored.stdout).toMatch(/Revision \d+ is in force on 1 of 1 device\./);
  expect(await done(people.owner.run(['status', '--wait']))).toMatch(/in force on 1 of 1 device/);
});

it('every command that writes policy waits for the last revision that it made, and for what stands where nothing was left to change', async () => {
  const { owner, member, place } = people;
  const { web, report } = await setUp();
  await report({ state: 'failed', detail: 'nft is missing' });
  await done(member.run(['device', 'create', 'theirs', '--public-key', 'm']));
  const file = await owner.file('policy.yaml', 'groups:\n  - name: filed\n    inbound: [tcp 80]\n');
  const commands: readonly (readonly string[])[] = [
    ['group', 'create', 'more', '--in', 'tcp 80'],
    ['group', 'edit', 'more', '--description', 'text'],
    ['group', 'allow', 'more', 'in', 'tcp', '81'],
    ['group', 'allow', 'more', 'in', 'tcp', '81'],
    ['group', 'revoke', 'more', 'in', 'tcp', '81'],
    ['group', 'restore', 'web', String(web.revision), '--yes'],
    ['device', 'create', 'new', '--public-key', 'n', '--group', 'more'],
    ['device', 'edit', 'new', '--hostname', 'newer'],
    ['device', 'groups', 'set', 'newer', 'web'],
    ['device', 'groups', 'add', 'newer', 'more'],
    ['device', 'groups', 'remove', 'newer', 'web'],
    ['device', 'label', 'add', 'newer', 'app'],
    ['device', 'label', 'remove', 'newer', 'app'],
    ['group', 'delete', 'more', '--detach', '--yes'],
    ['group', 'delete', 'default', '--yes'],
    ['device', 'delete', 'newer', '--yes'],
    ['apply', '-f', file, '--yes'],
    ['apply', '-f', file, '--yes'],
    ['member', 'remove', place.member.id, '--yes'],
  ];
  const touching = new Set(['group restore']);
  for (const command of commands) {
    const { revision: before } = await place.owner.api.expect(200, 'GET', place.base);
    const { code, stderr } = await owner.run([...command, '--wait=0s']);
    const { revision } = await place.owner.api.expect(200, 'GET', place.base);
    const [, told, concerned] = /revision (\d+) (is in force on 0 of [1-9]|concerns no device)/i.exec(stderr) ?? [];
    expect([command, told]).toEqual([command, String(revision)]);
    // Where nothing was left to change, every device counts, and one has failed.
    const isFailing = revision === before || touching.has(command.slice(0, 2).join(' '));
    expect([command, code, concerned]).toEqual([
      command,
      isFailing ? 1 : 0,
      expect.stringContaining(isFailing ? 'in force' : 'concerns'),
    ]);
  }
  const before = await place.owner.api.expect(200, 'GET', place.base);
  const refused = await owner.run(['group', 'create', 'later', '--wait=soon']);
  expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('is not a duration')]);
  const asked = await owner.run(['apply', '-f', file, '--prune', '--detach', '--dry-run', '--wait']);
  // Nothing is written, so there is nothing to wait for.
  expect([asked.code, asked.stderr]).toEqual([0, expect.not.stringMatching(/revision \d+ is in force/)]);
  expect(await place.owner.api.expect(200, 'GET', place.base)).toEqual(before);
});

it('who deletes a user waits where the devices went along, and is told where nobody but the members can see it', async () => {
  const { owner, member, place, server } = people;
  await done(member.run(['device', 'create', 'theirs', '--public-key', 'm']));
  const asAdmin = { env: { RINGFENCE_TOKEN: server.adminToken } };
  const remove = ['user', 'delete', place.member.id, '--yes', '--wait=0s', '--wait-for', 'all'];
  const { id: admin } = await server.admin.expect(200, 'GET', '/api/users/me');
  await done(owner.run(['member', 'add', admin]));
  await done(owner.run(['device', 'create', 'edge', '--public-key', 'k']));
  const seen = await owner.run(remove, asAdmin);
  const { revision } = await place.owner.api.expect(200, 'GET', place.base);
  expect(seen).toMatchObject({ code: 6, stdout: expect.stringMatching(/^Deleted user /) });
  expect(seen.stderr).toContain(`timeout: revision ${revision} is in force on 0 of 1 device (1 never seen)`);
  await done(owner.run(['member', 'remove', admin, '--yes']));

  const another = await newPerson(server, 'another');
  await place.owner.api.expect(201, 'POST', `${place.base}/members`, { user_id: another.id });
  await another.api.expect(201, 'POST', `${place.base}/devices`, { public_key: 'another' });
  const hidden = await owner.run(['user', 'delete', another.id, '--yes', '--wait=50s'], asAdmin);
  expect(hidden).toMatchObject({ code: 4, stdout: expect.stringMatching(/^Deleted user /) });
  expect(hidden.stderr).toMatch(/only members of an organization can see whether it is in force there/);
  const nobody = await newPerson(server, 'nobody');
  expect(await owner.run(['user', 'delete', nobody.id, '--yes', '--wait=50s'], asAdmin)).toMatchObject({ code: 0 });
});
