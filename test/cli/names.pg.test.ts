/** Proves policy by name in the command line: peers, groups that apply by label, guardrails; in words, in files, and explained. */
import { expect, it } from 'vitest';
import { done, json, usePeople } from './people.fixture.ts';

const people = usePeople();

const device = (name: string, ...more: readonly string[]) =>
  json(people.owner.run(['device', 'create', name, '--public-key', name, ...more, '-o', 'json']));

const explain = (from: string, to: string, port: string) =>
  done(people.owner.run(['explain', '--from', from, '--to', to, '--port', port]));

it('rules name devices by label, by name and all of them, and are shown, revoked and refused in the same words', async () => {
  const bastion = await device('bastion', '--tunnel-ip', '100.64.0.9');
  await device('app-1', '--label', 'app,prod', '--tunnel-ip', '100.64.0.1');
  await done(people.owner.run(['group', 'create', 'db']));
  const words = ['in', 'tcp', '5432', 'from', 'label:prod+app,', 'device:bastion,', '192.0.2.7'];
  expect(await done(people.owner.run(['group', 'allow', 'db', ...words]))).toMatch(
    /in +tcp 5432 from label:app\+prod, device:bastion, 192\.0\.2\.7\n/,
  );
  const stored = await json(people.owner.run(['group', 'show', 'db', '-o', 'json']));
  expect(stored.inbound_rules).toEqual([
    {
      ip_protocol: 'tcp',
      from_port: 5432,
      to_port: 5432,
      ip_ranges: ['192.0.2.7'],
      peers: [{ labels: ['app', 'prod'] }, { device_id: bastion.id }],
    },
  ]);
  const again = await people.owner.run(['group', 'allow', 'db', ...words]);
  expect(again.stderr).toContain('Nothing was changed');
  await done(people.owner.run(['group', 'allow', 'db', 'out', 'tcp 443 to all-devices']));
  await done(people.owner.run(['device', 'delete', 'bastion', '--yes']));
  const shown = await done(people.owner.run(['group', 'show', 'db']));
  expect(shown).toContain(`device:${bastion.id}`);
  expect(shown).toMatch(/stale +device .* no longer exists/);
  expect(shown).toMatch(/out +tcp 443 to all-devices/);
  await done(people.owner.run(['group', 'revoke', 'db', 'out', 'tcp', '443', 'to', 'all-devices']));
  for (const [rule, why] of [
    ['tcp 1 from label:DB', /upper-case/],
    ['tcp 1 from device:nobody', /no device is called nobody/],
    ['tcp 1 from app-1', /write `label:app-1` for a label, `device:app-1` for a device/],
    ['tcp 1 from any, label:app', /`any` cannot be combined/],
  ] as const) {
    const outcome = await people.owner.run(['group', 'allow', 'db', 'in', rule]);
    expect(outcome.stdout).toBe('');
    expect(outcome.stderr).toMatch(why);
  }
});

it('a group that applies by label is in effect where the label is, and `explain` names the peer', async () => {
  await device('app-1', '--label', 'app', '--tunnel-ip', '100.64.0.1');
  await device('db-1', '--label', 'db', '--tunnel-ip', '100.64.0.2');
  const create = ['group', 'create', 'database', '--in', 'postgres from label:app', '--applies-to', 'label:db'];
  await done(people.owner.run(create));
  expect(await done(people.owner.run(['device', 'groups', 'list', 'db-1']))).toMatch(
    /database +\S+ +it applies by label/,
  );
  const listed = await done(people.owner.run(['device', 'list']));
  expect(listed).toMatch(/^db-1 .* database \(by label\)$/m);
  expect(listed).toMatch(/^app-1 .* default \(default\)$/m);
  expect(await done(people.owner.run(['group', 'show', 'database']))).toMatch(
    /applies to +label:db\n(.*\n)*devices +db-1\n/,
  );
  expect(await explain('app-1', 'db-1', 'postgres')).toContain(
    'into db-1: allowed, rule `tcp 5432 from label:app` of group database, by label:app',
  );
  expect(await explain('db-1', 'app-1', 'ssh')).toContain('allowed');
  await done(people.owner.run(['device', 'label', 'remove', 'app-1', 'app']));
  expect(await explain('app-1', 'db-1', 'postgres')).toContain('refused');
  expect(await done(people.owner.run(['nft', 'db-1']))).toContain('table inet service');
  await done(people.owner.run(['group', 'edit', 'database', '--applies-to', 'none', '--detach']));
  expect(await done(people.owner.run(['device', 'groups', 'list', 'db-1']))).toContain('it is the default group');
});

it('a guardrail forbids whatever groups say, warns of rules that it makes void, and is never another kind', async () => {
  await device('app-1', '--tunnel-ip', '100.64.0.1');
  const made = [
    'group',
    'create',
    'no-telnet',
    '--guardrail',
    'forbid',
    '--applies-to',
    'all-devices',
    '--in',
    'tcp 23',
  ];
  await done(people.owner.run(made));
  expect(await done(people.owner.run(['group', 'list']))).toMatch(/no-telnet +\S+ +guardrail, forbid/);
  expect(await explain('192.0.2.1', 'app-1', '23')).toMatch(/refused, the guardrail no-telnet forbids it/);
  await done(people.owner.run(['group', 'create', 'old']));
  const warned = await people.owner.run(['group', 'allow', 'old', 'in', 'tcp', '23']);
  expect([warned.code, warned.stderr]).toEqual([0, expect.stringContaining('Warning: ')]);
  const everything = [
    'group',
    'create',
    'nothing',
    '--guardrail',
    'forbid',
    '--applies-to',
    'all-devices',
    '--in',
    'ip',
  ];
  expect(await people.owner.run(everything)).toMatchObject({ code: 2 });
  await done(people.owner.run([...everything, '--force']));
  for (const command of [
    ['rename', 'nothing', 'all'],
    ['observe', 'all'],
    ['enforce', 'all'],
    ['copy', 'all', 'again', '--applies-to', 'all-devices'],
    ['edit', 'all', '--description', 'closed'],
    ['allow', 'all', 'in', 'tcp', '22'],
    ['revoke', 'all', 'in', 'tcp', '22'],
  ]) {
    const refused = await people.owner.run(['group', ...command]);
    expect(refused.code, command.join(' ')).toBe(2);
    expect(refused.stderr).toContain('use --force');
    await done(people.owner.run(['group', ...command, '--force']));
  }
  expect(await people.member.run(made.with(2, 'mine'))).toMatchObject({ code: 4 });
  const file = await people.owner.file('kind.yaml', 'groups: [{name: no-telnet, inbound: [tcp 23]}]');
  const refused = await people.owner.run(['apply', file, '--yes']);
  expect(refused.stderr).toMatch(/kind\.yaml:1: group no-telnet is guardrail forbid, and this cannot change/);
});

it('files carry names there and back', async () => {
  const { id } = await device('app-1', '--label', 'app', '--tunnel-ip', '100.64.0.1');
  const policy = `groups:
  - name: db
    applies_to: [label:db, label:db+eu]
    inbound: [postgres from label:app, tcp 22 from device:app-1]
  - name: guard
    guardrail: require
    applies_to: [all-devices]
    inbound: [tcp 22 from 10.0.0.0/8]
`;
  const file = await people.owner.file('names.yaml', policy);
  const plan = await done(people.owner.run(['apply', file, '--dry-run']));
  expect(plan).toMatch(/\+ applies to label:db\+eu\n/);
  expect(plan).toMatch(/\+ in {2}tcp 22 from device:app-1\n/);
  await done(people.owner.run(['apply', file, '--yes']));
  expect(await done(people.owner.run(['apply', file, '--yes']))).toContain('No changes');
  const saved = await done(people.owner.run(['export']));
  expect(saved).toContain('device:app-1');
  const backup = await people.owner.file('saved.yaml', saved);
  await done(people.owner.run(['group', 'revoke', 'db', 'in', 'tcp', '22', 'from', `device:${id}`]));
  await done(people.owner.run(['group', 'edit', 'db', '--applies-to', 'label:other']));
  await done(people.owner.run(['apply', backup, '--yes']));
  expect(await done(people.owner.run(['export']))).toBe(saved);
  const wrong = await people.owner.run(['apply', '-f', '-', '--yes'], {
    input: 'groups:\n  - name: x\n    applies_to: [db]\n    inbound:\n      - tcp 1 from device:ghost\n',
  });
  expect(wrong.stderr).toMatch(/stdin:3: `db`: `db` does not select devices/);
  expect(wrong.stderr).toMatch(/stdin:5: `tcp 1 from device:ghost`: no device is called ghost/);
});

it('what takes the last group from a device names it, asks in a terminal, and needs --detach in a script', async () => {
  const { owner } = people;
  await device('db-1', '--label', 'db,prod');
  await device('db-2', '--label', 'db');
  await done(owner.run(['group', 'create', 'old', '--applies-to', 'label:other']));
  const { revision } = await json(owner.run(['group', 'show', 'old', '-o', 'json']));
  await done(owner.run(['group', 'edit', 'old', '--applies-to', 'label:db']));
  await done(owner.run(['group', 'create', 'later', '--observe']));
  await done(owner.run(['group', 'create', 'now']));
  await device('web-1', '--group', 'now');
  const open = async (): Promise<readonly string[]> =>
    (await done(owner.run(['device', 'list']))).split('\n').filter((line) => line.includes('default (default)'));
  const policy = (name: string): string => `groups:\n  - name: ${name}\n    applies_to: [label:other]\n`;
  const file = await owner.file('opening.yaml', policy('old'));
  for (const [command, ...names] of [
    [['device', 'label', 'remove', '--label', 'db', 'db'], 'db-1'],
    [['device', 'edit', 'db-1', '--label', 'none'], 'db-1'],
    [['device', 'groups', 'set', 'web-1', 'later'], 'web-1'],
    [['group', 'edit', 'old', '--applies-to', 'none'], 'db-1', 'db-2'],
    [['group', 'restore', 'old', String(revision), '--yes'], 'db-1', 'db-2'],
    [['apply', file, '--yes'], 'db-1', 'db-2'],
  ] as const) {
    const refused = await owner.run(command);
    expect(refused.code, command.join(' ')).toBe(5);
    expect(refused.stderr).toContain('the default group would apply');
    expect(refused.stderr).toContain('--detach');
    for (const name of names) expect(refused.stderr).toContain(`${name} (`);
  }
  expect(await open()).toEqual([]);
  await done(owner.run(['device', 'groups', 'set', 'web-1', 'later', '--detach']));
  expect(await open()).toHaveLength(1);
  await done(owner.run(['device', 'groups', 'set', 'web-1', 'now']));
  const no = await owner.inTerminal(['group', 'edit', 'old', '--applies-to', 'none'], {
    typed: [[/Continue\?/, 'n\n']],
  });
  expect([no.code, await open()]).toEqual([5, []]);
  expect(no.stdout).toMatch(/default group would apply to them:\n {2}db-1 \(.*\)\n {2}db-2 /);
  const yes = await owner.inTerminal(['device', 'label', 'remove', 'db-1', 'db'], { typed: [[/Continue\?/, 'y\n']] });
  expect(yes.code).toBe(0);
  expect(await open()).toHaveLength(1);
  await done(owner.run(['device', 'label', 'add', 'db-1', 'db']));
  // A group that takes over may stand behind the one that goes: the file as a whole opens nothing.
  const moved = `${policy('old')}  - name: new\n    applies_to: [label:db]\n`;
  await done(owner.run(['apply', await owner.file('moved.yaml', moved), '--yes']));
  expect(await open()).toEqual([]);
  await done(owner.run(['apply', await owner.file('opened.yaml', policy('new')), '--yes', '--detach']));
  expect(await open()).toHaveLength(2);
});
