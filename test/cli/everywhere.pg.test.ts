/**
 * Proves every client command on a real server twice, in a pipe as a script runs it and in a terminal as a person does; and Ctrl-C anywhere.
 * In a terminal each command has a process of its own; in a pipe it has one in a thorough run only. `npm test` runs in a terminal what is
 * typed to, and a sixth of the others.
 */
import { readdir } from 'node:fs/promises';
import { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { useProgram, useServer } from '../lib/stage.ts';
import { readWebhookHost } from '../../src/server/limits/webhook-hosts.ts';
import { addClientCommands } from '../../src/cli/client-commands.ts';
import { readTree } from '../../src/cli/command-line/read-tree.ts';
import { flatten } from '../../src/cli/command-line/tree.ts';
import type { Json } from '../lib/http.ts';
import { newPerson, type Person } from '../lib/server.ts';
import type { Program, RunOptions } from '../lib/program.ts';
import { isThorough } from '../lib/thorough.ts';
import { newEvidenceFile } from '../lib/evidence.ts';

const stage = useServer(() => ({
  webhookHosts: [readWebhookHost('http://127.0.0.1:9')],
  // Named by invitations, and never asked.
  oidcIssuer: ['https://login.example.org'],
  oidcAudience: ['nothing'],
}));
const installed = useProgram();

interface Row {
  readonly path: string;
  readonly args?: readonly string[];
  /** What both outputs together must show. */
  readonly shows: RegExp;
  /** In a pipe it answers with data, so `-o json` must be JSON. */
  readonly data?: true;
  /** Asks first: a script says --yes, a person types y. */
  readonly asks?: true;
  readonly input?: string;
  /** Goes on until Ctrl-C, once it has shown what it should. */
  readonly endless?: true;
}

/** Replaced by the organization's revision at the moment of the command. */
const headWord = '(head)';
/** Replaced by the newest change set. */
const changeWord = '(change)';
/** Replaced by a pending trial, which is started where there is none. */
const trialWord = '(trial)';
async function pendingTrial(): Promise<string> {
  const { owner, base } = stage.place;
  const [pending] = await owner.api.expect(200, 'GET', `${base}/trials`);
  if (pending !== undefined) return String(pending.id);
  const path = `${base}/security_groups?confirm_within=3600&scope=label:app`;
  return String((await owner.api.expect(201, 'POST', path, { group_name: 'tried' })).trial.id);
}
async function withHead(args: readonly string[]): Promise<readonly string[]> {
  if (args.includes(changeWord)) {
    const [entry] = await stage.place.owner.api.expect(200, 'GET', `${stage.place.base}/audit?limit=1`);
    return args.map((arg) => (arg === changeWord ? String(entry.change_id) : arg));
  }
  if (args.includes(trialWord)) {
    const trial = await pendingTrial();
    return args.map((arg) => (arg === trialWord ? trial : arg));
  }
  if (!args.includes(headWord)) return args;
  const { revision } = await stage.place.owner.api.expect(200, 'GET', stage.place.base);
  return args.map((arg) => (arg === headWord ? String(revision) : arg));
}

/** A member of the organization, to be made an owner and removed. */
async function newGuest(): Promise<Person> {
  const guest = await newPerson(stage.server);
  await stage.place.owner.api.expect(201, 'POST', `${stage.place.base}/members`, { user_id: guest.id });
  return guest;
}

const yaml = (tag: string): string => `groups:\n  - name: from-${tag}\n    inbound: [tcp 80]\n`;

const { file: evidenceFile, key: evidenceKey } = newEvidenceFile();

/** In the order of a life: what one row makes, later ones use. */
const rows = (tag: string, guest: string): readonly Row[] => [
  {
    path: 'login',
    args: [stage.server.url, '--org', stage.place.org],
    input: `${stage.place.owner.token}\n`,
    shows: /Signed in/,
  },
  { path: 'whoami', shows: /owner-/, data: true },
  { path: 'profile list', shows: /default/, data: true },
  { path: 'profile use', args: ['default'], shows: /default/ },
  { path: 'org list', shows: /acme/, data: true },
  { path: 'org create', args: [`org-${tag}`], shows: /org-/, data: true },
  { path: 'org show', args: [`org-${tag}`], shows: /org-/, data: true },
  { path: 'org edit', args: [`org-${tag}`, '--description', 'x'], shows: /org-/, data: true },
  { path: 'org delete', args: [`org-${tag}`], asks: true, shows: /org-/ },
  { path: 'org use', args: [stage.place.org], shows: /acme/ },
  { path: 'user list', shows: /permission|not allowed|administrator/i },
  { path: 'user create', args: [`new-${tag}`], shows: /permission|not allowed|administrator/i },
  { path: 'user delete', args: [`new-${tag}`, '--yes'], shows: /permission|not allowed|administrator/i },
  { path: 'member add', args: [`${tag}@example.org`, '--role', 'owner'], shows: /@example\.o/, data: true },
  { path: 'member invitations', shows: /@example\.o/, data: true },
  { path: 'member uninvite', args: [`${tag}@example.org`], shows: /@example\.o/, data: true },
  { path: 'member list', shows: /owner-/, data: true },
  { path: 'member show', args: [guest], shows: /user-/, data: true },
  { path: 'member role', args: [guest, 'owner'], shows: /user-/, data: true },
  { path: 'member accept', shows: /owner/, data: true },
  { path: 'member remove', args: [guest], asks: true, shows: /user-/ },
  { path: 'group create', args: [`web-${tag}`, '--in', 'tcp 443'], shows: /web-/, data: true },
  { path: 'group list', shows: /web-/, data: true },
  { path: 'group allow', args: [`web-${tag}`, 'in', 'tcp', '22', 'from', '10.0.0.0/8'], shows: /tcp 22/, data: true },
  { path: 'group revoke', args: [`web-${tag}`, 'in', 'tcp', '443'], shows: /tcp 443/, data: true },
  { path: 'group edit', args: [`web-${tag}`, '--description', 'of a test'], shows: /web-/, data: true },
  { path: 'group show', args: [`web-${tag}`], shows: /10\.0\.0\.0\/8/, data: true },
  { path: 'group usage', args: [`web-${tag}`], shows: /unknown/, data: true },
  { path: 'group history', args: [`web-${tag}`], shows: /443/, data: true },
  { path: 'group copy', args: [`web-${tag}`, `copy-${tag}`], shows: /copy-/, data: true },
  { path: 'group rename', args: [`copy-${tag}`, `renamed-${tag}`], shows: /renamed-/, data: true },
  { path: 'group diff', args: [`web-${tag}`], shows: /of a test/, data: true },
  { path: 'group observe', args: [`web-${tag}`], shows: /watch only|observe/, data: true },
  { path: 'group observation', args: [`web-${tag}`], shows: /would/i, data: true },
  { path: 'group enforce', args: [`web-${tag}`], shows: /web-/, data: true },
  {
    path: 'device create',
    args: [`host-${tag}`, '--public-key', tag, '--tunnel-ip', '100.64.0.1'],
    shows: /rf_device_/,
    data: true,
  },
  { path: 'device list', shows: /host-/, data: true },
  { path: 'device edit', args: [`host-${tag}`, '--relay', 'yes'], shows: /host-/, data: true },
  { path: 'device rename', args: [`host-${tag}`, `host-${tag}`], shows: /host-/, data: true },
  { path: 'device groups set', args: [`host-${tag}`, `web-${tag}`], shows: /web-/, data: true },
  { path: 'device groups remove', args: [`host-${tag}`, `web-${tag}`], shows: /host-/, data: true },
  { path: 'device groups add', args: [`host-${tag}`, `web-${tag}`], shows: /web-/, data: true },
  { path: 'device groups list', args: [`host-${tag}`], shows: /list/, data: true },
  { path: 'device label set', args: [`host-${tag}`, 'app', 'old'], shows: /app/, data: true },
  { path: 'device label add', args: [`host-${tag}`, 'prod'], shows: /prod/, data: true },
  { path: 'device label remove', args: [`host-${tag}`, 'old'], shows: /app/, data: true },
  { path: 'label list', shows: /app/, data: true },
  { path: 'label rename', args: ['prod', 'live'], asks: true, shows: /prod/ },
  { path: 'undo', args: [changeWord], asks: true, shows: /Undid/ },
  { path: 'trial list', shows: /No change|\[\]/, data: true },
  { path: 'trial show', args: [trialWord], shows: /label:app|"app"/, data: true },
  { path: 'trial widen', args: [trialWord, '--on', 'all-devices'], shows: /pending/, data: true },
  { path: 'trial revert', args: [trialWord], shows: /taken back|reverted/, data: true },
  { path: 'trial confirm', args: [trialWord], shows: /stays|confirmed/, data: true },
  { path: 'device isolate', args: [`host-${tag}`, '--reason', 'a test'], asks: true, shows: /host-/, data: true },
  { path: 'device release', args: [`host-${tag}`], shows: /host-/, data: true },
  { path: 'device move', args: [`host-${tag}`, '--user', stage.place.member.username], shows: /host-/, data: true },
  { path: 'device show', args: [`host-${tag}`], shows: /100\.64\.0\.1/, data: true },
  { path: 'device restore', args: [`host-${tag}`, headWord, '--yes'], shows: /Nothing to change/ },
  { path: 'device history', args: [`host-${tag}`], shows: /100\.64\.0\.1/, data: true },
  { path: 'device status', shows: /never seen|never_seen/, data: true },
  {
    path: 'test add',
    args: ['kept', '--from', 'label:app', '--to', '192.0.2.1', '--port', '80', '--expect', 'allow'],
    shows: /kept/,
    data: true,
  },
  { path: 'test run', shows: /kept/, data: true },
  { path: 'test list', shows: /kept/, data: true },
  { path: 'test remove', args: ['kept'], asks: true, shows: /kept/ },
  { path: 'flows', args: [`host-${tag}`, '--refused'], shows: /No traffic|\[\]/, data: true },
  { path: 'propose', args: [`host-${tag}`], shows: /nothing to propose|"rules"/, data: true },
  { path: 'status', shows: /in force on|in_force/, data: true },
  { path: 'nft', args: [`host-${tag}`], shows: /table inet service/ },
  {
    path: 'explain',
    args: ['--from', '10.1.2.3', '--to', `host-${tag}`, '--port', '22'],
    shows: /allowed/i,
    data: true,
  },
  { path: 'watch', shows: /host-/, endless: true },
  { path: 'export', shows: /web-/, data: true },
  { path: 'policy fmt', args: ['--check', 'policy.yaml'], shows: /Nothing to format in 1 file|\[\]/, data: true },
  { path: 'policy schema', shows: /urn:ringfence:policy-file/, data: true },
  { path: 'diff', args: ['policy.yaml'], shows: /from-/, data: true },
  { path: 'apply', args: ['-f', 'policy.yaml'], asks: true, shows: /created/ },
  { path: 'key create', args: [`key-${tag}`], shows: /rf_enroll_/, data: true },
  { path: 'key list', shows: /key-/, data: true },
  { path: 'key show', args: [`key-${tag}`], shows: /key-/, data: true },
  { path: 'key delete', args: [`key-${tag}`], asks: true, shows: /key-/ },
  { path: 'token create', args: [`token-${tag}`], shows: /rf_user_/, data: true },
  { path: 'token list', shows: /token-/, data: true },
  { path: 'token show', args: [`token-${tag}`], shows: /token-/, data: true },
  { path: 'token rotate', args: [`token-${tag}`], asks: true, shows: /rf_user_/, data: true },
  { path: 'token delete', args: [`token-${tag}`], asks: true, shows: /token-/ },
  {
    path: 'webhook create',
    args: ['http://127.0.0.1:9/', '--name', `hook-${tag}`, '--event', 'device.failed'],
    shows: /whsec_/,
    data: true,
  },
  { path: 'webhook list', shows: /hook-/, data: true },
  { path: 'webhook edit', args: [`hook-${tag}`, '--offline-after', '1200'], shows: /hook-/, data: true },
  { path: 'webhook confirm', args: [`hook-${tag}`], shows: /hook-/, data: true },
  { path: 'webhook test', args: [`hook-${tag}`], shows: /Sent a test|"event": "test"/, data: true },
  { path: 'webhook deliveries', args: [`hook-${tag}`], shows: /test/, data: true },
  { path: 'webhook delete', args: [`hook-${tag}`], asks: true, shows: /hook-/ },
  {
    path: 'evidence create',
    args: [`host-${tag}`, '--at', 'now', '--out', `about-host-${tag}.html`],
    shows: /about-host-/,
    data: true,
  },
  {
    path: 'evidence verify',
    args: ['evidence.json', '--key', evidenceKey],
    shows: /verified: nothing|"verified"/i,
    data: true,
  },
  { path: 'evidence key', shows: /ed25519:/, data: true },
  { path: 'log', args: ['--limit', '200'], shows: /registered device host-/, data: true },
  { path: 'device delete', args: [`host-${tag}`], asks: true, shows: /host-/ },
  { path: 'group restore', args: [`web-${tag}`, headWord], asks: true, shows: /Restored group web-/ },
  { path: 'group delete', args: [`web-${tag}`], asks: true, shows: /web-/ },
  { path: 'doctor', args: ['--state', 'nowhere'], shows: /organization/, data: true },
  { path: 'completion', args: ['bash'], shows: /_ringfence/ },
  { path: 'logout', shows: /./ },
];

const refused = /^user /;

const escape = '\u001b';
/** What no answer should ever hold. */
const slips = /undefined|\[object|NaN|^\s+at .*\(.*:\d+:\d+\)$/m;

describe('every command', () => {
  it('stands in the table', async () => {
    const own = new Command('ringfence');
    await addClientCommands(own);
    const known = flatten(readTree(own)).filter(({ path, children }) => path !== '' && children.length === 0);
    expect(
      rows('x', 'y')
        .map(({ path }) => path)
        .toSorted(),
    ).toEqual(known.map(({ path }) => path).toSorted());
  });

  it('works in a pipe: data is JSON where asked for, nothing is coloured, nobody is asked', async () => {
    const person = await installed.program.as('pipe');
    await person.file('policy.yaml', yaml('pipe'));
    await person.file('evidence.json', evidenceFile);
    const guest = await newGuest();
    for (const { path, args = [], shows, data, asks, input, endless } of rows('pipe', guest.username)) {
      const line = [
        ...path.split(' '),
        ...(await withHead(args)),
        ...(data ? ['-o', 'json'] : []),
        ...(asks ? ['--yes'] : []),
      ];
      const options: RunOptions = {
        ...(input === undefined ? {} : { input }),
        ...(endless ? { until: { pattern: /Up to date/, signal: 'SIGINT' } } : {}),
      };
      const { code, stdout, stderr } = await (isThorough ? person.spawn(line, options) : person.run(line, options));
      const told = `${line.join(' ')}\n${stdout}${stderr}`;
      expect(code, told).toBe(refused.test(path) ? 4 : 0);
      expect(told).toMatch(shows);
      expect(told).not.toMatch(slips);
      expect(stdout + stderr).not.toContain(escape);
      if (data) expect(() => JSON.parse(stdout), told).not.toThrow();
    }
  });

  it('that is wrong ends with code 2 and one line', async () => {
    const { code, stdout, stderr } = await installed.program.spawn(['group', 'shwo']);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/^ringfence: [^\n]+\n$/);
  });

  it('works in a terminal: a person is asked before something is lost, and Ctrl-C ends what goes on', async () => {
    const person = await installed.program.as('terminal');
    await person.file('policy.yaml', yaml('terminal'));
    await person.file('evidence.json', evidenceFile);
    const guest = await newGuest();
    for (const [turn, { path, args = [], shows, asks, input, endless }] of rows('terminal', guest.username).entries()) {
      const typed: RunOptions['typed'] = [
        ...(path === 'login' ? [[/Token for/, (input ?? '').replace('\n', '\r')] as const] : []),
        ...(asks ? [[/\[y\/N\]/, 'y\r'] as const] : []),
        ...(endless ? [[/Up to date/, '\u0003'] as const] : []),
      ];
      const line = [...path.split(' '), ...(await withHead(args))];
      // What nobody types to is in a terminal in turns: the others run in a pipe, because later rows use what they make.
      const isPiped = !isThorough && typed.length === 0 && turn % 6 !== 0;
      const { code, stdout, stderr } = await (isPiped
        ? person.run(line)
        : person.inTerminal(line, typed.length > 0 ? { typed } : {}));
      const told = `${line.join(' ')}\n${stdout}${stderr}`;
      expect(code, told).toBe(refused.test(path) ? 4 : 0);
      expect(told).toMatch(shows);
      expect(told).not.toMatch(slips);
    }
  });
});

describe('Ctrl-C', () => {
  const signedIn = (name: string): Promise<Program> =>
    installed.program.as(name, {
      RINGFENCE_SERVER: stage.server.url,
      RINGFENCE_TOKEN: stage.place.owner.token,
      RINGFENCE_ORG: stage.place.org,
    });

  it('in the editor ends the command, changes nothing and leaves no file', async () => {
    const person = await signedIn('editing');
    await person.run(['group', 'create', 'edited', '--in', 'tcp 1']);
    await person.file('editor.sh', 'echo "tcp 2" >> "$1"; echo the-editor-runs; exec sleep 60\n');
    const temporary = `${person.home}/tmp`;
    await (await installed.program.as('editing/tmp')).file('.keep', '');
    const { code } = await person.inTerminal(['group', 'edit', 'edited'], {
      env: { EDITOR: `sh ${person.home}/editor.sh`, TMPDIR: temporary },
      typed: [[/the-editor-runs/, '\u0003']],
    });
    expect(code).toBe(130);
    expect((await person.run(['group', 'show', 'edited'])).stdout).toContain('tcp 1');
    expect(await readdir(temporary)).toEqual(['.keep']);
  });

  it('in the middle of an apply leaves all of the change or nothing of it', async () => {
    const person = await signedIn('applying');
    const count = 150;
    const groups = Array.from({ length: count }, (_, n) => ({ name: `many-${n}`, inbound: ['tcp 80', 'tcp 443'] }));
    const file = await person.file('many.json', JSON.stringify({ groups }));
    const made = async (): Promise<readonly Json[]> =>
      (await stage.place.owner.api.expect(200, 'GET', `${stage.place.base}/security_groups`)).filter((group: Json) =>
        group.group_name.startsWith('many-'),
      );
    const { revision } = await stage.place.owner.api.expect(200, 'GET', stage.place.base);
    const { code } = await person.run(['apply', '--yes', '-f', file], { interruptAfter: Promise.resolve() });
    expect([0, 130]).toContain(code);
    const first = await made();
    expect([0, count]).toContain(first.length);
    const after = await stage.place.owner.api.expect(200, 'GET', stage.place.base);
    expect(after.revision - revision).toBe(first.length);
    expect(await person.run(['apply', '--yes', '-f', file])).toMatchObject({ code: 0 });
    expect(await made()).toHaveLength(count);
    expect((await person.run(['apply', '--yes', '-f', file])).stdout).toContain('No changes');
  });

  it('in a watch is the way to end it: code 0, and the last line is whole', async () => {
    const person = await signedIn('watching');
    const { code, stdout } = await person.run(['watch', '-o', 'json'], {
      until: { pattern: /"kind":"security-groups"/, signal: 'SIGINT' },
    });
    expect(code).toBe(0);
    for (const line of stdout.trimEnd().split('\n')) expect(() => JSON.parse(line), line).not.toThrow();
  });
});

describe('names for completion', () => {
  it('come from the server for the place where the cursor is, and a server that is away costs nothing but them', async () => {
    const person = await installed.program.as('completing', {
      RINGFENCE_SERVER: stage.server.url,
      RINGFENCE_TOKEN: stage.place.owner.token,
      RINGFENCE_ORG: stage.place.org,
    });
    await person.run(['group', 'create', 'two words', '--in', 'tcp 1']);
    await person.run(['device', 'create', 'named-host', '--public-key', 'named']);
    const names = async (...words: readonly string[]): Promise<readonly string[]> =>
      (await person.run(['complete', '--', ...words, ''])).stdout.split('\n').filter((name) => name !== '');
    expect(await names('group', 'show')).toEqual(expect.arrayContaining(['default', 'two words']));
    expect(await names('device', 'groups', 'add')).toContain('named-host');
    expect(await names('device', 'groups', 'add', 'named-host', 'default')).toContain('two words');
    expect(await names('group', 'allow', 'two words')).toEqual(['in', 'out']);
    expect(await names('device', 'list', '--org')).toContain('acme');
    expect(await names('nft')).toEqual(expect.arrayContaining(['two words', 'named-host']));
    expect(await names('member', 'remove')).toContain(stage.place.member.username);
    expect(await names('group', 'create')).toEqual([]);
    await person.run(['device', 'label', 'set', 'named-host', 'named']);
    const [host, peer, label] = ['named-host', 'device:named-host', 'label:named'];
    for (const [words, offered, missing] of [
      [['test', 'add', 'x', '--from'], [peer, label], [host]],
      [['test', 'add', 'x', '--to'], [peer, label], [host]],
      [['explain', '--from'], [host], [peer]],
      [['explain'], [host, 'ssh'], [peer]],
      [['explain', host, host], ['postgres'], [peer]],
      [['device', 'isolate', host, '--allow'], [peer, label], [host]],
      [['group', 'allow', 'default', 'in', 'ssh', '--on'], [label], [host, peer]],
      [['label', 'rename'], ['named'], [host, label]],
      [['label', 'rename', 'named'], [], ['named', host]],
      [['log', '--device'], [host], [peer]],
      [['log', '--by'], [stage.place.member.username], [host]],
      [['flows', '--port'], ['postgres'], [host]],
    ] as const) {
      const found = await names(...words);
      expect(found, words.join(' ')).toEqual(expect.arrayContaining([...offered]));
      for (const other of missing) expect(found, words.join(' ')).not.toContain(other);
    }
    expect(await names('group', 'show', '--org', 'nowhere')).toEqual([]);
    const away = await person.run(['complete', '--', 'group', 'show', ''], {
      env: { RINGFENCE_SERVER: 'http://127.0.0.1:1' },
    });
    expect(away).toEqual({ code: 0, stdout: '', stderr: '' });
  });
});
