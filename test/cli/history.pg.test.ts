/** Proves the commands about the past as people use them: what changed, what differs, and the way back. */
import { expect, it } from 'vitest';
import { done, json, usePeople } from './people.fixture.ts';

const people = usePeople();

it('a group that was changed and deleted by mistake is found in the log and comes back as it was', async () => {
  const { owner } = people;
  await done(owner.run(['group', 'create', 'web', '--in', 'tcp 443']));
  const good = await json(owner.run(['group', 'allow', 'web', 'in', 'tcp', '22', 'from', '10.0.0.0/8', '-o', 'json']));
  await done(owner.run(['group', 'revoke', 'web', 'in', 'tcp', '443']));
  const history = await done(owner.run(['group', 'history', 'web']));
  expect(history.match(/^revision \d+ {2}\S+ {2}owner-\d+$/gm)).toHaveLength(3);
  expect(history).toContain('- in tcp 443 from any');
  expect(history).toContain('+ in tcp 22 from 10.0.0.0/8');
  expect(await done(owner.run(['group', 'diff', 'web']))).toMatch(/→ \d+\n {2}- in tcp 443 from any\n$/);
  expect(await done(owner.run(['group', 'diff', 'web', '1', String(good.revision)]))).toContain('+ name web');
  expect(await done(owner.run(['group', 'diff', 'web', String(good.revision), String(good.revision)]))).toContain(
    'No differences',
  );

  await done(owner.run(['group', 'delete', 'web', '--yes']));
  const log = await done(owner.run(['log']));
  const lines = log.trimEnd().split('\n');
  expect(lines.at(-1)).toContain(`deleted group web (${good.id})`);
  expect(lines.at(-2)).toContain('stopped allowing tcp 443 from anywhere in web');
  expect(lines.at(-4)).toContain('created group web with 1 rule');

  const restored = await done(owner.run(['group', 'restore', good.id, String(good.revision), '--yes']));
  expect(restored).toContain(`Restored group web (${good.id}) to revision ${good.revision}`);
  const now = await json(owner.run(['group', 'show', 'web', '-o', 'json']));
  expect(now.inbound_rules).toEqual(good.inbound_rules);
  expect(await done(owner.run(['log', '--limit', '1']))).toContain('restored group web with 2 rules');
});

it("a device's groups are told by name, newest first; what its agent says of its endpoint is not", async () => {
  const { owner, place } = people;
  await done(owner.run(['group', 'create', 'web', '--in', 'tcp 443']));
  const made = await json(owner.run(['device', 'create', 'edge', '--public-key', 'k', '-o', 'json']));
  await done(owner.run(['device', 'groups', 'set', 'edge', 'web']));
  const agent = people.server.nobody.as(made.device_token);
  await agent.expect(200, 'PATCH', `${place.base}/devices/${made.id}`, { local_ip: '10.0.0.1:51820' });
  const history = await done(owner.run(['device', 'history', 'edge']));
  expect(history.match(/^revision/gm)).toHaveLength(2);
  expect(history).toMatch(/~ groups default → web/);
  const log = await done(owner.run(['log']));
  expect(log).toContain('put group web on edge');
  expect(log).not.toContain('local_ip');
  expect(await done(owner.run(['log', '--all']))).toContain('edge reported local ip');
  await done(owner.run(['group', 'delete', 'web', '--detach', '--yes', '-q']));
  const after = await done(owner.run(['device', 'history', 'edge']));
  expect(after).toContain('~ groups default → a group that is deleted or not visible to you');
});

it('a rename is told of whoever renamed, not of whoever changes the device next; a new role is told', async () => {
  const { owner, member, place } = people;
  await done(owner.run(['device', 'create', 'device-2', '--public-key', 'k', '--label', 'app,old', '-q']));
  await done(owner.run(['member', 'role', place.member.username, 'owner']));
  await done(owner.run(['device', 'edit', 'device-2', '--hostname', 'app-1']));
  await done(member.run(['device', 'label', 'remove', 'app-1', 'old']));
  for (const command of ['log', 'audit']) {
    const lines = (await done(owner.run([command]))).split('\n');
    const by = (name: string): string => lines.filter((line) => line.includes(name)).join('\n');
    expect(by('renamed device')).toMatch(/owner-\d+ +renamed device device-2 to app-1/);
    expect(by('took label')).toMatch(/member-\d+ +took label old off app-1 \(change [0-9a-f]{8}\) *$/);
    expect(lines.join('\n')).toContain(`made ${place.member.username} an owner`);
  }
  const history = await done(owner.run(['device', 'history', 'app-1']));
  expect(history).toMatch(/member-\d+\n {2}~ labels app, old → app\n/);
  expect(history.split('\n').slice(0, 3).join('\n')).not.toContain('device-2');
});

it('the log is searched by time, person, device, group and label', async () => {
  const { owner, member, place } = people;
  await done(owner.run(['device', 'create', 'old-name', '--public-key', 'k', '--label', 'app', '-q']));
  await done(owner.run(['device', 'edit', 'old-name', '--hostname', 'new-name']));
  await done(owner.run(['group', 'create', 'web', '--in', 'ssh from label:app', '-q']));
  await done(member.run(['group', 'create', 'own', '--mine', '-q']));
  const found = async (...args: string[]): Promise<readonly string[]> =>
    (await json(owner.run(['log', ...args, '-o', 'json']))).map((entry: { operation: string }) => entry.operation);
  expect(await found('--device', 'new-name')).toEqual(['createDevice', 'updateDevice']);
  expect(await found('--device', 'old-name')).toEqual(['createDevice', 'updateDevice']);
  expect(await found('--group', 'web')).toEqual(['createSecurityGroup']);
  expect(await found('--label', 'app')).toEqual(['createDevice', 'createSecurityGroup']);
  expect(await found('--by', place.member.username)).toEqual(['createUserSecurityGroup']);
  expect(await found('--until', '1h')).toEqual([]);
  expect((await found('--since', '1h')).length).toBeGreaterThan(3);
  const log = await done(owner.run(['log', '--by', place.member.username]));
  expect(log).toContain('created own group that is deleted or not visible to you');
  expect(await owner.run(['log', '--since', 'yesterday'])).toMatchObject({ code: 2 });
});

it('the log of a device has its isolation and its evidence, that of a group what it was called before; mistyped names get the nearest', async () => {
  const { owner, place } = people;
  await done(owner.run(['device', 'create', 'web-1', '--public-key', 'k', '-q']));
  await done(owner.run(['device', 'isolate', 'web-1', '--reason', 'odd logins', '-q']));
  await done(owner.run(['device', 'release', 'web-1', '-q']));
  await done(owner.run(['evidence', 'create', 'web-1', '--at', 'now', '-o', 'json']));
  await done(owner.run(['group', 'create', 'before', '--in', 'tcp 443', '-q']));
  await done(owner.run(['group', 'rename', 'before', 'after']));
  const found = async (...args: string[]): Promise<readonly string[]> =>
    (await json(owner.run(['log', ...args, '-o', 'json']))).map((entry: { operation: string }) => entry.operation);
  expect(await found('--device', 'web-1')).toEqual([
    'createDevice',
    'isolateDevice',
    'liftIsolation',
    'createEvidence',
  ]);
  expect(await found('--group', 'after')).toEqual(['createSecurityGroup', 'updateSecurityGroup']);
  await done(owner.run(['device', 'delete', 'web-1', '--yes', '-q']));
  expect((await found('--device', 'web-1')).length).toBeGreaterThan(1);
  await done(owner.run(['device', 'create', 'web-2', '--public-key', 'k2', '-q']));
  const { username } = place.member;
  for (const [option, text, told] of [
    ['--device', 'wbe-2', 'No device is called wbe-2; did you mean web-2?'],
    ['--group', 'aftre', 'No group is called aftre; did you mean after?'],
    ['--by', `${username}x`, `No user is called ${username}x; did you mean ${username}?`],
    ['--device', 'nothing-like-it', 'No device is called nothing-like-it.'],
  ] as const)
    expect(await owner.run(['log', option, text])).toEqual({
      code: 0,
      stdout: '',
      stderr: `${told}\nNo change matches.\n`,
    });
  expect(await owner.run(['log', '--until', '1h', '-o', 'json'])).toEqual({ code: 0, stdout: '[]\n', stderr: '' });
});

it('a wrong revision or a wrong number is told in a sentence', async () => {
  const { owner, member } = people;
  const made = await json(owner.run(['group', 'create', 'web', '-o', 'json']));
  const wrong = async (args: readonly string[], who = owner) => {
    const { code, stderr } = await who.run(args);
    return `${code} ${stderr}`;
  };
  expect(await wrong(['group', 'restore', 'web', 'x', '--yes'])).toMatch(/^2 .*`x` is not a revision/);
  expect(await wrong(['group', 'restore', 'web', '999999', '--yes'])).toMatch(/newest revision of the organization is/);
  for (const more of ['--dry-run', '--yes'])
    expect(await wrong(['group', 'restore', 'web', String(made.revision - 1), more])).toContain(
      `3 ringfence: group web did not exist at revision ${made.revision - 1}`,
    );
  expect(await wrong(['group', 'history', 'web', '--limit', '0'])).toMatch(/^2 .*not a number of entries/);
  expect(await wrong(['group', 'history', '00000000-0000-4000-8000-000000000000'])).toMatch(/^3 /);
  expect(await wrong(['log'], member)).toMatch(/^4 /);
});
