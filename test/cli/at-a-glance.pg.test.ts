/** Proves what a person sees at a glance: tables that fit, ids that differ, names instead of ids, many devices at once, and the doctor. */
import { expect, it } from 'vitest';
import type { Json } from '../lib/http.ts';
import { twelveTasks } from '../lib/twelve-tasks.ts';
import { done, json, usePeople } from './people.fixture.ts';

// Named by invitations, and never asked.
const people = usePeople(() => ({ oidcIssuer: ['https://login.example.org'], oidcAudience: ['nothing'] }));

const device = (name: string, ...more: readonly string[]) =>
  json(people.owner.run(['device', 'create', name, '--public-key', name, ...more, '-o', 'json']));

it('a table fits the 80 columns of a terminal, whatever the names; a pipe and `-o wide` cut nothing', async () => {
  const long = 'a-very-long-group-name-'.repeat(3);
  await done(people.owner.run(['group', 'create', long, '--description', 'words '.repeat(30).trim()]));
  const { id } = await device(`host-${'x'.repeat(60)}`, '--group', long, '--tunnel-ip', '100.64.0.1');
  for (const args of [['device', 'list'], ['group', 'list'], ['audit'], ['member', 'list'], ['org', 'list']]) {
    const { code, stdout } = await people.owner.inTerminal(args, { env: { NO_COLOR: '1' } });
    expect(code).toBe(0);
    for (const line of stdout.trimEnd().split('\n')) expect([args, [...line].length <= 80]).toEqual([args, true]);
  }
  expect((await people.owner.inTerminal(['device', 'list'])).stdout).toContain('…');
  const piped = await done(people.owner.run(['device', 'list']));
  expect(piped).toContain(long);
  expect(piped).not.toContain(id);
  const wide = await people.owner.inTerminal(['device', 'list', '-o', 'wide'], { env: { NO_COLOR: '1' } });
  expect(wide.stdout).toContain(id);
  expect(wide.stdout).toContain(people.place.owner.username);
  expect(wide.stdout).not.toContain('…');
});

it('short ids differ, name what they stand for, and tables are sorted as people count', async () => {
  const made = [await device('web-10'), await device('web-9'), await device('web-1')];
  const table = await done(people.owner.run(['device', 'list', '--no-headers']));
  expect(table.split('\n').map((line) => line.split(' ')[0])).toEqual(['web-1', 'web-9', 'web-10', '']);
  const short = [...table.matchAll(/ ([0-9a-f]{8}) /g)].map(([, id]) => id ?? '');
  expect(new Set(short).size).toBe(3);
  const shown = await json(people.owner.run(['device', 'show', short[2] ?? '', '-o', 'json']));
  expect(shown.id).toBe(made[0].id);
  expect(await people.owner.run(['device', 'show', '00000000'])).toMatchObject({ code: 3 });
});

it('users stand there by name', async () => {
  await done(people.member.run(['group', 'create', 'mine', '--mine']));
  const { username } = people.place.member;
  expect(await done(people.member.run(['group', 'list']))).toMatch(new RegExp(`mine .*user ${username}`));
  await done(people.member.run(['device', 'create', 'theirs', '--public-key', 'theirs', '-q']));
  expect(await done(people.owner.run(['device', 'show', 'theirs']))).toMatch(new RegExp(`user +${username}\n`));
  expect(await done(people.owner.run(['org', 'show']))).toMatch(new RegExp(`owners +${people.place.owner.username}\n`));
});

it('a pattern changes and deletes many devices, and only those', async () => {
  for (const name of ['web-1', 'web-2', 'db-1']) await device(name);
  await done(people.owner.run(['group', 'create', 'web']));
  const added = await done(people.owner.run(['device', 'groups', 'add', 'web-*', 'web']));
  expect(added).toBe('Groups of device web-1: web.\nGroups of device web-2: web.\n');
  const list = await done(people.owner.run(['device', 'list']));
  expect(list).toMatch(/db-1 .*\(default\)/);
  expect(await people.owner.run(['device', 'groups', 'add', 'mail-*', 'web'])).toMatchObject({ code: 3 });
  const both = await json(people.owner.run(['device', 'groups', 'remove', '*-?', 'web', '-o', 'json']));
  expect(both).toHaveLength(3);
  const asked = await people.owner.inTerminal(['device', 'delete', 'web-*'], { typed: [[/\[y\/N\]/, 'y\r']] });
  expect(asked.stdout).toContain('Delete 2 devices: web-1, web-2?');
  expect(await done(people.owner.run(['device', 'list', '--no-headers']))).toMatch(/^db-1 [^\n]*\n$/);
});

it('a prefix whose address has further bits is taken, and said to mean less than it says', async () => {
  await done(people.owner.run(['group', 'create', 'web']));
  const { code, stderr } = await people.owner.run(['group', 'allow', 'web', 'in', 'tcp', '22', 'from', '10.1.2.3/8']);
  expect([code, stderr]).toEqual([0, '10.1.2.3/8 means 10.0.0.0/8: the bits after the prefix are ignored.\n']);
  const exact = await people.owner.run(['group', 'allow', 'web', 'in', 'tcp', '23', 'from', '10.0.0.0/8,10.1.2.3']);
  expect(exact.stderr).toBe('');
});

it('the completion script on a terminal comes with the way to install it; in a pipe it is only the script', async () => {
  const shown = await people.owner.inTerminal(['completion', 'fish']);
  expect(shown.stdout).toContain(
    'To install it: ringfence completion fish > ~/.config/fish/completions/ringfence.fish',
  );
  const piped = await people.owner.run(['completion', 'fish']);
  expect(piped).toMatchObject({ code: 0, stderr: '' });
  expect(piped.stdout).not.toContain('To install it');
});

it('the doctor finds all in order, tells of each thing that is not, and ends with 1 then', async () => {
  const good = await people.owner.run(['doctor', '--state', 'nowhere']);
  expect(good).toMatchObject({ code: 0, stderr: '' });
  for (const part of [
    /^ok +server +http/m,
    /^ok +ready/m,
    /^ok +clock/m,
    /^ok +version/m,
    /^ok +organization +acme/m,
  ]) {
    expect(good.stdout).toMatch(part);
  }
  expect(good.stdout).toMatch(new RegExp(`^ok +sign-in +as ${people.place.owner.username}`, 'm'));
  const wrong = await people.owner.run(['doctor', '--state', 'nowhere'], { env: { RINGFENCE_TOKEN: 'rf_user_no' } });
  expect(wrong.code).toBe(1);
  expect(wrong.stdout).toMatch(/^failed +sign-in .*\n +Run `ringfence login`/m);
  const away = await people.owner.run(['doctor', '--state', 'nowhere', '--server', 'http://127.0.0.1:1', '-o', 'json']);
  expect(away.code).toBe(1);
  expect(JSON.parse(away.stdout)[0]).toMatchObject({ name: 'server', state: 'failed' });
  // On a device whose agent does not run, the content of the kernel is shown.
  const stopped = await people.owner.run(['doctor', '--state', people.owner.home]);
  expect(stopped.code).toBe(1);
  expect(stopped.stdout).toMatch(/^failed +agent +does not run/m);
  expect(stopped.stdout).toMatch(/^ok +nft +nftables v/m);
});

it('a device is shown with how it stands, its groups with the reason of each and what they matched, and its labels', async () => {
  const [made, web] = [
    await device('edge', '--label', 'app'),
    await json(people.owner.run(['group', 'create', 'web', '-o', 'json'])),
  ];
  expect(await done(people.owner.run(['device', 'show', 'edge']))).toMatch(/state +never seen\n/);
  await people.server.nobody
    .as(made.device_token)
    .expect(200, 'PUT', `${people.place.base}/devices/${made.id}/status`, {
      state: 'failed',
      detail: 'the kernel refused line 7',
      agent_version: '0.1.0',
      interface: 'wg0',
      group_packets: [{ group_id: web.id, inbound: 1_204, outbound: 3 }],
    });
  const shown = await done(people.owner.run(['device', 'show', 'edge']));
  expect(shown).toMatch(/state +failed.*\n +the kernel refused line 7\nagent +0\.1\.0 on wg0\n/);
  expect(shown).toMatch(/labels +app\n/);
  expect(shown).toMatch(/packets +web: 1,204 in, 3 out\n/);
  expect(shown).toMatch(/groups +\S+ \(it is the default group\)\n/);
});

it('isolated devices come first in the status, and are marked in the states and lists of devices', async () => {
  await device('web-7', '--tunnel-ip', '100.64.0.7');
  await device('web-8', '--tunnel-ip', '100.64.0.8');
  await done(people.owner.run(['device', 'isolate', 'web-7', '--for', '4h', '--reason', 'odd logins', '-q']));
  const shown = await people.owner.run(['status']);
  expect(shown.stdout.split('\n')[1]).toMatch(/^Device web-7 is isolated until 20.*: odd logins$/);
  const data = await json(people.owner.run(['status', '-o', 'json']));
  expect(data.isolated).toMatchObject([{ hostname: 'web-7', reason: 'odd logins' }]);
  for (const table of [
    ['device', 'status'],
    ['device', 'list'],
  ]) {
    const lines = (await done(people.owner.run([...table, '--no-headers']))).split('\n');
    expect(lines.filter((line) => line.includes('isolated, never seen'))).toEqual([expect.stringMatching(/^web-7 /)]);
  }
  for (const explained of [
    ['explain', '--from', 'web-7'],
    ['explain', '--who', 'web-7', '22'],
  ]) {
    const { stdout } = await people.owner.run(explained);
    expect([explained, stdout.split('\n')[0]]).toEqual([
      explained,
      expect.stringMatching(/^Device web-7 is isolated until 20.*: odd logins$/),
    ]);
  }
  expect((await people.owner.run(['explain', '--from', 'web-8'])).stdout).not.toContain('is isolated until');
});

it('twelve tasks take no more commands than their table says', async () => {
  const commands = twelveTasks.flatMap((task) => task.commands);
  expect(commands).toHaveLength(13);
  const { owner, place } = people;
  await device('app-1', '--label', 'app', '--tunnel-ip', '100.64.0.1');
  await device('db-1', '--label', 'db', '--tunnel-ip', '100.64.0.2');
  const group = await json(owner.run(['group', 'create', 'database', '--applies-to', 'label:db', '-o', 'json']));
  const given = commands.map((line) =>
    line.replace('120', String(group.revision)).replace('kim', place.member.username),
  );
  const outputs: string[] = [];
  for (const line of given) outputs.push(await done(owner.run(line.split(' '))));
  const [allowed, why, lacking, history, restored, removed, key, invited, , isolated, reach, , log] = outputs;
  expect(allowed).toContain('database');
  expect(why).toMatch(/into db-1: refused.*\n.*tcp 5432 from label:app: its port is 5432, not 22/);
  expect(lacking).toMatch(/app-1/);
  expect(history).toContain('+ in tcp 5432 from label:app');
  expect(restored).toContain('Restored group database');
  expect(removed).toContain(place.member.username);
  expect(key).toContain(`:${place.org}@`);
  expect(invited).toContain('Invited lee@example.org');
  expect(isolated).toContain('db-1');
  expect(reach).toContain('app-2');
  expect(log).toMatch(/restored group database/);
  const { inbound_rules } = await json(owner.run(['group', 'show', 'database', '-o', 'json']));
  expect(inbound_rules).toEqual([expect.objectContaining({ from_port: 22, expires_at: expect.any(String) })]);
});

it('an e-mail address invites the person who proves it, and never adds a user who has it as a name', async () => {
  const { owner, server, place } = people;
  const address = `kim-${place.org.slice(-6)}@example.org`;
  const { id } = await server.admin.expect(201, 'POST', '/api/users', { username: address });
  expect(await done(owner.run(['member', 'add', address, '--role', 'owner']))).toContain(`Invited ${address}.`);
  const ids = async () =>
    (await json(owner.run(['member', 'list', '-o', 'json']))).map((member: Json) => member.user_id);
  expect(await ids()).not.toContain(id);
  await done(owner.run(['member', 'add', id]));
  expect(await ids()).toContain(id);
});
