/** Proves policy as code, the live view, rulesets and explanations, on a real server. */
import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeEach, describe, expect, it } from 'vitest';
import { done, json, usePeople } from './people.fixture.ts';

const people = usePeople();

const head = async (): Promise<number> => (await people.place.owner.api.expect(200, 'GET', people.place.base)).revision;
const device = (hostname: string, more: object = {}) =>
  people.place.owner.api.expect(201, 'POST', `${people.place.base}/devices`, {
    public_key: hostname,
    hostname,
    ...more,
  });

const policy = `groups:
  - name: web
    description: front
    inbound:
      - tcp 80,443
      - icmp
    outbound:
      - udp 53 to 10.0.0.53
  - name: ssh
    inbound: [tcp 22 from 10.0.0.0/8]
---
devices:
  - device: edge-1
    groups: [web, ssh]
`;

describe('apply', () => {
  it('makes what a file says, and the second time nothing', async () => {
    await device('edge-1');
    const file = await people.owner.file('policy.yaml', policy);
    const before = await head();
    const dry = await done(people.owner.run(['apply', '-f', file, '--dry-run']));
    expect(dry).toContain(
      '+ group web\n    + in  tcp 80 from any\n    + in  tcp 443 from any\n    + in  icmp from any\n    + out udp 53 to 10.0.0.53\n',
    );
    expect(dry).toContain('~ device edge-1\n    + group web\n    + group ssh\n');
    expect(dry).toContain('2 to be created, 1 to be changed. 1 device admits less. Nothing was written.\n');
    expect(await head()).toBe(before);

    expect(await done(people.owner.run(['apply', '--yes', '-f', file]))).toContain('2 created, 1 changed.\n');
    const { security_groups } = await json(people.owner.run(['device', 'show', 'edge-1', '-o', 'json']));
    expect(security_groups).toHaveLength(2);
    const after = await head();
    expect(await done(people.owner.run(['apply', '--yes', '-f', file]))).toBe(
      'No changes: everything matches the files.\n',
    );
    expect(await done(people.owner.run(['apply', '--yes', '-f', file, '--prune']))).toBe(
      'No changes: everything matches the files.\n',
    );
    expect(await head()).toBe(after);
  });

  it('asks a person before it writes, and shows what it is about to do', async () => {
    const file = await people.owner.file('policy.yaml', 'groups: [{name: web, inbound: [tcp 80]}, {name: ssh}]');
    const before = await head();
    const declined = await people.owner.inTerminal(['apply', file], { typed: [[/\[y\/N\]/, 'n\r']] });
    expect(declined.code).toBe(1);
    expect(declined.stdout).toMatch(
      /\+ group web[^]*\+ in {2}tcp 80 from any[^]*2 to be created\.[^]*Apply these 2 changes\?/,
    );
    expect(declined.stdout).toContain('nothing was changed');
    expect(await head()).toBe(before);
    const agreed = await people.owner.inTerminal(['apply', file], { typed: [[/\[y\/N\]/, 'y\r']] });
    expect(agreed).toMatchObject({ code: 0 });
    expect(agreed.stdout).toMatch(/Apply these 2 changes\?[^]*2 created\.\nTo undo it: ringfence undo \S+\n$/);
    expect(agreed.stdout.match(/\+ group web/g)).toHaveLength(1);
    // Nothing to write, nothing to ask.
    expect((await people.owner.inTerminal(['apply', file])).stdout).toContain('No changes');
  });

  it('writes nothing where nobody can answer, unless --yes was said', async () => {
    const file = await people.owner.file('policy.yaml', 'groups: [{name: web}]');
    const before = await head();
    const refused = await people.owner.run(['apply', '-f', file]);
    expect(refused).toMatchObject({ code: 2, stdout: '' });
    expect(refused.stderr).toMatch(
      /^ringfence: Apply this change\? There is no terminal to answer on\. To continue, use --yes\.\n$/,
    );
    expect(await head()).toBe(before);
    expect(await people.owner.run(['apply', file], { env: { RINGFENCE_YES: '1' } })).toMatchObject({ code: 0 });
    // A script that changes nothing needs no answer.
    expect(await people.owner.run(['apply', file])).toMatchObject({ code: 0, stderr: '' });
  });

  it('diff shows the same as a dry run, and tells scripts by its exit code whether something would change', async () => {
    const file = await people.owner.file('policy.yaml', 'groups: [{name: web, inbound: [tcp 80]}]');
    const before = await head();
    const dry = await done(people.owner.run(['apply', file, '--dry-run']));
    expect(await done(people.owner.run(['diff', '-f', file]))).toBe(dry);
    const code = async (...args: readonly string[]): Promise<number> =>
      (await people.owner.run(['diff', '--detailed-exitcode', ...args])).code;
    expect(await code(file)).toBe(2);
    expect(await head()).toBe(before);
    expect([await code('/nowhere.yaml'), await code(), await code('--server', 'http://127.0.0.1:1', file)]).toEqual([
      1, 1, 1,
    ]);
    await done(people.owner.run(['apply', file, '--yes']));
    expect(await code(file)).toBe(0);
    expect((await people.owner.run(['diff', '/nowhere.yaml'])).code).toBe(2);
  });

  it('shows what changes, rule by rule, and does not mind their order', async () => {
    await done(
      people.owner.run(['group', 'create', 'web', '--in', 'tcp 80', '--in', 'tcp 443', '--description', 'old']),
    );
    const same = 'groups: [{name: web, inbound: [tcp 443, tcp 80]}]';
    expect(await done(people.owner.run(['apply', '--yes', '-f', '-'], { input: same }))).toContain('No changes');
    const other = 'groups: [{name: web, description: new, inbound: [tcp 443, tcp 8080 from 10.0.0.0/8]}]';
    expect(await done(people.owner.run(['apply', '-f', '-', '--dry-run'], { input: other }))).toBe(
      '~ group web\n    ~ description "old" → "new"\n    - in  tcp 80 from any\n    + in  tcp 8080 from 10.0.0.0/8\n1 to be changed. Nothing was written.\n',
    );
    const steps = await json(people.owner.run(['apply', '--yes', '-f', '-', '-o', 'json'], { input: other }));
    expect(steps).toMatchObject([{ action: 'update', kind: 'group', name: 'web' }]);
    const group = await json(people.owner.run(['group', 'show', 'web', '-o', 'json']));
    expect(group).toMatchObject({ group_description: 'new', inbound_rules: [{ to_port: 443 }, { to_port: 8080 }] });
  });

  it('prunes only when asked, only the owners that the files are about, and asks first', async () => {
    for (const name of ['web', 'old']) await done(people.owner.run(['group', 'create', name]));
    await done(people.owner.run(['group', 'create', 'own', '--mine']));
    const input = 'groups: [{name: web}]';
    await done(people.owner.run(['apply', '--yes', '-f', '-'], { input }));
    expect(await done(people.owner.run(['group', 'list']))).toContain('old');
    const compared = await people.owner.run(['diff', '-f', '-'], { input });
    expect(compared.stderr).toMatch(
      /^\d groups? (is|are) not in these files and stays?: .*\. With --prune, apply deletes (it|them)\.$/m,
    );
    expect((await people.owner.run(['diff', '-f', '-', '--prune'], { input })).stderr).not.toContain(
      'not in these files',
    );
    const wrong = await people.owner.run(['diff', '-f', '-'], {
      input: 'groups:\n  - name: 7\n    inbound: nothing\n',
    });
    expect(wrong.code).toBe(2);
    expect(wrong.stderr).toContain('stdin:2: name must be a string, got 7.');
    expect(wrong.stderr).not.toMatch(/group_name|inbound_rules/);
    const refused = await people.owner.run(['apply', '-f', '-', '--prune'], { input });
    expect(refused).toMatchObject({ code: 2 });
    expect(refused.stderr).toContain('Apply this change? Groups to delete: old. There is no terminal to answer on');
    expect(await done(people.owner.run(['apply', '-f', '-', '--prune', '--yes'], { input }))).toBe(
      '- group old\n1 deleted.\n',
    );
    const names = (await json(people.owner.run(['group', 'list', '-o', 'json']))).map(
      ({ group_name }: { group_name: string }) => group_name,
    );
    expect(names.toSorted()).toEqual(['default', 'own', 'web']);
  });

  it('keeps what was granted for a while, with and without --prune, and says so', async () => {
    const rules = async (name: string): Promise<unknown> => {
      const { inbound_rules = [] } = await json(people.owner.run(['group', 'show', name, '-o', 'json']));
      return inbound_rules.map((rule: { from_port: number; expires_at?: string }) => [
        rule.from_port,
        rule.expires_at !== undefined,
      ]);
    };
    await done(people.owner.run(['group', 'create', 'web', '--in', 'tcp 80']));
    await done(people.owner.run(['group', 'create', 'old', '--in', 'tcp 81']));
    for (const name of ['web', 'old'])
      await done(people.owner.run(['group', 'allow', name, 'in', 'tcp', '22', 'from', '10.0.0.7', '--for', '2h']));
    const input = 'groups: [{name: web, inbound: [tcp 443]}]';
    const applied = await people.owner.run(['apply', '-f', '-', '--yes'], { input });
    expect(applied.stderr).toMatch(
      /^This rule is not in the files and stays until it expires:\n    web: in  tcp 22 from 10\.0\.0\.7 \(expires in .*\)\n/m,
    );
    expect(await rules('web')).toEqual([
      [443, false],
      [22, true],
    ]);
    const pruned = await people.owner.run(['apply', '-f', '-', '--yes', '--prune'], { input });
    expect(pruned.stderr).toMatch(
      /^These 2 rules are not in the files .*\n    web: .*\n    old: in  tcp 22 from .* \(expires/m,
    );
    expect(pruned.stdout).toBe('~ group old\n    - in  tcp 81 from any\n1 changed.\n');
    expect(await rules('old')).toEqual([[22, true]]);
    expect((await people.owner.run(['apply', '-f', '-', '--yes', '--prune'], { input })).stdout).toContain(
      'No changes',
    );
    // The file decides about a rule that it names, whatever its end is.
    const named = 'groups: [{name: web, inbound: [tcp 443, tcp 22 from 10.0.0.7]}]';
    await done(people.owner.run(['apply', '-f', '-', '--yes'], { input: named }));
    expect(await rules('web')).toEqual([
      [443, false],
      [22, false],
    ]);
  });

  it('sets the default group and groups of my own', async () => {
    const input = 'groups:\n  - {default: true, inbound: [icmp]}\n  - {name: mine, owner: me, inbound: [tcp 1]}\n';
    await done(people.owner.run(['apply', '--yes', '-f', '-'], { input }));
    const groups = await json(people.owner.run(['group', 'list', '-o', 'json']));
    expect(groups).toMatchObject([
      { is_default: true, group_name: 'default', inbound_rules: [{ ip_protocol: 'icmp' }] },
      { group_name: 'mine', user_id: people.place.owner.id },
    ]);
    expect(
      await people.member.run(['apply', '--yes', '-f', '-'], { input: 'groups: [{default: true}]' }),
    ).toMatchObject({
      code: 4,
    });
    await done(people.member.run(['apply', '--yes', '-f', '-'], { input: 'groups: [{name: theirs, owner: me}]' }));
  });

  it('reads folders, several documents, and records as `group show` prints them', async () => {
    const folder = join(people.owner.home, 'policy');
    await mkdir(folder);
    await writeFile(join(folder, 'a.yaml'), 'groups: [{name: a, inbound: [tcp 1]}]\n---\ngroups: [{name: b}]\n');
    await writeFile(join(folder, 'c.json'), JSON.stringify({ groups: [{ name: 'c' }] }));
    await writeFile(join(folder, 'README.md'), 'not this');
    expect(await done(people.owner.run(['apply', '--yes', '-f', folder]))).toContain('3 created.');
    const record = await done(people.owner.run(['group', 'show', 'a', '-o', 'yaml']));
    expect(await done(people.owner.run(['apply', '--yes', '-f', '-'], { input: record }))).toContain('No changes');
    const changed = record.replace('from_port: 1', 'from_port: 1').replace('to_port: 1', 'to_port: 9');
    expect(await done(people.owner.run(['apply', '--yes', '-f', '-'], { input: changed }))).toContain(
      '+ in  tcp 1-9 from any',
    );
  });

  it('tells everything that is wrong at once, with its place, and changes nothing', async () => {
    const before = await head();
    const input = `groups:
  - name: a
    inbound: [tcp 99999, {ip_protocol: tcp}]
  - {name: a}
  - {name: b, owner: you, colour: red}
  - {name: c, inbound: [tpc 1]}
devices:
  - {device: 7}
  - {device: edge-1, groups: web}
things: []
`;
    const outcome = await people.owner.run(['apply', '--yes', '-f', '-'], { input });
    expect(outcome).toMatchObject({ code: 2, stdout: '' });
    for (const part of [
      /^ {2}stdin:3: `tcp 99999`: a port must be between/m,
      /^ {2}stdin:3: A rule needs from_port/m,
      /^ {2}stdin:4: organization group a is already in stdin:2/m,
      /^ {2}stdin:5: `owner` must be/m,
      /^ {2}stdin:5: .*colour/m,
      /^ {2}stdin:6: `tpc 1`: `tpc` is not a protocol/m,
      /^ {2}stdin:8: `device` must be/m,
      /^ {2}stdin:9: `groups` must be a list/m,
      /^ {2}stdin:10: unknown field `things`/m,
    ]) {
      expect(outcome.stderr).toMatch(part);
    }
    expect(await head()).toBe(before);
    expect(await people.owner.run(['apply'])).toMatchObject({ code: 2 });
    expect(await people.owner.run(['apply', '--yes', '-f', '-'], { input: '' })).toMatchObject({ code: 2 });
    expect(
      await people.owner.run(['apply', '--yes', '-f', '-'], { input: 'devices: [{device: ghost}]' }),
    ).toMatchObject({
      code: 3,
    });
    const broken = await people.owner.file('broken.yaml', 'groups:\n  - name: x\n    inbound: [tcp 1\n');
    const unknown = await people.owner.file(
      'unknown.yaml',
      'groups: []\ndevices:\n  - device: ghost\n  - device: spectre\n    groups: []\n',
    );
    const several = await people.owner.run(['apply', '--yes', broken, unknown]);
    expect(several).toMatchObject({ code: 2, stdout: '' });
    expect(several.stderr).toMatch(/broken\.yaml:\d: not valid YAML: /);
    const ghosts = await people.owner.run(['apply', '--yes', unknown]);
    expect(ghosts.code).toBe(3);
    expect(ghosts.stderr).toMatch(/unknown\.yaml:3: no device is called ghost/);
    expect(ghosts.stderr).toMatch(/unknown\.yaml:4: no device is called spectre/);
    const bomb = `a: &a [x,x]\n${'b: &b [*a,*a]\n'.repeat(2)}`;
    expect(await people.owner.run(['apply', '--yes', '-f', '-'], { input: bomb })).toMatchObject({ code: 2 });
  });

  it('a refusal of the server names the file, the line and the group', async () => {
    await done(people.owner.run(['group', 'create', 'a', '--in', 'tcp 1']));
    const text = 'groups:\n  - {name: a, inbound: [tcp 1]}\n  - {name: b}\n  - {name: c}\n';
    const file = await people.member.file('policy.yaml', text);
    const refused = await people.member.run(['apply', '--yes', file]);
    expect(refused).toMatchObject({ code: 4, stdout: '' });
    expect(refused.stderr).toMatch(/policy\.yaml:3: group b: You do not have permission/);
    expect(refused.stderr).not.toContain('/security_groups/');
    expect((await people.member.run(['diff', file])).stderr).not.toContain('/security_groups/');
  });

  it('rolls back from an exported file to exactly what was', async () => {
    await device('edge-1');
    await done(people.owner.run(['apply', '--yes', '-f', await people.owner.file('policy.yaml', policy)]));
    const saved = await done(people.owner.run(['export']));
    const backup = await people.owner.file('backup.yaml', saved);
    expect(await done(people.owner.run(['apply', '--yes', '-f', backup, '--prune']))).toContain('No changes');
    await done(people.owner.run(['group', 'allow', 'web', 'in', 'tcp', '8080']));
    await done(people.owner.run(['group', 'revoke', 'default', 'in', 'all']));
    await done(people.owner.run(['device', 'groups', 'set', 'edge-1', 'web']));
    await done(people.owner.run(['group', 'delete', 'ssh', '--yes']));
    await done(people.owner.run(['group', 'create', 'extra']));
    await done(people.owner.run(['apply', '-f', backup, '--prune', '--yes']));
    expect(await done(people.owner.run(['export']))).toBe(saved);
    expect(await json(people.owner.run(['export', '-o', 'json']))).toHaveProperty('groups');
  });
});

describe('watch', () => {
  it('prints what is there, then every change as it happens, and ends in order on Ctrl-C', async () => {
    await device('edge-1');
    const watching = people.owner.run(['watch'], { until: { pattern: /removed in/, signal: 'SIGINT' } });
    // The server notifies the streams; nothing here waits for a clock.
    await people.place.owner.api.expect(201, 'POST', `${people.place.base}/security_groups`, {
      group_name: 'web',
      inbound_rules: [{ ip_protocol: 'tcp', from_port: 443, to_port: 443 }],
    });
    const groups = await people.place.owner.api.expect(200, 'GET', `${people.place.base}/security_groups`);
    const { id } = groups.find(({ group_name }: { group_name: string }) => group_name === 'web');
    const ended = new AbortController();
    void watching.then(() => ended.abort());
    for (let port = 1; !ended.signal.aborted && port < 2_000; port += 1) {
      const inbound_rules = [{ ip_protocol: 'tcp', from_port: port, to_port: port }];
      await people.place.owner.api.expect(200, 'PATCH', `${people.place.base}/security_groups/${id}`, {
        inbound_rules,
      });
      await new Promise((resolve) => {
        setTimeout(resolve, 100);
      });
    }
    const { code, stdout, stderr } = await watching;
    expect(code).toBe(0);
    expect(stdout).toMatch(/\d\d:\d\d:\d\d \+ device edge-1 [0-9a-f-]{36} {2}revision \d+\n/);
    expect(stdout).toMatch(/\+ group web|~ group web/);
    expect(stdout).toMatch(
      /~ group web [0-9a-f-]{36} {2}revision \d+, removed in tcp \d+ from any, added in tcp \d+ from any\n/,
    );
    expect(stderr).toMatch(/Up to date at revision \d+: 1 device, \d groups/);
  });

  it('prints lines of JSON in the form of the stream for programs', async () => {
    const { id } = await device('edge-1');
    const outcome = await people.owner.run(['watch', 'devices', '-o', 'json'], {
      until: { pattern: /edge-1.*\n/, signal: 'SIGTERM' },
    });
    expect(outcome).toMatchObject({ code: 0, stderr: '' });
    expect(
      outcome.stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line)),
    ).toMatchObject([{ type: 'change', kind: 'device', value: { id, hostname: 'edge-1' } }]);
  });

  it('refuses a kind that cannot be watched, and a stranger', async () => {
    expect(await people.owner.run(['watch', 'gruops'])).toMatchObject({ code: 2 });
    expect(await people.owner.run(['watch'], { env: { RINGFENCE_TOKEN: people.place.stranger.token } })).toMatchObject({
      code: 3,
    });
    expect(await people.owner.run(['watch'], { env: { RINGFENCE_TOKEN: 'rf_user_x' } })).toMatchObject({ code: 4 });
  });
});

describe('nft', () => {
  it('prints a ruleset that nft itself accepts, for a device and for a group', async () => {
    await done(people.owner.run(['group', 'create', 'web', '--in', 'tcp 80,443 from 10.0.0.0/8', '--out', 'udp 53']));
    await device('edge-1');
    await done(people.owner.run(['device', 'groups', 'set', 'edge-1', 'web']));
    const shown = await people.owner.run(['nft', 'edge-1', '--interface', 'tun7']);
    expect(shown.code).toBe(0);
    expect(shown.stderr).toContain('device edge-1 on interface tun7, from web');
    expect(shown.stdout).toContain('service-inbound');
    expect(shown.stdout).toContain('"tun7"');
    expect(await done(people.owner.run(['nft', 'web', '--interface', 'tun7']))).toBe(shown.stdout);
    const file = await people.owner.file('rules.nft', shown.stdout);
    await expect(promisify(execFile)('nft', ['-c', '-f', file])).resolves.toMatchObject({ stderr: '' });
    expect(await done(people.owner.run(['nft', 'default']))).toContain('meta nfproto ipv4');
    expect(await people.owner.run(['nft', 'nothing'])).toMatchObject({ code: 3 });
    expect(await people.owner.run(['nft', 'web', '--interface', 'far too long a name'])).toMatchObject({ code: 2 });
    await device('web');
    expect(await people.owner.run(['nft', 'web'])).toMatchObject({ code: 2 });
  });
});

describe('explain', () => {
  beforeEach(async () => {
    await device('app', { tunnel_ip: '100.64.0.1' });
    await device('db', { tunnel_ip: '100.64.0.2' });
    await done(people.owner.run(['group', 'create', 'db', '--in', 'tcp 5432 from 100.64.0.0/10']));
    await done(people.owner.run(['group', 'create', 'app', '--out', 'tcp 5432 to 100.64.0.2']));
    await done(people.owner.run(['device', 'groups', 'set', 'db', 'db']));
  });
  const ask = (...args: readonly string[]) => people.owner.run(['explain', ...args]);

  it('names the rule that admits, on each side', async () => {
    const outcome = await done(ask('--from', 'app', '--to', 'db', '--port', '5432', '--exit-code'));
    expect(outcome).toBe(
      'allowed by policy, but app has never reported, and db has never reported: a new tcp 5432 connection from app (100.64.0.1) to db (100.64.0.2)\n' +
        '  out of app: allowed, no outbound rules, so all traffic may leave (default)\n' +
        '  into db: allowed, rule `tcp 5432 from 100.64.0.0/10` of group db\n',
    );
  });

  it('names the side that refuses, and the rules that there are', async () => {
    const refused = await ask('--from', 'app', '--to', '100.64.0.2', '--port', '22', '--exit-code');
    expect(refused.code).toBe(1);
    expect(refused.stdout).toMatch(
      /^refused by policy, but .*\n.*out of app: allowed.*\n.*into db: refused, no inbound rule of db admits it\n +db: tcp 5432 from/,
    );
    await done(people.owner.run(['device', 'groups', 'set', 'app', 'app']));
    const out = await json(ask('--from', 'app', '--to', 'db', '--port', '80', '-o', 'json'));
    expect(out).toMatchObject({
      verdict: 'refused',
      sides: [
        { direction: 'outbound', verdict: 'refused', reason: 'no-rule' },
        { direction: 'inbound', verdict: 'refused' },
      ],
    });
    expect(await done(ask('--from', 'app', '--to', 'db', '--port', '5432', '-q'))).toBe('allowed\n');
    expect(await done(ask('--from', 'app', '--to', 'db', '--port', 'postgres', '-q'))).toBe('allowed\n');
    expect(await ask('--from', 'app', '--to', 'db', '--proto', 'udp', '--port', 'postgres')).toMatchObject({ code: 2 });
  });

  it('takes the ends and the port in a row, and tells who may connect', async () => {
    expect(await done(ask('app', 'db', '5432', '-q'))).toBe('allowed\n');
    expect(await done(ask('app', 'db', '22', '-q'))).toBe('refused\n');
    expect(await done(ask('app', 'db', 'ping', '-q'))).toBe(await done(ask('app', 'db', '--proto', 'icmp', '-q')));
    expect(await done(ask('--who', 'db', 'ping'))).toContain('ping connection to db');
    expect((await ask('--who', 'db')).stderr).toContain('as in `app-1 db-1 ssh` or `--who db-1 ssh`');
    const who = await done(ask('--who', 'db', '5432'));
    expect(who).toMatch(
      /^MAY CONNECT +BY +IN FORCE\napp +rule `tcp 5432 from .*` of group db +no: app has never reported/,
    );
    expect(await json(ask('--who', 'db', '22', '-o', 'json'))).toEqual([]);
    expect(await done(ask('--who', 'db', '22'))).toBe('No device may open a tcp 22 connection to db.\n');
  });

  it('tells what a device can reach, on which ports, and that it can reach nothing', async () => {
    const reach = await done(ask('--from', 'app'));
    expect(reach).toMatch(/^MAY REACH +ON +BY +IN FORCE\ndb +tcp 5432 +rule `tcp 5432 from .*` of group db +no: /);
    expect(reach.trimEnd().split('\n')).toHaveLength(2);
    expect(await json(ask('--from', 'app', '--port', '5432', '-o', 'json'))).toMatchObject([
      { hostname: 'db', on: 'tcp 5432', in_force: false },
    ]);
    const none = 'app may open no tcp 22 connection to another device of the organization.\n';
    expect(await done(ask('--from', 'app', '--port', '22'))).toBe(none);
  });

  it('judges every address of a device, and names those between which a connection is allowed or refused', async () => {
    await device('one', { tunnel_ip: '100.64.0.11', addresses: ['fd00::11'] });
    await device('two', { tunnel_ip: '100.64.0.12', addresses: ['100.64.1.12', 'fd00::12'] });
    await device('six', { addresses: ['fd00::16'] });
    await done(people.owner.run(['group', 'create', 'two', '--in', 'ssh from fd00::/8', '--in', 'ipv4 8000-8999']));
    await done(people.owner.run(['device', 'groups', 'set', 'two', 'two']));
    expect(await json(ask('--who', 'two', 'ssh', '-o', 'json'))).toMatchObject([
      { hostname: 'one', from_address: 'fd00::11', to_address: 'fd00::12' },
      { hostname: 'six', from_address: 'fd00::16', to_address: 'fd00::12' },
    ]);
    expect(await done(ask('--who', 'two', 'ssh'))).toMatch(/^one .* of group two, between fd00::11 and fd00::12 /m);
    expect(await json(ask('--from', 'one', '--port', 'ssh', '-o', 'json'))).toMatchObject([
      { hostname: 'app', to_address: '100.64.0.1' },
      { hostname: 'two', to_address: 'fd00::12' },
      { hostname: 'six', to_address: 'fd00::16' },
    ]);
    const reach: readonly { hostname: string; on: string }[] = await json(ask('--from', 'one', '-o', 'json'));
    expect(reach.flatMap(({ hostname, on }) => (hostname === 'two' ? [on] : []))).toEqual([
      'tcp 22',
      'tcp 8000-8999',
      'udp 8000-8999',
    ]);
    const allowed = await done(ask('one', 'two', 'ssh'));
    expect(allowed).toContain('a new tcp ssh connection from one (fd00::11) to two (fd00::12)\n');
    expect(allowed).toContain('It is refused between 100.64.0.11 and 100.64.0.12.\n');
    expect(allowed).toContain('It is refused between 100.64.0.11 and 100.64.1.12.\n');
    expect(await json(ask('one', 'two', 'ssh', '-o', 'json'))).toMatchObject({
      verdict: 'allowed',
      refused_pairs: [{ to_address: '100.64.0.12' }, { to_address: '100.64.1.12' }],
    });
    expect(await done(ask('six', 'two', 'ssh', '-q'))).toBe('allowed\n');
    expect(await done(ask('one', '100.64.0.12', 'ssh', '-q'))).toBe('refused\n');
    expect(await done(ask('one', 'two', '23'))).toMatch(
      /^refused .*\n[^]*Between their other addresses it is refused, too\.\n$/,
    );
  });

  it('judges the one side that is known, and says so', async () => {
    const outcome = await done(ask('--from', '203.0.113.9', '--to', 'db', '--proto', 'udp', '--port', '53'));
    expect(outcome).toMatch(
      /^refused by policy, but db has never reported: a new udp 53 connection from 203\.0\.113\.9 to db/,
    );
    expect(outcome).toContain('The other side was not checked');
    expect(await done(ask('--from', '203.0.113.9', '--to', 'app', '--proto', 'icmp'))).toMatch(/^allowed/);
  });

  it.each([
    [['app', 'db'], /needs a port: .*`app-1 db-1 ssh`/],
    [['app', 'db', 'postgress'], /`postgress` is not a port or a known service \(did you mean `postgres`\?\)/],
    [['--from', 'app', '--to', 'db'], /needs a port: .*--port/],
    [['--from', 'app', '--to', 'db', '--proto', 'icmp', '--port', '1'], /has no ports/],
    [['--from', 'app', '--to', '::1', '--port', '1'], /no traffic is possible between them/],
    [['--from', '1.2.3.4', '--to', '1.2.3.5', '--port', '1'], /neither the source nor the destination is a device/],
    [['--from', '203.0.113.9'], /is not a device of this organization: give a destination/],
    [['app', 'db', '5432', 'x'], /too many/],
    [['app', 'db', '5432', '--port', '1'], /each once/],
    [['--who', 'db', '--from', 'app', '--port', '1'], /--who/],
    [['app'], /the destination/],
    [['--from', 'app', '--to', 'db', '--proto', 'smtp'], /is not a protocol/],
  ])('answers a wrong question with one line and code 2: %j', async (args, message) => {
    const outcome = await ask(...args);
    expect(outcome).toMatchObject({ code: 2, stdout: '' });
    expect(outcome.stderr).toMatch(message);
    expect(outcome.stderr.trim().split('\n')).toHaveLength(1);
  });
});
