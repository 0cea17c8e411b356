/** Proves labels in the command line: who sets them, what they find, and what files say of them. */
import { expect, it } from 'vitest';
import { done, json, usePeople } from './people.fixture.ts';

const people = usePeople();

const device = (name: string, ...more: readonly string[]) =>
  json(people.owner.run(['device', 'create', name, '--public-key', name, ...more, '-o', 'json']));

it('labels are set, added, removed and shown, on one device and on many', async () => {
  const made = await device('app-1', '--label', 'app', '--label', 'prod', '--address', '192.0.2.1,2001:db8::1');
  expect(made).toMatchObject({ labels: ['app', 'prod'], addresses: ['192.0.2.1', '2001:db8::1'] });
  await device('app-2');
  await device('db-1', '--label', 'db');
  expect(await done(people.owner.run(['device', 'label', 'add', 'app-*', 'web', 'app']))).toBe(
    'Labels of device app-1: app, prod, web.\nLabels of device app-2: app, web.\n',
  );
  expect(await done(people.owner.run(['device', 'label', 'remove', '--label', 'app', 'web']))).toContain(
    'Labels of device app-2: app.',
  );
  const again = await people.owner.run(['device', 'label', 'set', 'app-2', 'app']);
  expect(again.stderr).toContain('Nothing to change');
  const listed = await done(people.owner.run(['device', 'list', '--label', 'app', '--no-headers']));
  expect(listed.split('\n').map((line) => line.split(' ')[0])).toEqual(['app-1', 'app-2', '']);
  expect(await json(people.owner.run(['device', 'list', '--label', 'app+prod', '-o', 'json']))).toHaveLength(1);
  const shown = await done(people.owner.run(['device', 'show', 'app-1']));
  expect(shown).toMatch(/labels +app, prod\n/);
  expect(shown).toMatch(/addresses +192\.0\.2\.1, 2001:db8::1\n/);
  expect(await done(people.owner.run(['device', 'label', 'set', 'app-1']))).toContain('Labels of device app-1: none.');
  const edited = await json(people.owner.run(['device', 'edit', 'app-1', '--address', 'none', '-o', 'json']));
  expect(edited).not.toHaveProperty('addresses');
});

it('only an owner sets them, also by an enrollment key; wrong ones are refused with the reason', async () => {
  await done(people.member.run(['device', 'create', 'mine', '--public-key', 'mine', '-q']));
  const refused = await people.member.run(['device', 'label', 'add', 'mine', 'db']);
  expect(refused).toMatchObject({ code: 4, stdout: '' });
  expect(await people.member.run(['key', 'create', '--label', 'db'])).toMatchObject({ code: 4 });
  const key = await json(people.owner.run(['key', 'create', 'rack', '--label', 'db,prod', '-o', 'json']));
  expect(key.labels).toEqual(['db', 'prod']);
  expect(await done(people.owner.run(['key', 'list']))).toMatch(/rack +\S+ +db, prod /);
  for (const [label, why] of [
    ['DB', /upper-case/],
    ['db-', /start and end with/],
    ['d b', /characters other than/],
  ] as const) {
    const outcome = await people.owner.run(['device', 'label', 'add', 'mine', label]);
    expect(outcome).toMatchObject({ code: 2, stdout: '' });
    expect(outcome.stderr).toMatch(why);
  }
  expect(await people.owner.run(['device', 'label', 'add', 'mine'])).toMatchObject({ code: 2 });
  expect(await people.owner.run(['device', 'list', '--label', 'nobody', '-q'])).toMatchObject({ code: 0, stdout: '' });
  expect(await people.owner.run(['device', 'groups', 'add', '--label', 'nobody', 'default'])).toMatchObject({
    code: 3,
  });
});

it('groups are attached by label, and a device tells why each group is in effect', async () => {
  await device('app-1', '--label', 'app');
  await device('db-1');
  await done(people.owner.run(['group', 'create', 'web']));
  expect(await done(people.owner.run(['device', 'groups', 'add', '--label', 'app', 'web']))).toBe(
    'Groups of device app-1: web.\n',
  );
  expect(await done(people.owner.run(['device', 'groups', 'list', 'app-1']))).toMatch(/web +\S+ +the device lists it/);
  expect(await done(people.owner.run(['device', 'show', 'db-1']))).toMatch(/groups +\S+ \(it is the default group\)\n/);
});

it('a policy file carries labels there and back, and leaves alone what it does not name', async () => {
  await device('app-1', '--label', 'app');
  await done(people.owner.run(['group', 'create', 'web']));
  await done(people.owner.run(['device', 'groups', 'set', 'app-1', 'web']));
  const saved = await done(people.owner.run(['export']));
  expect(saved).toContain('labels:\n      - app\n');
  const file = await people.owner.file('saved.yaml', saved);
  await done(people.owner.run(['device', 'label', 'set', 'app-1', 'other']));
  const plan = await done(people.owner.run(['diff', file]));
  expect(plan).toMatch(/- label other\n +\+ label app\n/);
  await done(people.owner.run(['apply', file, '--yes']));
  expect(await done(people.owner.run(['export']))).toBe(saved);
  const labels = await people.owner.file('labels.yaml', 'devices: [{device: app-1, labels: [app, prod]}]');
  await done(people.owner.run(['apply', labels, '--yes']));
  expect(await json(people.owner.run(['device', 'show', 'app-1', '-o', 'json']))).toMatchObject({
    labels: ['app', 'prod'],
    security_groups: [expect.any(String)],
  });
  const wrong = await people.owner.run(['apply', '-f', '-', '--yes'], {
    input: 'devices:\n  - device: app-1\n    labels: [app, DB]\n',
  });
  expect(wrong.stderr).toMatch(/stdin:3: the label "DB" has upper-case letters/);
});

it('a label that no device has is a warning with the nearest label, and a question on a terminal', async () => {
  const { owner } = people;
  await device('app-1', '--label', 'app');
  const warning = 'Warning: no device has label `ap`; did you mean `app`?\n';
  const web = await owner.run(['group', 'create', 'web', '--in', 'https from label:ap', '--applies-to', 'label:web']);
  expect(web).toMatchObject({ code: 0 });
  expect(web.stderr).toContain(warning);
  expect(web.stderr).toContain('Warning: no device has label `web` yet.\n');
  const file = await owner.file('policy.yaml', 'groups:\n  - name: db\n    inbound: ["postgres from label:ap"]\n');
  const test = '{name: a, from: "label:ap", to: "label:app", protocol: tcp, port: 22, expect: allow}';
  const tests = await owner.file('tests.yaml', `tests: [${test}]\n`);
  for (const command of [
    ['group', 'allow', 'web', 'in', 'ssh from label:aap', '--dry-run'],
    ['group', 'edit', 'web', '--applies-to', 'label:aap'],
    ['key', 'create', '--label', 'apps'],
    ['diff', file],
    ['apply', file, '--yes'],
    ['diff', tests],
    ['group', 'copy', 'web', 'web copy', '--applies-to', 'label:aap'],
    ['group', 'allow', 'web', 'in', 'ssh', '--confirm-within', '5m', '--on', 'label:aap', '--dry-run'],
  ]) {
    const outcome = await owner.run(command);
    expect(outcome, command.join(' ')).toMatchObject({ code: 0 });
    expect(outcome.stderr, command.join(' ')).toMatch(
      /Warning: no device has label `(ap|aap|apps)`; did you mean `app`\?\n/,
    );
  }
  // A label that the group had before, or that devices have, is no reason for a warning.
  const known = await owner.run(['group', 'allow', 'web', 'in', 'ssh from label:ap,label:app']);
  expect(known).toMatchObject({ code: 0, stderr: '' });
  const allow = ['group', 'allow', 'web', 'in', 'tcp 8080 from label:apq'];
  const no = await owner.inTerminal(allow, { typed: [[/did you mean `app`\?[^]*\[y\/N\]/, 'n\r']] });
  expect(no.code).toBe(1);
  expect(no.stdout).toContain('nothing was changed');
  expect(await done(owner.run(['group', 'show', 'web']))).not.toContain('8080');
  expect((await owner.inTerminal(allow, { typed: [[/\[y\/N\]/, 'y\r']] })).code).toBe(0);
  expect(await done(owner.run(['group', 'show', 'web']))).toContain('tcp 8080 from label:apq');
  expect((await owner.inTerminal(['key', 'create', '--label', 'apps', '--yes'])).code).toBe(0);
});

it('a second group with the same name and owner is a question on a terminal', async () => {
  const { owner } = people;
  const first = await json(owner.run(['group', 'create', 'web', '-o', 'json']));
  await done(owner.run(['group', 'create', 'web', '--mine']));
  const create = ['group', 'create', 'web'];
  const no = await owner.inTerminal(create, { typed: [[/\[y\/N\]/, 'n\r']] });
  expect(no.code).toBe(1);
  expect(no.stdout).toContain(`Warning: the organization already has a group with the name web (${first.id}).`);
  await done(owner.run(['group', 'create', 'other']));
  const renamed = await owner.inTerminal(['group', 'edit', 'other', '--name', 'web'], { typed: [[/\[y\/N\]/, 'n\r']] });
  expect(renamed.code).toBe(1);
  const groups = await json(owner.run(['group', 'list', '-o', 'json']));
  expect(groups.filter((group: { group_name: string }) => group.group_name === 'web')).toHaveLength(2);
  expect((await owner.inTerminal(create, { typed: [[/\[y\/N\]/, 'y\r']] })).code).toBe(0);
});

it('a host name that another device has is a warning, and on a terminal a question', async () => {
  const { owner } = people;
  const first = await json(owner.run(['device', 'create', 'twin-1', '--public-key', 'k1', '-o', 'json']));
  const second = await json(owner.run(['device', 'create', 'twin-2', '--public-key', 'k2', '-o', 'json']));
  const warning = `Warning: another device already has the host name twin-1 (${first.id}).`;
  const rename = ['device', 'rename', 'twin-2', 'twin-1'];
  const no = await owner.inTerminal(rename, { typed: [[/\[y\/N\]/, 'n\r']] });
  expect([no.code, no.stdout]).toEqual([1, expect.stringContaining(warning)]);
  const { hostname } = await json(owner.run(['device', 'show', second.id, '-o', 'json']));
  expect(hostname).toBe('twin-2');
  // A script goes on.
  const script = await owner.run(rename);
  expect([script.code, script.stderr]).toEqual([0, expect.stringContaining(warning)]);
  expect((await owner.run(['device', 'edit', second.id, '--hostname', 'twin-1'])).stderr).not.toContain('Warning');
  await done(owner.run(['device', 'delete', second.id, '--yes']));
});

it('a device is isolated for a while, allows what is named, is shown as isolated first, and is released', async () => {
  await device('web-7', '--tunnel-ip', '100.64.0.7');
  await device('lab-1', '--label', 'forensics');
  const isolate = ['device', 'isolate', 'web-7', '--reason', 'odd logins'];
  const isolated = await json(
    people.owner.run([
      ...isolate,
      '--for',
      '4h',
      '--allow',
      'label:forensics',
      '--allow',
      'device:lab-1',
      '-o',
      'json',
    ]),
  );
  expect(isolated.isolated).toMatchObject({ reason: 'odd logins', allow: [{ labels: ['forensics'] }, {}] });
  expect(await done(people.owner.run(['device', 'show', 'web-7']))).toMatch(
    /isolated +since \S+, until \S+: odd logins\n +allows label:forensics\n +allows device:lab-1\n/,
  );
  expect(await done(people.owner.run(['device', 'list']))).toMatch(/web-7 +\S+ +isolated, /);
  const mistyped = await people.owner.run([...isolate, '--allow', 'label:forensic']);
  expect(mistyped.stderr).toContain('Warning: no device has label `forensic`; did you mean `forensics`?\n');
  expect(mistyped.code).toBe(0);
  await device('twin', '--tunnel-ip', '100.64.0.7');
  expect((await people.owner.run(isolate)).stderr).toContain(
    'Warning: The other devices now refuse 100.64.0.7 also as an address of twin.\n',
  );
  const before = await people.owner.inTerminal(isolate, { typed: [[/\[y\/N\]/, 'n\r']] });
  expect(before.code).toBe(1);
  expect(before.stdout).toMatch(
    /refuse these addresses[^]+ 100\.64\.0\.7 {2}set by \S+ .*also an address of twin[^]+Isolate device web-7\?/,
  );
  const leftOut = await json(people.owner.run([...isolate, '--leave-out', '100.64.0.7', '-o', 'json']));
  expect([leftOut.refused_addresses, leftOut.isolated.not_refused]).toEqual([[], ['100.64.0.7']]);
  expect(await done(people.owner.run(['device', 'show', 'web-7']))).toContain(
    '100.64.0.7 is not refused by other devices',
  );
  expect(await people.owner.run([...isolate, '--leave-out', '100.64.0.8'])).toMatchObject({ code: 2 });
  expect(await people.owner.run([...isolate, '--allow', 'lab-1'])).toMatchObject({ code: 2 });
  expect(await people.member.run(isolate)).toMatchObject({ code: 4 });
  expect(await done(people.owner.run(['device', 'release', 'web-7']))).toContain('is released');
  expect(await done(people.owner.run(['device', 'show', 'web-7']))).not.toContain('isolated');
});

it('a label is renamed on devices, in groups and in policy tests in one change, and that is undone as one', async () => {
  await device('cache-1', '--label', 'cache');
  const rule = 'tcp 11211 from label:cache';
  await done(people.owner.run(['group', 'create', 'caches', '--applies-to', 'label:cache', '--in', rule, '-q']));
  const key = ['key', 'create', 'cache key', '--label', 'cache,prod', '--uses', '3', '-o', 'json'];
  const { id: keyId, expires_at } = await json(people.owner.run(key));
  await done(people.member.run(['group', 'create', 'laptop', '--mine', '--in', 'ssh from label:cache', '-q']));
  // A group that a device has is seen by others too.
  await done(
    people.member.run(['device', 'create', 'laptop-1', '--public-key', 'laptop-1', '--group', 'laptop', '-q']),
  );
  await done(
    people.owner.run([
      'test',
      'add',
      'cached',
      '--from',
      'label:cache',
      '--to',
      '192.0.2.1',
      '--port',
      '1',
      '--expect',
      'allow',
      '--skip-tests',
    ]),
  );
  const listed = await done(people.owner.run(['label', 'list']));
  expect(listed).toMatch(/^LABEL +DEVICES +GROUPS +RULES +KEYS +TESTS\n/);
  expect(listed).toMatch(/cache +1 +1 +2 +1 +1\n/);
  const dry = await done(people.owner.run(['label', 'rename', 'cache', 'memcached', '--dry-run']));
  expect(dry).toContain('Would rename label cache to memcached on 1 device and 1 group, and in policy tests.');
  const renamed = await people.owner.run(['label', 'rename', 'cache', 'memcached', '--yes']);
  expect(renamed).toMatchObject({ code: 0 });
  expect(renamed.stderr).toMatch(/^Group laptop of \S+ still names the label cache\.\n/m);
  expect(renamed.stderr).toContain(
    'Enrollment key cache key still gives the label cache. To replace it:\n' +
      `  ringfence key create 'cache key' --label memcached,prod --uses 3 --expires ${expires_at}\n` +
      `  ringfence key delete ${keyId}\n`,
  );
  expect(renamed.stdout).toContain('Renamed label cache to memcached on 1 device and 1 group, and in policy tests.');
  expect(await done(people.owner.run(['label', 'list']))).toMatch(/memcached +1 +1 +1 +0 +1\n/);
  // The two commands, as printed.
  const expires = ['--expires', expires_at];
  expect(
    await people.owner.run(['key', 'create', 'cache key', '--label', 'memcached,prod', '--uses', '3', ...expires]),
  ).toMatchObject({ code: 0 });
  await done(people.owner.run(['key', 'delete', keyId, '--yes']));
  const [, change = ''] = /ringfence undo (\S+)/.exec(renamed.stdout) ?? [];
  const undo = await people.owner.run(['undo', change, '--dry-run']);
  expect(undo.stdout).toMatch(/^Would undo the change of 3 records that \S+ changed at \S+ .*Nothing was written\.\n$/);
  expect(undo.stderr.split('\n')).toEqual(
    expect.arrayContaining(['~ group caches: applies_to, inbound_rules', '~ device cache-1: labels', '~ policy tests']),
  );
  await done(people.owner.run(['undo', change, '--yes']));
  expect(await done(people.owner.run(['label', 'list']))).toMatch(/^cache +1 +1 +2 +0 +1\n/m);
  expect(await people.owner.run(['undo', change, '--yes'])).toMatchObject({ code: 5 });
  expect(await people.owner.run(['label', 'rename', 'nobody', 'x', '--yes'])).toMatchObject({ code: 3 });
  expect(await people.owner.run(['label', 'rename', 'Cache', 'x', '--yes'])).toMatchObject({ code: 2 });
  expect(await people.member.run(['label', 'rename', 'cache', 'x', '--yes'])).toMatchObject({ code: 4 });
});

it('a rename keeps the label that somebody else gave a device while the person was asked', async () => {
  const { id } = await device('app-1', '--label', 'app');
  const { api } = people.place.owner;
  const answer = async (): Promise<string> => {
    await api.expect(200, 'PATCH', `${people.place.base}/devices/${id}`, { labels: ['app', 'blue'] });
    return 'y\r';
  };
  const renamed = await people.owner.inTerminal(['label', 'rename', 'app', 'web'], { typed: [[/\[y\/N\]/, answer]] });
  expect(renamed.code, renamed.stdout).toBe(0);
  const shown = await json(people.owner.run(['device', 'show', 'app-1', '-o', 'json']));
  expect(shown.labels).toEqual(['blue', 'web']);
});

it('a rename to a label in use says so, shows the effect before it asks, and merges entries that become equal', async () => {
  await device('app-1', '--label', 'app', '--tunnel-ip', '100.64.0.1');
  await device('zeta-1', '--label', 'zeta', '--tunnel-ip', '100.64.0.2');
  const ends = 'label:app+prod,label:prod+zeta';
  await done(people.owner.run(['group', 'create', 'web', '--in', `ssh from ${ends}`, '--applies-to', ends, '-q']));
  await done(people.owner.run(['group', 'create', 'shut', '--in', 'tcp 1', '--applies-to', 'label:zeta', '-q']));
  const rename = ['label', 'rename', 'app', 'zeta'];
  const warning = 'Warning: label zeta is already in use on 1 device and 2 groups. After this, the two labels are one.';
  const no = await people.owner.inTerminal(rename, { typed: [[/\[y\/N\]/, 'n\r']] });
  expect(no.stdout).toContain(warning);
  expect(no.stdout).toMatch(/1 device admits less[^]*\[y\/N\]/);
  expect((await people.owner.run([...rename, '--yes'])).stderr).toContain(warning);
  const group = await json(people.owner.run(['group', 'show', 'web', '-o', 'json']));
  expect(group.applies_to).toEqual([{ labels: ['prod', 'zeta'] }]);
  expect(group.inbound_rules).toMatchObject([{ peers: [{ labels: ['prod', 'zeta'] }] }]);
});

it('labels and groups of many devices are one change: all of it or nothing, and undone as one', async () => {
  for (const name of ['web-1', 'web-2', 'web-3']) await device(name, '--label', 'web');
  const added = await people.owner.run(['device', 'label', 'add', 'web-*', 'blue']);
  expect(added).toMatchObject({ code: 0 });
  const audit = await people.place.owner.api.expect(200, 'GET', `${people.place.base}/audit?limit=4`);
  expect(new Set(audit.map(({ change_id }: { change_id?: string }) => change_id)).size).toBe(1);
  const [, change = ''] = /ringfence undo (\S+)/.exec(added.stderr) ?? [];
  await done(people.owner.run(['undo', change, '--yes']));
  const labels = async (): Promise<unknown> =>
    (await json(people.owner.run(['device', 'list', '-o', 'json']))).map((one: { labels: unknown }) => one.labels);
  expect(await labels()).toEqual([['web'], ['web'], ['web']]);
  // A device of somebody else stops all of it.
  await done(people.member.run(['device', 'create', 'web-own', '--public-key', 'own', '-q']));
  await done(people.owner.run(['group', 'create', 'front', '-q']));
  expect(await people.member.run(['device', 'groups', 'add', 'web-*', 'front'])).toMatchObject({ code: 4 });
  const lists = await json(people.owner.run(['device', 'list', '-o', 'json']));
  expect(lists.flatMap((one: { security_groups?: string[] }) => one.security_groups ?? [])).toEqual([]);
});
