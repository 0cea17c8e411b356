/** Proves copies, renames and restores of groups and devices, and the CI example, on a real server. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { done, json, usePeople } from './people.fixture.ts';

const people = usePeople();
const head = async (): Promise<number> => (await people.place.owner.api.expect(200, 'GET', people.place.base)).revision;

it('a group is copied without the devices that it applies to, and renamed; a dry run writes nothing', async () => {
  await done(people.owner.run(['group', 'create', 'web', '--in', 'tcp 443 # front', '--applies-to', 'label:web']));
  const before = await head();
  expect(await done(people.owner.run(['group', 'copy', 'web', 'next', '--dry-run']))).toContain('+ group next');
  expect(await done(people.owner.run(['group', 'rename', 'web', 'front', '--dry-run']))).toContain('~ group web');
  expect(await head()).toBe(before);
  const copy = await json(people.owner.run(['group', 'copy', 'web', 'next', '-o', 'json']));
  expect(copy).toMatchObject({ group_name: 'next', inbound_rules: [{ to_port: 443, description: 'front' }] });
  expect(copy).not.toHaveProperty('applies_to');
  const own = await json(people.member.run(['group', 'copy', 'web', 'mine', '--mine', '-o', 'json']));
  expect(own.user_id).toBe(people.place.member.id);
  expect(await people.member.run(['group', 'copy', 'web', 'theirs'])).toMatchObject({ code: 4 });
  const { id } = await json(people.owner.run(['group', 'show', 'web', '-o', 'json']));
  expect(await json(people.owner.run(['group', 'rename', 'web', 'front', '-o', 'json']))).toMatchObject({
    id,
    group_name: 'front',
    applies_to: [{ labels: ['web'] }],
  });
  await done(
    people.owner.run([
      'group',
      'create',
      'no-telnet',
      '--guardrail',
      'forbid',
      '--in',
      'tcp 23',
      '--applies-to',
      'all-devices',
    ]),
  );
  expect(await people.owner.run(['group', 'copy', 'no-telnet', 'other'])).toMatchObject({ code: 2 });
});

it('a device is moved to another member; a dry run shows the user, the groups that leave and the effect', async () => {
  const { owner, member } = people.place;
  await done(people.member.run(['group', 'create', 'private', '--mine', '--in', 'tcp 80', '-q']));
  await done(people.member.run(['device', 'create', 'mover', '--public-key', 'mover', '--group', 'private', '-q']));
  const before = await head();
  const dry = await people.owner.run(['device', 'move', 'mover', '--user', owner.username, '--dry-run']);
  // It ends as the command itself does.
  expect(dry).toMatchObject({ code: 5 });
  expect(dry.stderr).toContain(`~ user ${member.username} → ${owner.username}`);
  expect(dry.stderr).toMatch(/^- group private$/m);
  expect(dry.stderr).toContain('Nothing was written.');
  expect(await head()).toBe(before);
  const asked = await people.owner.run(['device', 'move', 'mover', '--user', owner.username]);
  expect(asked).toMatchObject({ code: 5, stderr: expect.stringContaining('--detach') });
  const moved = await people.owner.run(['device', 'move', 'mover', '--user', owner.username, '--detach']);
  expect(moved.stdout).toMatch(
    new RegExp(`^Moved device mover \\(.*\\) to ${owner.username}\\. Its token stays valid`),
  );
  expect(moved.stderr).toContain('Groups of the old user left the device: private.');
  expect(await done(people.owner.run(['device', 'move', 'mover', '--user', owner.id]))).toContain('already belongs to');
  expect(await people.member.run(['device', 'move', 'mover', '--user', member.username])).toMatchObject({ code: 4 });
  expect(await people.owner.run(['device', 'move', 'mover', '--user', 'nobody-here'])).toMatchObject({ code: 3 });
  expect(await done(people.owner.run(['log', '--limit', '3']))).toContain('gave it to');
});

it('a device is renamed, and its groups, labels and addresses restored as one change that can be undone', async () => {
  await done(people.owner.run(['group', 'create', 'web', '-q']));
  await done(
    people.owner.run(['device', 'create', 'edge', '--public-key', 'edge', '--label', 'app', '--group', 'web', '-q']),
  );
  const then = await head();
  expect(await done(people.owner.run(['device', 'rename', 'edge', 'edge-1']))).toContain('edge-1');
  await done(people.owner.run(['device', 'label', 'set', 'edge-1', 'other']));
  await done(people.owner.run(['device', 'groups', 'set', 'edge-1']));
  const state = () => json(people.owner.run(['device', 'show', 'edge-1', '-o', 'json']));
  const dry = await people.owner.run(['device', 'restore', 'edge-1', String(then), '--dry-run']);
  expect(dry.stderr).toMatch(/labels other → app/);
  expect(await state()).toMatchObject({ labels: ['other'] });
  const restored = await people.owner.run(['device', 'restore', 'edge-1', String(then), '--yes']);
  expect(restored).toMatchObject({ code: 0 });
  expect(await state()).toMatchObject({ hostname: 'edge-1', labels: ['app'], security_groups: [expect.any(String)] });
  expect((await people.owner.run(['device', 'restore', 'edge-1', String(then), '--yes'])).stderr).toContain(
    'Nothing to change',
  );
  const [, change = ''] = /ringfence undo (\S+)/.exec(restored.stderr) ?? [];
  const byItsEnd = change.slice(-8);
  // In a script, somebody else's change could be the last one.
  expect(await people.owner.run(['undo', '--yes'])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining(`ringfence undo ${change} --yes  # by ${people.place.owner.username} at `),
  });
  expect(await done(people.owner.run(['undo', '--dry-run', '--detach']))).toContain('Nothing was written.');
  expect(await people.owner.run(['undo', '00000000', '--yes'])).toMatchObject({ code: 3 });
  expect(await done(people.owner.run(['log']))).toContain(byItsEnd);
  await done(people.owner.run(['undo', byItsEnd, '--yes', '--detach']));
  expect(await state()).toMatchObject({ labels: ['other'] });
  await done(people.owner.run(['group', 'delete', 'web', '--yes']));
  const gone = await people.owner.run(['device', 'restore', 'edge-1', String(then), '--yes']);
  expect(gone.code).toBe(5);
  expect(gone.stderr).toContain('groups that no longer exist');
});

it('the CI example plans on a merge request without writing, and applies on main', async () => {
  const folder = join(people.owner.home, 'policy');
  await mkdir(folder);
  await writeFile(join(folder, 'web.yaml'), 'groups:\n  - name: web\n    inbound:\n      - tcp 443\n');
  const example = new URL('../../packaging/examples/ci/', import.meta.url);
  const gitlab = parse(await readFile(new URL('gitlab-ci.yml', example), 'utf8'));
  const github = parse(await readFile(new URL('github-workflow.yml', example), 'utf8'));
  for (const job of ['plan', 'apply'] as const) {
    const steps: readonly { readonly run?: string }[] = github.jobs[job].steps;
    expect(steps.flatMap(({ run }) => run ?? [])).toEqual(gitlab[job].script);
  }
  const run = async (job: 'plan' | 'apply'): Promise<string> => {
    let output = '';
    for (const line of gitlab[job].script as readonly string[]) {
      const [program, ...args] = line.replace('policy/', folder).split(' ');
      expect(program).toBe('ringfence');
      output += await done(people.owner.run(args));
    }
    return output;
  };
  // Neither a device that was never installed nor one that fails elsewhere keeps the pipeline red.
  await people.place.owner.api.expect(201, 'POST', `${people.place.base}/devices`, { public_key: 'planned' });
  const broken = await people.place.owner.api.expect(201, 'POST', `${people.place.base}/devices`, {
    public_key: 'broken',
  });
  await people.server.nobody
    .as(broken.device_token)
    .expect(200, 'PUT', `${people.place.base}/devices/${broken.id}/status`, {
      state: 'failed',
      detail: 'nft is missing',
    });
  const before = await head();
  expect(await run('plan')).toContain('+ group web');
  expect(await head()).toBe(before);
  expect(await run('apply')).toContain('1 created.');
  expect(await run('plan')).toContain('No changes');
  await writeFile(join(folder, 'web.yaml'), 'groups:\n  - inbound: [tcp 443]\n    name: web\n');
  expect(await people.owner.run(['policy', 'fmt', '--check', folder])).toMatchObject({ code: 1 });
  await done(people.owner.run(['policy', 'fmt', folder]));
  expect(await run('plan')).toContain('No changes');
});

it('explain and export look back to a revision or a time, also at devices that are gone', async () => {
  const { owner, member } = people;
  const create = (name: string, address: string, label: string) =>
    done(owner.run(['device', 'create', name, '--public-key', name, '--tunnel-ip', address, '--label', label, '-q']));
  await create('app-1', '100.64.0.1', 'app');
  await create('db-1', '100.64.0.2', 'db');
  const rule = 'tcp 5432 from label:app';
  await done(owner.run(['group', 'create', 'database', '--applies-to', 'label:db', '--in', rule, '-q']));
  const then = String(await head());
  const moment = (await people.place.owner.api.expect(200, 'GET', `${people.place.base}/audit?limit=1`))[0].at;
  const saved = await done(owner.run(['export']));
  await done(owner.run(['device', 'label', 'set', 'app-1', 'other']));
  const ask = async (...more: readonly string[]) =>
    done(owner.run(['explain', 'app-1', 'db-1', '5432', '-q', ...more]));
  expect([await ask(), await ask('--at-revision', then), await ask('--at', moment)]).toEqual([
    'refused\n',
    'allowed\n',
    'allowed\n',
  ]);
  const past = await owner.run(['explain', 'app-1', 'db-1', '5432', '--at-revision', then]);
  expect(past.stderr).toContain('Whether the devices enforced it then is not known.');
  expect(past.stdout).not.toContain('never reported');
  // Nothing is known of what devices enforced then: neither yes nor no.
  for (const question of [
    ['app-1', 'db-1', '5432'],
    ['--from', 'app-1'],
    ['--who', 'db-1', '5432'],
  ]) {
    for (const at of [
      ['--at-revision', then],
      ['--at', moment],
    ]) {
      const data = await done(owner.run(['explain', ...question, ...at, '-o', 'json']));
      expect(data).toContain('5432');
      expect(data).not.toContain('in_force');
      const table = await done(owner.run(['explain', ...question, ...at]));
      expect(table).toContain('5432');
      expect(table).not.toMatch(/in force/i);
    }
  }
  await done(owner.run(['device', 'delete', 'app-1', '--yes']));
  expect(await ask('--at-revision', then)).toBe('allowed\n');
  expect(await done(member.run(['explain', 'app-1', 'db-1', '5432', '-q', '--at-revision', then]))).toBe('allowed\n');
  expect(await done(owner.run(['export', '--at-revision', then]))).toBe(saved);
  const { api } = people.place.owner;
  await api.expect(422, 'GET', `${people.place.base}/devices?at_revision=999999`);
  await api.expect(422, 'GET', `${people.place.base}/devices?at_revision=${then}&at=${moment}`);
  await api.expect(410, 'GET', `${people.place.base}/devices?at=2001-01-01T00:00:00Z`);
  expect(await owner.run(['explain', 'db-1', 'db-1', '1', '--at', '1d', '--at-revision', '1'])).toMatchObject({
    code: 2,
  });
});

it('explain judges rules that expire as they were at the revision, not as they are now', async () => {
  const { owner } = people;
  const { api } = people.place.owner;
  await done(owner.run(['device', 'create', 'db-1', '--public-key', 'db-1', '--tunnel-ip', '100.64.0.2', '-q']));
  const group = await api.expect(201, 'POST', `${people.place.base}/security_groups`, { group_name: 'database' });
  await done(owner.run(['device', 'groups', 'set', 'db-1', 'database']));
  const rule = { ip_protocol: 'tcp', from_port: 5432, to_port: 5432 };
  await api.expect(200, 'PATCH', `${people.place.base}/security_groups/${group.id}`, {
    inbound_rules: [{ ...rule, expires_at: new Date(Date.now() + 4_000).toISOString() }],
  });
  const then = String(await head());
  const ask = (...more: readonly string[]) => owner.run(['explain', '192.0.2.1', 'db-1', '5432', ...more]);
  await expect.poll(() => done(ask('-q'))).toBe('refused\n');
  const past = await ask('--at-revision', then);
  expect(past.stdout).toMatch(/^allowed: /);
  expect(past.stderr).toContain('Rules that expire are judged as at 2');
  await done(owner.run(['device', 'label', 'set', 'db-1', 'db']));
  expect(await done(ask('-q', '--at-revision', String(await head())))).toBe('refused\n');
});

it('a dry run of undo says who gains and loses what, and is refused as the undo is', async () => {
  const { owner, place } = people;
  const device = { public_key: 'db', hostname: 'db-1', labels: ['db'], tunnel_ip: '100.64.0.1' };
  await place.owner.api.expect(201, 'POST', `${place.base}/devices`, device);
  const file = await owner.file(
    'db.yaml',
    'groups:\n  - {name: db, inbound: [tcp 5432], applies_to: [label:db]}\n  - {name: old, inbound: [tcp 1]}\n',
  );
  const applied = await owner.run(['apply', file, '--yes']);
  const [, change = ''] = /ringfence undo (\S+)/.exec(applied.stderr) ?? [];
  const before = await head();
  const dry = await owner.run(['undo', change, '--dry-run', '--detach']);
  expect(dry).toMatchObject({ code: 0 });
  expect(dry.stderr).toMatch(/^\+ db-1.*/m);
  expect(dry.stdout).toMatch(/^Would undo the change of 2 records .* 1 device admits more.* Nothing was written\.\n$/);
  // Without a group, the default group would apply: refused like the command itself.
  const [preview, refused] = [
    await owner.run(['undo', change, '--dry-run']),
    await owner.run(['undo', change, '--yes']),
  ];
  expect([preview.code, refused.code]).toEqual([5, 5]);
  expect(preview.stderr).toBe(refused.stderr);
  await done(owner.run(['group', 'allow', 'old', 'in', 'tcp', '2']));
  const later = await head();
  const changed = [await owner.run(['undo', change, '--dry-run']), await owner.run(['undo', change, '--yes'])];
  expect(changed.map(({ code }) => code)).toEqual([5, 5]);
  expect(changed[0]?.stderr).toBe(changed[1]?.stderr);
  expect([await head(), later - before]).toEqual([later, 1]);
});

it('a dry run of policy ends as a script that writes: 5 where a device would open, 2 where a policy test would fail', async () => {
  const { owner, place } = people;
  await done(owner.run(['group', 'create', 'site', '--in', 'tcp 443', '--applies-to', 'label:site']));
  const device = { public_key: 'site', hostname: 'site-1', tunnel_ip: '100.64.0.9', labels: ['site'] };
  await place.owner.api.expect(201, 'POST', `${place.base}/devices`, device);
  const ends = (name: string, port: string) =>
    ['test', 'add', name, '--from', '192.0.2.1', '--to', 'device:site-1', '--port', port, '--expect', 'allow'] as const;
  await done(owner.run(ends('open', '443')));
  const file = await owner.file(
    'site.yaml',
    'groups:\n  - {name: site, inbound: [tcp 80], applies_to: [label:site]}\n',
  );
  const refused: readonly (readonly [number, readonly string[], string])[] = [
    [5, ['group', 'delete', 'site'], '--detach'],
    [5, ['group', 'observe', 'site'], '--detach'],
    [5, ['device', 'label', 'remove', 'site-1', 'site'], '--detach'],
    [2, ['group', 'revoke', 'site', 'in', 'tcp', '443'], '--skip-tests'],
    [2, ['apply', file], '--skip-tests'],
    [2, ends('closed', '22'), '--skip-tests'],
    [2, ['group', 'create', 'shut', '--guardrail', 'forbid', '--in', 'ip', '--applies-to', 'label:x'], '--force'],
  ];
  const before = await head();
  for (const [code, words, option] of refused) {
    const [dry, real] = [await owner.run([...words, '--dry-run']), await owner.run([...words, '--yes'])];
    expect([words, dry.code, real.code]).toEqual([words, code, code]);
    expect([words, await owner.run([...words, '--dry-run', option])]).toMatchObject([words, { code: 0 }]);
  }
  expect(await head()).toBe(before);
  // A test that fails already refuses nothing.
  await done(owner.run(['group', 'revoke', 'site', 'in', 'tcp', '443', '--skip-tests']));
  expect((await owner.run(['group', 'allow', 'site', 'in', 'tcp', '80', '--dry-run'])).code).toBe(0);
});

it('every other dry run is refused where its command is, and writes nothing where it is not', async () => {
  const { owner, place } = people;
  const device = { public_key: 'web', hostname: 'web-1', tunnel_ip: '100.64.0.2' };
  await place.owner.api.expect(201, 'POST', `${place.base}/devices`, device);
  const key = JSON.parse(await done(owner.run(['key', 'create', '-o', 'json']))) as { readonly id: string };
  const { username } = place.owner;
  const refused = [
    ['device', 'create', 'web-2', '--public-key', 'web'],
    ['device', 'move', 'web-1', '--user', 'nobody-there'],
    ['member', 'add', 'nobody-there'],
    ['member', 'add', username],
    ['member', 'role', username, 'member'],
    ['webhook', 'create', 'https://not-allowed.example/'],
  ];
  for (const words of refused) {
    const dry = await owner.run([...words, '--dry-run']);
    const real = await owner.run([...words, '--yes']);
    expect([words, dry.code, dry.stderr]).toEqual([words, real.code, real.stderr]);
    expect(dry.code).not.toBe(0);
  }
  const state = async (): Promise<unknown> => [
    await head(),
    await done(owner.run(['log', '--all', '-o', 'json'])),
    await done(owner.run(['key', 'list', '-o', 'json'])),
    await done(owner.run(['org', 'list', '-o', 'json'])),
    JSON.parse(await done(owner.run(['token', 'list', '-o', 'json']))).map(({ id }: { id: string }) => id),
  ];
  const before = await state();
  const fine = [
    ['device', 'create', 'web-2', '--public-key', 'other', '--label', 'web'],
    ['device', 'isolate', 'web-1', '--reason', 'x'],
    ['key', 'create', '--label', 'web'],
    ['key', 'delete', key.id],
    ['org', 'edit', place.org, '--observe', 'all'],
    ['org', 'create', 'another'],
    ['org', 'delete', place.org],
    ['token', 'create', 'spare'],
  ];
  for (const words of fine) {
    const { code, stdout, stderr } = await owner.run([...words, '--dry-run']);
    expect([words, code, stdout + stderr]).toEqual([words, 0, expect.stringContaining('Nothing was written.')]);
  }
  expect(await state()).toEqual(before);
});

it('a dry run about users and tokens of the server is refused where the write is, and every credential still works after it', async () => {
  const { member, place, server } = people;
  const env = { RINGFENCE_TOKEN: server.adminToken, RINGFENCE_ORG: '' };
  const admin = (...words: readonly string[]) => member.run(words, { env });
  const { username } = place.member;
  for (const words of [
    ['user', 'create', username],
    ['user', 'delete', place.owner.username],
  ]) {
    const [dry, real] = [await admin(...words, '--dry-run'), await admin(...words, '--yes')];
    expect([words, dry.code, dry.stderr]).toEqual([words, real.code, real.stderr]);
    expect(dry.code).toBe(5);
  }
  const audit = async (): Promise<string> => (await server.admin.get('/api/audit')).text;
  const before = await audit();
  await done(admin('user', 'create', 'next', '--dry-run'));
  await done(admin('token', 'create', '--user', username, '--dry-run'));
  expect(await done(admin('user', 'delete', username, '--dry-run'))).toMatch(
    /^Would delete user .* Nothing was written\.\n$/,
  );
  const heirs = await done(
    admin('user', 'delete', place.owner.username, '--organizations', `to:${username}`, '--dry-run'),
  );
  expect(heirs).toContain(`${username} owns now, and has yet to accept: `);
  const [{ id }] = JSON.parse(await done(member.run(['token', 'list', '-o', 'json']))) as [{ id: string }];
  await done(member.run(['token', 'delete', id, '--dry-run']));
  await done(member.run(['token', 'rotate', id, '--dry-run']));
  await done(member.run(['device', 'list']));
  expect(await audit()).toBe(before);
});

it('a dry run of a removal and of a rotation says in words what would happen, and writes nothing', async () => {
  const { owner, member, place } = people;
  const device = { public_key: 'web', hostname: 'web-1', tunnel_ip: '100.64.0.2', user_id: place.member.id };
  await place.owner.api.expect(201, 'POST', `${place.base}/devices`, device);
  await done(member.run(['group', 'create', 'laptop', '--mine', '--in', 'ssh']));
  const name = place.member.username;
  const gone = await owner.run(['member', 'remove', name, '--dry-run']);
  expect(gone.stdout).toMatch(
    new RegExp(
      `^Would remove ${name} from the organization: 1 device deleted, 1 group deleted\\..* Nothing was written\\.\n$`,
    ),
  );
  expect(gone.stderr).toMatch(/^- device web-1\n- group /m);
  const kept = await owner.run(['member', 'remove', name, '--keep-devices', '--dry-run']);
  expect(kept.stdout).toContain('1 device taken over, 1 group deleted.');
  const last = [['--dry-run'], ['--yes']].map((more) => owner.run(['member', 'remove', place.owner.username, ...more]));
  expect((await Promise.all(last)).map(({ code }) => code)).toEqual([5, 5]);
  expect(await done(owner.run(['member', 'show', name]))).toContain(name);

  await place.owner.api.expect(201, 'POST', `${place.base}/devices`, { public_key: 'own', hostname: 'web-9' });
  expect(await done(owner.run(['token', 'list']))).toMatch(/^NAME +DEVICE +ID[^]*\n\S+ +web-9 +/);
  expect((await owner.run(['token', 'rotate', 'web-9', '--dry-run'])).stdout).toContain('of device web-9');

  await done(owner.run(['token', 'create', 'ci', '-q']));
  const rotated = await owner.run(['token', 'rotate', 'ci', '--dry-run']);
  expect(rotated.stdout).toMatch(/^Would replace the secret of token ci\. .* Nothing was written\.\n$/);
  const other = await owner.run(['token', 'create', 'next', '--read-only', '--dry-run']);
  expect(other.stderr).toBe('This would have created token, with name next, scope read-only.\nNothing was written.\n');
});
