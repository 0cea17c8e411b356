/** Proves the commands about devices, groups and rules in words, on a real server. */
import { chmod, readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { Proxy } from '../lib/proxy.ts';
import { done, json, usePeople } from './people.fixture.ts';

const people = usePeople();

/** What a command printed, which must have succeeded. */

describe('group', () => {
  it('is created with rules in words, listed, shown and deleted', async () => {
    const made = await json(
      people.owner.run([
        'group',
        'create',
        'web',
        '--description',
        'front',
        '--in',
        'tcp 80,443',
        '--in',
        'icmp',
        '--out',
        'udp 53 to any',
        '-o',
        'json',
      ]),
    );
    expect(made).toMatchObject({
      group_name: 'web',
      group_description: 'front',
      org_id: people.place.org,
      inbound_rules: [
        { ip_protocol: 'tcp', from_port: 80, to_port: 80 },
        { ip_protocol: 'tcp', from_port: 443, to_port: 443 },
        { ip_protocol: 'icmp', from_port: 0, to_port: 0 },
      ],
      outbound_rules: [{ ip_protocol: 'udp', from_port: 53, to_port: 53 }],
    });
    expect(await done(people.owner.run(['group', 'list']))).toMatch(/web +[0-9a-f]{8} +organization +3 +1 +front\n/);
    const shown = await done(people.owner.run(['group', 'show', 'web']));
    expect(shown).toMatch(/in +tcp 80 from any\n +tcp 443 from any\n +icmp from any\nout +udp 53 to any\n/);
    expect(await done(people.owner.run(['group', 'delete', 'web', '--yes', '-q']))).toBe(`${made.id}\n`);
    expect(await people.owner.run(['group', 'show', made.id])).toMatchObject({ code: 3 });
  });

  it('is created once, and a device too, although the answers are lost on the way, whole or in the middle', async () => {
    const proxy = await Proxy.start(people.server.url);
    try {
      for (const [noun, rest] of [
        ['group', ['--in', 'tcp 80']],
        ['device', ['--public-key', 'key of lost']],
      ] as const) {
        proxy.loseAnswers(/^POST [^ ]*\/(security_groups|devices) /, [0, 40]);
        const make = [noun, 'create', 'lost', ...rest, '-o', 'json', '--server', proxy.url];
        const { id } = await json(people.owner.run(make));
        expect(proxy.answersToLose).toBe(0);
        const listed = await json(people.owner.run([noun, 'list', '-o', 'json']));
        const made = listed.filter((one: Record<string, string>) => (one['group_name'] ?? one['hostname']) === 'lost');
        expect(made.map((one: { id: string }) => one.id)).toEqual([id]);
      }
    } finally {
      await proxy.close();
    }
  });

  it('is told what would change with --dry-run by every command that writes one, and nothing is written', async () => {
    const { owner } = people;
    const web = await json(
      owner.run(['group', 'create', 'web', '--in', 'tcp 443', '--applies-to', 'label:web', '-o', 'json']),
    );
    const make = ['device', 'create', 'web-1', '--public-key', 'k1', '--label', 'web', '-q'];
    await done(owner.run(make));
    const head = async (): Promise<number> => (await json(owner.run(['status', '-o', 'json']))).revision;
    const before = await head();
    const dry = (...args: string[]): Promise<string> => done(owner.run([...args, '--dry-run', '--wait']));
    const [created, allowed, revoked, edited, deleted, reset, restored, grouped, labelled] = await Promise.all([
      dry('group', 'create', 'db', '--in', 'postgres', '--applies-to', 'label:web'),
      dry('group', 'allow', 'web', 'in', 'ssh'),
      dry('group', 'revoke', 'web', 'in', 'tcp', '443'),
      dry('group', 'edit', 'web', '--name', 'www'),
      dry('group', 'delete', 'web', '--detach'),
      dry('group', 'delete', 'default'),
      dry('group', 'restore', 'web', String(web.revision)),
      dry('device', 'groups', 'add', 'web-1', 'web'),
      dry('device', 'label', 'add', 'web-1', 'prod'),
    ]);
    const concerns = 'It affects 1 device: web-1. Nothing was written.\n';
    const effect = (sign: '+' | '-', port: number): string =>
      `${sign} web-1 ${sign === '+' ? 'accepts' : 'no longer accepts'} tcp ${port} from any address\n`;
    expect(created).toBe(
      `+ group db\n    + applies to label:web\n    + in tcp 5432 from any\n${effect('+', 5432)}${concerns}`,
    );
    expect(allowed).toBe(`~ group web\n    + in tcp 22 from any\n${effect('+', 22)}${concerns}`);
    expect(revoked).toBe(`~ group web\n    - in tcp 443 from any\n${effect('-', 443)}${concerns}`);
    expect(edited).toBe(`~ group web\n    ~ name web → www\n${concerns}`);
    expect(deleted).toMatch(
      /^- group web\n(?:\+ web-1 accepts .* from any(?: IPv[46])? address\n)+It affects 1 device: web-1\./,
    );
    expect(reset).toMatch(/^~ group default\n(?: {4}.*\n)*It applies to no devices\. Nothing was written\.\n$/);
    expect(restored).toBe(`~ group web\n${concerns}`);
    expect([grouped, labelled]).toEqual(['Groups of device web-1: web.\n', 'Labels of device web-1: prod, web.\n']);
    const away = await owner.run(['device', 'delete', 'web-1', '--dry-run']);
    expect(away.stderr).toContain('- web-1 no longer accepts tcp 443 from any address\n');
    expect(away.stderr).toContain('The present policy is not in force on web-1 (never seen)');
    const moved = await owner.run(['device', 'label', 'remove', 'web-1', 'web', '--dry-run']);
    expect(moved.stderr).toMatch(
      /\+ web-1 accepts udp from any address\n(?:.*\n)*1 device admits more\. Nothing was written\.\n$/,
    );
    expect(moved.stderr).toContain('without a group, and the default group would apply');
    expect(await head()).toBe(before);
    expect(await json(owner.run(['group', 'delete', 'web', '--detach', '--dry-run', '-o', 'json']))).toMatchObject({
      action: 'delete',
      name: 'web',
      devices: [expect.any(String)],
    });
  });

  it('says what an empty direction means', async () => {
    await done(people.owner.run(['group', 'create', 'closed']));
    const shown = await done(people.owner.run(['group', 'show', 'closed']));
    expect(shown).toMatch(/in +nothing \(only replies\)\nout +all traffic \(no outbound rules\)\n/);
  });

  it('of a member is its own, and the organization is not the member to write to', async () => {
    const refused = await people.member.run(['group', 'create', 'mine']);
    expect(refused.code).toBe(4);
    const mine = await json(people.member.run(['group', 'create', 'mine', '--mine', '--in', 'tcp 22', '-o', 'json']));
    expect(mine.user_id).toBe(people.place.member.id);
    await done(people.member.run(['group', 'allow', 'mine', 'in', 'tcp', '2222']));
    expect((await json(people.member.run(['group', 'show', 'mine', '-o', 'json']))).inbound_rules).toHaveLength(2);
    expect(await people.owner.run(['group', 'show', 'mine'])).toMatchObject({ code: 3 });
    await done(people.member.run(['group', 'delete', 'mine', '-y']));
  });

  it('called default is the default group, and deleting it resets it', async () => {
    const before = await json(people.owner.run(['group', 'show', 'default', '-o', 'json']));
    expect(before).toMatchObject({ id: people.place.defaultGroup, is_default: true });
    await done(people.owner.run(['group', 'revoke', 'default', 'in', 'ipv4']));
    expect(await done(people.owner.run(['group', 'delete', 'default', '--yes']))).toContain('Reset group');
    const after = await json(people.owner.run(['group', 'show', 'default', '-o', 'json']));
    expect(after.id).not.toBe(before.id);
    expect(after.inbound_rules).toEqual(before.inbound_rules);
  });

  it('in use is not deleted, with code 5 and the devices named, unless detached', async () => {
    await done(people.owner.run(['group', 'create', 'web']));
    await done(people.owner.run(['device', 'create', 'edge-1', '--public-key', 'k1', '--group', 'web', '-q']));
    const refused = await people.owner.run(['group', 'delete', 'web', '--yes']);
    expect(refused.code).toBe(5);
    const { id } = await json(people.owner.run(['device', 'show', 'edge-1', '-o', 'json']));
    expect(refused.stderr).toContain(id);
    expect(await done(people.owner.run(['group', 'show', 'web']))).toMatch(/devices +edge-1\n/);
    const asked = await people.owner.inTerminal(['group', 'delete', 'web'], { typed: [[/\[y\/N\]/, 'n\r']] });
    expect(asked.stdout).toContain('Delete group web? 1 device uses it: edge-1. [y/N]');
    await done(people.owner.run(['group', 'delete', 'web', '--yes', '--detach']));
    expect(await done(people.owner.run(['device', 'list']))).toMatch(
      /^HOSTNAME +ID +STATE [^\n]*\nedge-1 +\w+ +never seen .*\(default\)/,
    );
    const shown = await done(people.owner.run(['device', 'show', 'edge-1']));
    expect(shown).toMatch(/^hostname +edge-1\n/);
    expect(shown).not.toMatch(/^(labels|tunnel ip|relay|packets) *$/m);
    expect(shown).not.toContain('relay');
  });
});

describe('rules in words', () => {
  it('are allowed and revoked, and saying so again changes nothing', async () => {
    await done(people.owner.run(['group', 'create', 'web']));
    const allow = ['group', 'allow', 'web', 'in', 'tcp', '443', 'from', '10.0.0.0/8,fd00::/8'];
    expect(await done(people.owner.run(allow))).toMatch(/in +tcp 443 from 10\.0\.0\.0\/8, fd00::\/8\n/);
    const { revision } = await json(people.owner.run(['group', 'show', 'web', '-o', 'json']));
    const again = await people.owner.run(allow);
    expect(again.stderr).toContain('Nothing was changed');
    expect((await json(people.owner.run(['group', 'show', 'web', '-o', 'json']))).revision).toBe(revision);
    expect(await done(people.owner.run(['group', 'allow', 'web', 'out', 'udp 53 to any']))).toMatch(
      /out +udp 53 to any\n/,
    );
    const spaced = ['group', 'allow', 'web', 'in', 'ip', '8000-8999', 'from', '10.1.0.1', '-', '10.1.0.9'];
    expect(await done(people.owner.run(spaced))).toMatch(
      /tcp 8000-8999 from 10\.1\.0\.1-10\.1\.0\.9\n +udp 8000-8999 from/,
    );
    const revoke = ['group', 'revoke', 'web', 'in', 'TCP', '443', 'from', 'fd00::/8,', '10.0.0.0/8'];
    expect(await done(people.owner.run(revoke))).not.toContain('tcp 443');
    const missing = await people.owner.run(revoke);
    expect(missing.code).toBe(3);
    expect(missing.stderr).toContain('tcp 8000-8999 from 10.1.0.1-10.1.0.9');
    expect(await done(people.owner.run(['group', 'revoke', 'web', 'out', 'all']))).toContain(
      'all traffic (no outbound rules)',
    );
  });

  it.each([
    [['in', 'tcp', '70000'], /a port must be between 1 and 65535, got 70000/],
    [['in', 'tcp', '443', 'from', '010.0.0.1'], /"010\.0\.0\.1" has a leading zero|010\.0\.0\.1/],
    [['in', 'tcp', '90-80'], /begins at 90 and ends at 80: swap them/],
    [['in', 'icmp', '80'], /icmp rule has no ports\.$/m],
    [['in', 'tcp', '0-80'], /a range of ports begins at 1/],
    [['in', 'ipv4', 'from', '::1'], /is IPv6, but the rule's protocol is ipv4/],
    [['in', 'tpc', '80'], /did you mean `tcp`/],
    [['in', 'udp', 'ssh'], /`ssh` is tcp 22, not udp/],
    [['in', 'tcp', '0'], /port 0 does not exist/],
    [['in', 'tcp', '80', 'to', 'any'], /comes `from`/],
    [['out', 'tcp', '80', 'from', 'any'], /goes `to`/],
    [['sideways', 'tcp'], /`in` or `out`/],
  ])('that are wrong are refused with one line and code 2 before anything is sent: %j', async (words, message) => {
    const outcome = await people.owner.run(['group', 'allow', 'default', ...words]);
    expect(outcome).toMatchObject({ code: 2, stdout: '' });
    expect(outcome.stderr).toMatch(message);
    expect(outcome.stderr.trim().split('\n')).toHaveLength(1);
  });

  it('say of a wrong rule what the server says of it', async () => {
    const rule = { ip_protocol: 'tcp', from_port: 9, to_port: 9, ip_ranges: ['10.0.0.300'] };
    const body = { group_name: 'x', inbound_rules: [rule] };
    const { errors } = await people.place.owner.api.expect(422, 'POST', `${people.place.base}/security_groups`, body);
    const outcome = await people.owner.run(['group', 'allow', 'default', 'in', 'tcp', '9', 'from', '10.0.0.300']);
    expect(outcome.stderr).toBe(`ringfence: ${errors[0].detail}\n`);
  });

  it('of two people at once are both kept', async () => {
    await done(people.owner.run(['group', 'create', 'web']));
    const ports = ['1001', '1002', '1003', '1004'];
    await Promise.all(ports.map((port) => done(people.owner.run(['group', 'allow', 'web', 'in', 'tcp', port]))));
    const { inbound_rules } = await json(people.owner.run(['group', 'show', 'web', '-o', 'json']));
    expect(inbound_rules.map(({ from_port }: { from_port: number }) => String(from_port)).toSorted()).toEqual(ports);
  });
});

describe('group edit', () => {
  /** An editor that does to the file what a shell command says, one command a call. */
  async function editor(...scripts: readonly string[]): Promise<Record<string, string>> {
    const body = scripts.map((script, index) => `  ${index}) ${script} ;;`).join('\n');
    const path = await people.owner.file(
      'editor.sh',
      `#!/bin/sh\nn=$(cat "$0.count" 2>/dev/null || echo 0)\necho $((n+1)) > "$0.count"\ncp "$1" "$0.seen.$n"\ncase $n in\n${body}\nesac\n`,
    );
    await chmod(path, 0o755);
    return { EDITOR: path };
  }

  it('opens the group in $EDITOR and writes what was saved', async () => {
    await done(people.owner.run(['group', 'create', 'web', '--in', 'tcp 80']));
    const env = await editor(`sed -i 's/tcp 80/tcp 8080/; s/name: web/name: www/' "$1"`);
    expect(await done(people.owner.run(['group', 'edit', 'web'], { env }))).toContain('Changed group www');
    const seen = await readFile(`${env['EDITOR']}.seen.0`, 'utf8');
    expect(seen).toContain('name: web\n');
    expect(seen).toContain('- tcp 80 from any\n');
    const group = await json(people.owner.run(['group', 'show', 'www', '-o', 'json']));
    expect(group.inbound_rules).toMatchObject([{ from_port: 8080 }]);
  });

  it('gives a second chance, with what is wrong written above the text', async () => {
    await done(people.owner.run(['group', 'create', 'web', '--in', 'tcp 80']));
    const env = await editor(`sed -i 's/tcp 80/tcp 99999/' "$1"`, `sed -i 's/tcp 99999/tcp 81/' "$1"`);
    await done(people.owner.run(['group', 'edit', 'web'], { env }));
    expect(await readFile(`${env['EDITOR']}.seen.1`, 'utf8')).toMatch(/# Fix these errors:\n#.*65535/);
    expect((await json(people.owner.run(['group', 'show', 'web', '-o', 'json']))).inbound_rules).toMatchObject([
      { from_port: 81 },
    ]);
  });

  it('changes nothing when nothing was edited, when the text is left wrong, or when the editor fails', async () => {
    const { revision } = await json(people.owner.run(['group', 'create', 'web', '--in', 'tcp 80', '-o', 'json']));
    expect((await people.owner.run(['group', 'edit', 'web'], { env: { EDITOR: 'true' } })).stderr).toContain(
      'Nothing was changed',
    );
    const failed = await people.owner.run(['group', 'edit', 'web'], { env: { EDITOR: 'false' } });
    expect(failed).toMatchObject({ code: 1 });
    const wrong = await people.owner.run(['group', 'edit', 'web'], {
      env: await editor(`echo 'inbound: [tcp x]' > "$1"`, 'true'),
    });
    expect(wrong.code).toBe(2);
    const kept = /saved in (\S+)/.exec(wrong.stderr)?.[1] ?? '';
    expect(await readFile(kept, 'utf8')).toContain('tcp x');
    expect((await json(people.owner.run(['group', 'show', 'web', '-o', 'json']))).revision).toBe(revision);
  });

  it('does not overwrite what somebody else wrote in the meantime: code 5, and the text is kept', async () => {
    const { id } = await json(people.owner.run(['group', 'create', 'web', '--in', 'tcp 80', '-o', 'json']));
    const other = `curl -sf -X PATCH -H 'authorization: Bearer ${people.place.owner.token}' -H 'content-type: application/json' -d '{"group_description":"other"}' ${people.server.url}${people.place.base}/security_groups/${id} >/dev/null`;
    const env = await editor(`${other} && sed -i 's/tcp 80/tcp 82/' "$1"`);
    const outcome = await people.owner.run(['group', 'edit', 'web'], { env });
    expect(outcome.code).toBe(5);
    expect(outcome.stderr).toMatch(/someone else changed it/);
    expect(outcome.stderr).toMatch(/saved in \S+/);
    const group = await json(people.owner.run(['group', 'show', 'web', '-o', 'json']));
    expect(group).toMatchObject({ group_description: 'other', inbound_rules: [{ from_port: 80 }] });
  });

  it('takes options, a file or stdin instead of an editor', async () => {
    await done(people.owner.run(['group', 'create', 'web']));
    await done(people.owner.run(['group', 'edit', 'web', '--name', 'www', '--description', 'x']));
    const file = await people.owner.file(
      'rules.yaml',
      'inbound:\n  - tcp 443 from 10.0.0.0/8\noutbound_rules:\n  - {ip_protocol: udp, from_port: 53, to_port: 53}\n',
    );
    await done(people.owner.run(['group', 'edit', 'www', '-f', file]));
    const group = await json(people.owner.run(['group', 'show', 'www', '-o', 'json']));
    expect(group).toMatchObject({
      group_description: 'x',
      inbound_rules: [{ to_port: 443 }],
      outbound_rules: [{ to_port: 53 }],
    });
    const record = JSON.stringify({ ...group, inbound_rules: [] });
    await done(people.owner.run(['group', 'edit', 'www', '-f', '-'], { input: record }));
    expect(await json(people.owner.run(['group', 'show', 'www', '-o', 'json']))).not.toHaveProperty('inbound_rules');
    expect(await people.owner.run(['group', 'edit', 'www', '-f', '-'], { input: 'inbound: [tcp 0-1' })).toMatchObject({
      code: 2,
    });
    expect(await people.owner.run(['group', 'edit', 'www', '-f', '/nowhere'])).toMatchObject({ code: 2 });
    const wrong = await people.owner.run(['group', 'edit', 'www', '-f', '-'], {
      input: 'inbound: [{ip_protocol: tcp, from_port: 1}]\ncolour: red',
    });
    expect(wrong.code).toBe(2);
    expect(wrong.stderr).toMatch(/stdin:1: A rule needs to_port/);
    expect(wrong.stderr).toMatch(/stdin:2: .*colour/);
  });
});

describe('device', () => {
  it('is registered, listed, shown, edited and deleted, by any of its names', async () => {
    const made = await json(
      people.owner.run([
        'device',
        'create',
        'edge-1',
        '--public-key',
        'pk-1',
        '--tunnel-ip',
        '100.64.0.7',
        '--child-prefix',
        '10.9.0.0/24',
        '--relay',
        'yes',
        '-o',
        'json',
      ]),
    );
    expect(made).toMatchObject({
      hostname: 'edge-1',
      tunnel_ip: '100.64.0.7',
      relay: true,
      child_prefix: ['10.9.0.0/24'],
    });
    expect(made.device_token).toMatch(/^rf_device_/);
    for (const name of ['edge-1', 'pk-1', '100.64.0.7', made.id.toUpperCase()]) {
      expect(await done(people.owner.run(['device', 'show', name, '-q']))).toBe(`${made.id}\n`);
    }
    expect(await done(people.owner.run(['device', 'show', 'edge-1']))).not.toContain('rf_device_');
    await done(
      people.owner.run([
        'device',
        'edit',
        'edge-1',
        '--hostname',
        'edge-01',
        '--child-prefix',
        'none',
        '--relay',
        'no',
      ]),
    );
    const edited = await json(people.owner.run(['device', 'show', 'edge-01', '-o', 'json']));
    expect(edited).toMatchObject({ child_prefix: null, relay: false, tunnel_ip: '100.64.0.7' });
    expect(await people.owner.run(['device', 'edit', 'edge-01'])).toMatchObject({ code: 2 });
    expect(await people.owner.run(['device', 'create', 'x', '--public-key', 'pk-1'])).toMatchObject({ code: 5 });
    expect(await people.owner.run(['device', 'create', 'x'])).toMatchObject({ code: 2 });
    expect(await people.member.run(['device', 'delete', 'edge-01', '-y'])).toMatchObject({ code: 4 });
    await done(people.owner.run(['device', 'delete', 'edge-01', '-y']));
    expect(await done(people.owner.run(['device', 'list', '-q']))).toBe('');
    expect((await people.owner.run(['device', 'list'])).stderr).toContain('ringfence key create');
  });

  it('for another member is registered by the owner', async () => {
    const made = await json(
      people.owner.run([
        'device',
        'create',
        'm-1',
        '--public-key',
        'm',
        '--user',
        people.place.member.username,
        '-o',
        'json',
      ]),
    );
    expect(made.user_id).toBe(people.place.member.id);
  });

  it('has groups set, added and removed by name; with none the default group applies', async () => {
    for (const name of ['a', 'b', 'c']) await done(people.owner.run(['group', 'create', name]));
    await done(people.owner.run(['device', 'create', 'edge-1', '--public-key', 'k', '-q']));
    expect(await done(people.owner.run(['device', 'groups', 'set', 'edge-1', 'a', 'b']))).toContain('edge-1: a, b.');
    expect(await done(people.owner.run(['device', 'groups', 'add', 'edge-1', 'b,c']))).toContain('edge-1: a, b, c.');
    expect((await people.owner.run(['device', 'groups', 'add', 'edge-1', 'c'])).stderr).toContain('Nothing to change');
    expect(await done(people.owner.run(['device', 'groups', 'remove', 'edge-1', 'a', 'c']))).toContain('edge-1: b.');
    expect(await done(people.owner.run(['device', 'groups', 'set', 'edge-1']))).toContain('(default).');
    expect(await people.owner.run(['device', 'groups', 'add', 'edge-1', 'default'])).toMatchObject({ code: 2 });
    expect(await people.owner.run(['device', 'groups', 'add', 'edge-1', 'nope'])).toMatchObject({ code: 3 });
  });

  it('has rules with descriptions: shown, kept in policy files and history, changed and never lost on the way', async () => {
    await done(people.owner.run(['group', 'create', 'ops', '--in', 'tcp 80,443 # web', '--in', 'tcp 25']));
    const allow = ['group', 'allow', 'ops', 'in', 'tcp', '22', 'from', '10.0.0.0/8'];
    await done(people.owner.run([...allow, '--description', 'on call']));
    expect(await done(people.owner.run(['group', 'show', 'ops']))).toMatch(/tcp 22 from 10.0.0.0\/8 # on call/);
    expect((await people.owner.run([...allow])).stderr).toContain('already has these rules');
    await done(people.owner.run([...allow, '--for', '2h']));
    expect(await done(people.owner.run(['group', 'show', 'ops']))).toMatch(/tcp 22 .*\(expires in .*\) # on call/);
    const file = await done(people.owner.run(['export']));
    expect(file).toMatch(/"tcp 80 from any # web"/);
    expect(await done(people.owner.run(['diff', '-f', '-'], { input: file }))).toContain('No changes');
    const edited = file.replaceAll('# web', '# the site');
    const planned = await done(people.owner.run(['diff', '-f', '-'], { input: edited }));
    expect(planned).toContain('- in  tcp 80 from any # web');
    expect(planned).toContain('+ in  tcp 80 from any # the site');
    await done(people.owner.run(['apply', '-f', '-', '--yes'], { input: edited }));
    expect(await done(people.owner.run(['group', 'show', 'ops']))).toContain('tcp 443 from any # the site');
    expect(await done(people.owner.run(['audit']))).toContain('described tcp 80 from anywhere');
    await done(people.owner.run(['group', 'revoke', 'ops', 'in', 'tcp 80 # whatever']));
    expect(await done(people.owner.run(['group', 'show', 'ops']))).not.toContain('tcp 80');
  });

  it('has rules that live for a while: shown, listed, written to a file and read again, prolonged and revoked', async () => {
    await done(people.owner.run(['group', 'create', 'guests', '--in', 'tcp 80']));
    const allow = ['group', 'allow', 'guests', 'in', 'tcp', '22', 'from', '10.0.0.0/8'];
    await done(people.owner.run([...allow, '--for', '2h']));
    expect(await done(people.owner.run(['group', 'show', 'guests']))).toMatch(/tcp 22 from 10.0.0.0\/8 \(expires in/);
    expect(await done(people.owner.run(['group', 'list', '--expiring']))).toMatch(/guests +in +tcp 22 .*expires in/);
    const [row] = await json(people.owner.run(['group', 'list', '--expiring', '-o', 'json']));
    expect(Date.parse(row.expires_at) - Date.now()).toBeGreaterThan(7_000_000);
    const file = await done(people.owner.run(['export']));
    expect(file).toContain(`tcp 22 from 10.0.0.0/8 until ${row.expires_at}`);
    await done(people.owner.run([...allow, '--for', '2d']));
    const prolonged = await json(people.owner.run(['group', 'list', '--expiring', '-o', 'json']));
    expect(prolonged).toHaveLength(1);
    expect(Date.parse(prolonged[0].expires_at)).toBeGreaterThan(Date.parse(row.expires_at));
    expect(await people.owner.run([...allow, '--for', 'ever'])).toMatchObject({ code: 2 });
    await done(people.owner.run(['group', 'revoke', 'guests', 'in', 'tcp', '22', 'from', '10.0.0.0/8']));
    expect(await json(people.owner.run(['group', 'list', '--expiring', '-o', 'json']))).toEqual([]);
  });

  it('tells what its agent reported', async () => {
    const made = await json(people.owner.run(['device', 'create', 'edge-1', '--public-key', 'k', '-o', 'json']));
    const agent = people.server.nobody.as(made.device_token);
    await agent.expect(200, 'PUT', `${people.place.base}/devices/${made.id}/status`, {
      state: 'failed',
      revision: 4,
      detail: 'no nft',
    });
    expect(await done(people.owner.run(['device', 'status']))).toMatch(/edge-1 +failed +no +.+ +4 +no nft\n/);
  });
});
