/** Proves policy tests on the command line: in policy files, on the server, from an answer of `explain`, and without a server. */
import { expect, it } from 'vitest';
import { done, json, usePeople } from './people.fixture.ts';

const people = usePeople();

const device = (hostname: string, more: object = {}) =>
  people.place.owner.api.expect(201, 'POST', `${people.place.base}/devices`, {
    public_key: hostname,
    hostname,
    ...more,
  });
const head = async (): Promise<number> => (await people.place.owner.api.expect(200, 'GET', people.place.base)).revision;
const stored = () => people.place.owner.api.expect(200, 'GET', `${people.place.base}/policy_tests`);
const fleet = async (): Promise<void> => {
  await device('app-1', { tunnel_ip: '100.64.0.1', labels: ['app'] });
  await device('db-1', { tunnel_ip: '100.64.0.2', labels: ['db'] });
};

const policy = `groups:
  - name: database
    applies_to: [label:db]
    inbound: [tcp 5432 from label:app]
tests:
  - {name: app reaches db, from: label:app, to: label:db, protocol: tcp, port: postgres, expect: allow, note: orders}
  - {name: no ssh, from: 'device:app-1', to: label:db, protocol: tcp, port: 22, expect: refuse}
`;

it('files carry tests there and back: diff shows them, apply writes them with the groups as one change, and undo takes both back', async () => {
  await fleet();
  const file = await people.owner.file('policy.yaml', policy);
  const plan = await done(people.owner.run(['diff', file]));
  expect(plan).toContain('+ test app reaches db\n    + label:app → label:db tcp/5432 must be allowed\n');
  expect(plan).toContain('+ test no ssh\n    + device:app-1 → label:db tcp/22 must be refused\n');
  const applied = await people.owner.run(['apply', file, '--yes']);
  expect(applied).toMatchObject({ code: 0 });
  expect(applied.stdout).toContain('3 created.');
  expect(await stored()).toMatchObject([
    { name: 'app reaches db', port: 5_432, note: 'orders', state: 'passing' },
    { name: 'no ssh', state: 'passing' },
  ]);
  const saved = await done(people.owner.run(['export']));
  expect(saved).toMatch(
    /tests:\n {2}- name: app reaches db\n {4}from: label:app\n[^]*- name: no ssh\n {4}from: device:app-1\n/,
  );
  const backup = await people.owner.file('backup.yaml', saved);
  expect(await done(people.owner.run(['apply', backup, '--yes', '--prune']))).toContain('No changes');

  const changed = policy.replace('port: 22', 'port: 23').replace(/ {2}- \{name: app.*\n/, '');
  const other = await people.owner.file('changed.yaml', changed);
  const kept = await people.owner.run(['diff', other]);
  expect(kept.stdout).toMatch(/~ test no ssh\n +- .*tcp\/22 must be refused\n +\+ .*tcp\/23 must be refused\n/);
  expect(kept.stderr).toContain(
    '1 test is not in these files and stays: app reaches db. With --prune, apply deletes it.',
  );
  expect(await done(people.owner.run(['apply', other, '--yes', '--prune']))).toContain('- test app reaches db');
  expect((await stored()).map(({ name }: { name: string }) => name)).toEqual(['no ssh']);

  const undo = /ringfence undo (\S+)/.exec(applied.stderr)?.[1] ?? '';
  await done(people.owner.run(['undo', undo, '--yes', '--force', '--skip-tests', '--detach']));
  expect(await stored()).toEqual([]);
  expect(await done(people.owner.run(['group', 'list', '-q']))).toMatch(/^\S+\n$/);
});

it('apply writes nothing where a test fails: not the groups, and not the tests; an owner can skip that', async () => {
  await fleet();
  const file = await people.owner.file(
    'policy.yaml',
    policy.replace('port: 22, expect: refuse', 'port: 22, expect: allow'),
  );
  const before = await head();
  const plan = await people.owner.run(['diff', file]);
  expect(plan.stderr).toMatch(
    /Policy test no ssh would fail: app-1 .* → db-1 .* tcp\/22 must be allowed\. .* rule would admit it/,
  );
  const refused = await people.owner.run(['apply', file, '--yes']);
  expect(refused.code).toBe(2);
  expect(refused.stderr).toMatch(/no ssh/);
  expect([await head(), await stored()]).toEqual([before, []]);
  expect(await people.owner.run(['apply', file, '--yes', '--skip-tests'])).toMatchObject({ code: 0 });
  expect(await stored()).toMatchObject([{ state: 'passing' }, { state: 'failing' }]);
});

it('a test that somebody else adds after the plan was made is not lost', async () => {
  const change = { policy_tests: [], policy_tests_revision: 0 };
  const write = (status: number, body: object) =>
    people.place.owner.api.expect(status, 'POST', `${people.place.base}/changes`, body);
  await write(200, change);
  await done(
    people.owner.run([
      'test',
      'add',
      'theirs',
      '--from',
      'label:a',
      '--to',
      'label:b',
      '--proto',
      'icmp',
      '--expect',
      'refuse',
    ]),
  );
  await write(412, change);
  expect(await stored()).toMatchObject([{ name: 'theirs', state: 'vacuous' }]);
  const problem = await write(422, { delete: [crypto.randomUUID()], policy_tests_revision: 1 });
  expect(problem.errors).toMatchObject([
    { pointer: '/delete/0' },
    { pointer: '/policy_tests_revision', code: 'contradiction' },
  ]);
});

it('tests are added, listed and removed; a vacuous one fails a run only where that was asked for', async () => {
  await fleet();
  const add = (name: string, ...more: readonly string[]) =>
    people.owner.run(['test', 'add', name, '--from', 'label:app', '--to', 'label:db', '--expect', 'allow', ...more]);
  const dry = await done(add('reach', '--port', 'ssh', '--dry-run'));
  expect(dry).toContain(
    '+ test reach: label:app → label:db tcp/22 must be allowed. It would be passing. Nothing was written.',
  );
  expect(await stored()).toEqual([]);
  expect(await done(add('reach', '--port', 'ssh'))).toContain('It is passing.');
  expect(await done(add('reach', '--port', '23', '--note', 'again'))).toContain('tcp/23');
  expect(await people.member.run(['test', 'remove', 'reach', '--yes'])).toMatchObject({ code: 4 });
  expect(
    (
      await people.owner.run([
        'test',
        'add',
        'x',
        '--from',
        'lable:a',
        '--to',
        'label:b',
        '--port',
        '1',
        '--expect',
        'allow',
      ])
    ).stderr,
  ).toContain('did you mean `label:a`?');
  expect(await done(people.owner.run(['test']))).toMatch(/passing +reach/);
  await done(
    people.owner.run([
      'test',
      'add',
      'ghost',
      '--from',
      'label:none',
      '--to',
      'label:db',
      '--proto',
      'icmp',
      '--expect',
      'refuse',
    ]),
  );
  expect(await done(people.owner.run(['test']))).toMatch(/vacuous +ghost/);
  expect((await people.owner.run(['test', '--vacuous-fails'])).code).toBe(1);
  expect(await json(people.owner.run(['test', 'list', '-o', 'json']))).toHaveLength(2);
  expect(await done(people.owner.run(['test', 'remove', 'ghost', '--yes']))).toContain('Removed test ghost.');
  expect(await people.owner.run(['test', 'remove', 'ghost', '--yes'])).toMatchObject({ code: 3 });
});

it('explain --keep makes a test of its answer, which then refuses a write that would change the answer', async () => {
  await fleet();
  await done(people.owner.run(['apply', '--yes', '-f', '-'], { input: policy.replace(/tests:[^]*/, '') }));
  const kept = await people.owner.run(['explain', 'app-1', 'db-1', '5432', '--keep']);
  expect(kept).toMatchObject({ code: 0 });
  expect(kept.stderr).toContain('Added test app-1 reaches db-1 on tcp 5432: ');
  await done(people.owner.run(['explain', 'app-1', 'db-1', '22', '--keep', 'closed']));
  const [first, second] = await stored();
  expect([first.expect, second.expect, second.name]).toEqual(['allow', 'refuse', 'closed']);
  const refused = await people.owner.run(['group', 'revoke', 'database', 'in', 'tcp', '5432', 'from', 'label:app']);
  expect(refused.code).toBe(2);
  expect(refused.stderr).toContain('app-1 reaches db-1 on tcp 5432');
  expect((await people.owner.run(['explain', '--who', 'db-1', '5432', '--keep'])).code).toBe(2);
});

it('a command whose write breaks a test names --skip-tests, and takes it', async () => {
  const { owner, member, place } = people;
  await fleet();
  const bastion = await device('bastion', { tunnel_ip: '100.64.0.9' });
  await device('spare', { tunnel_ip: '100.64.0.10' });
  const file = await owner.file(
    'lab.json',
    JSON.stringify({
      groups: [
        { name: 'shut', inbound: ['tcp 443'] },
        { name: 'jump', inbound: ['tcp 22 from device:bastion'], applies_to: ['label:db'] },
      ],
      tests: [
        {
          name: 'the lab is closed',
          from: 'device:app-1',
          to: 'label:lab',
          protocol: 'tcp',
          port: 22,
          expect: 'refuse',
        },
        { name: 'jump', from: '100.64.0.9', to: 'label:db', protocol: 'tcp', port: 22, expect: 'allow' },
      ],
    }),
  );
  await done(owner.run(['apply', '--yes', file]));
  await done(member.run(['group', 'create', 'own', '--mine', '--in', 'tcp 443']));
  for (const [name, address] of [
    ['moved', '100.64.0.11'],
    ['kept', '100.64.0.12'],
  ] as const) {
    const made = ['device', 'create', name, '--public-key', name, '--tunnel-ip', address, '--group', 'own'];
    await done(member.run(made));
    await done(owner.run(['device', 'label', 'add', name, 'lab']));
  }
  await device('in-shut', { tunnel_ip: '100.64.0.13' });
  await done(owner.run(['device', 'groups', 'add', 'in-shut', 'shut']));
  await done(owner.run(['device', 'label', 'add', 'in-shut', 'lab']));
  const insist = async (command: readonly string[]): Promise<void> => {
    const refused = await owner.run(command);
    expect(refused.code, command.join(' ')).toBe(2);
    expect(refused.stderr).toContain('An owner may use --skip-tests.');
    await done(owner.run([...command, '--skip-tests']));
  };
  const free = (name: string): Promise<string> => done(owner.run(['device', 'label', 'set', name]));
  await insist(['device', 'label', 'add', 'spare', 'lab']);
  const { revision } = await json(owner.run(['device', 'show', 'spare', '-o', 'json']));
  await free('spare');
  await insist(['device', 'label', 'set', 'spare', 'lab']);
  await free('spare');
  await insist(['device', 'edit', 'spare', '--label', 'lab']);
  await free('spare');
  await insist(['device', 'restore', 'spare', String(revision), '--yes']);
  await free('spare');
  await insist(['device', 'create', 'new', '--public-key', 'new', '--tunnel-ip', '100.64.0.14', '--label', 'lab']);
  await free('new');
  await insist(['group', 'delete', 'shut', '--yes', '--detach']);
  await free('in-shut');
  await insist(['device', 'move', 'moved', '--user', place.owner.username, '--detach']);
  await free('moved');
  await insist(['member', 'remove', place.member.username, '--keep-devices', '--detach', '--yes']);
  await insist(['device', 'delete', bastion.id, '--yes']);
  // The answer is about one address of the source, the test about all of them.
  await done(owner.run(['group', 'create', 'one', '--applies-to', 'label:db', '--in', 'tcp 80 from 100.64.0.1']));
  await done(owner.run(['device', 'edit', 'app-1', '--address', '192.0.2.5']));
  await insist(['explain', 'app-1', 'db-1', '80', '--keep']);
});

it('without a server, tests run on files alone or on a snapshot, say what they cannot know, and agree with the server', async () => {
  await fleet();
  const file = await people.owner.file('policy.yaml', policy);
  const away = { env: { RINGFENCE_SERVER: 'http://127.0.0.1:1', RINGFENCE_TOKEN: '' } };
  const snapshot = await people.owner.file('fleet.json', await done(people.owner.run(['export', '--snapshot'])));
  const tested = await people.owner.run(['test', '-f', file, '--snapshot', snapshot, '-o', 'json'], away);
  expect(tested).toMatchObject({ code: 0 });
  await done(people.owner.run(['apply', file, '--yes']));
  expect(JSON.parse(tested.stdout)).toEqual(await stored());

  const broken = await people.owner.file('broken.yaml', policy.replace('tcp 5432 from', 'tcp 5433 from'));
  const failing = await people.owner.run(['test', '-f', broken, '--snapshot', snapshot], away);
  expect(failing.code).toBe(1);
  expect(failing.stdout).toMatch(/failing +app reaches db/);
  expect(failing.stdout).toMatch(
    /app-1 \(100\.64\.0\.1\) → db-1 \(100\.64\.0\.2\) tcp\/5432 must be allowed\. No inbound rule of db-1 .* admits it\. This inbound rule would admit it: tcp 5432 from label:app\./,
  );
  expect(failing.stderr).toMatch(/on the snapshot of \d{4}-.*Later changes on the server are not known/);

  const alone = `${policy}devices:\n  - {device: app-1, labels: [app]}\n  - {device: db-9, labels: [db]}\n`;
  const result = await people.owner.run(['test', '-f', '-'], { ...away, input: alone });
  expect(result).toMatchObject({ code: 0 });
  expect(result.stdout).toMatch(/passing +app reaches db/);
  expect(result.stderr).toContain('on the 2 devices that the files name. Rules by address match none of them');
  const none = await people.owner.run(['test', '-f', '-', '--vacuous-fails'], {
    ...away,
    input: policy.replace('device:app-1', 'label:app'),
  });
  expect(none.code).toBe(1);
  expect(none.stdout).toMatch(/vacuous +app reaches db/);
  const wrong = await people.owner.run(['test', '-f', '-', '--snapshot', file], { ...away, input: policy });
  expect(wrong).toMatchObject({ code: 2, stdout: '' });
  expect(wrong.stderr).toContain('is not a snapshot');
});

it('a dry run of a command without a preview shows the request, and no request that writes leaves the program', async () => {
  await fleet();
  const audited = async (): Promise<number> =>
    (await people.place.owner.api.expect(200, 'GET', `${people.place.base}/audit?limit=100`)).length;
  const before = [await head(), await audited()];
  for (const args of [
    ['key', 'create', 'spare'],
    ['member', 'remove', people.place.member.username],
    ['device', 'create', 'new', '--public-key', 'new'],
    ['device', 'isolate', 'app-1', '--reason', 'a test'],
    ['device', 'label', 'add', '--label', 'app', 'x'],
    ['org', 'delete', people.place.org],
    ['token', 'create', 'spare'],
  ]) {
    const { code, stdout, stderr } = await people.owner.run([...args, '--dry-run']);
    expect({ args, code }).toEqual({ args, code: 0 });
    expect(stdout + stderr).toContain('Nothing was written.');
  }
  const shown = await people.owner.run(['key', 'create', 'spare', '--dry-run']);
  expect(shown.stderr).toMatch(/^This would have created enrollment key, with .*name spare/);
  expect([await head(), await audited()]).toEqual(before);
});
