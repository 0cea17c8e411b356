/** Proves what the program says about itself: help, the reference, completion, and the answers to a wrong command line. */
import { execFile } from 'node:child_process';
import { chmod } from 'node:fs/promises';
import { promisify } from 'node:util';
import { Command } from 'commander';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { addClientCommands } from '../../src/cli/client-commands.ts';
import { readTree } from '../../src/cli/command-line/read-tree.ts';
import { flatten } from '../../src/cli/command-line/tree.ts';
import { anchorsOf } from '../lib/docs.ts';
import { Program } from '../lib/program.ts';

/**
 * Never called: it makes the test runner treat every command and option of the program as a dependency of this file.
 */
export const everything = () => import('../../src/cli/main.ts');

let program: Program;
beforeAll(async () => {
  program = await Program.install();
});
afterAll(() => program?.remove());

const own = new Command('ringfence');
await addClientCommands(own);
const commands = flatten(readTree(own)).filter(({ path, children }) => path !== '' && children.length === 0);

/** Commands that write nothing on a server; `explain` writes only with --keep. */
const reading =
  /^(login|logout|whoami|profile .*|policy .*|.* (list|show|history|diff|status|deliveries|run|usage|observation|invitations)|evidence verify|flows|propose|org use|diff|export|nft|explain|status|watch|doctor|completion|log)$/;

it('every command that writes takes --dry-run', () => {
  const without = commands.filter(({ options }) => !options.some(({ long }) => long === '--dry-run'));
  expect(without.map(({ path }) => path).filter((path) => !reading.test(path))).toEqual([]);
});

describe('the reference', () => {
  it('has a heading and every option of each command, and all links in it lead to a heading', async () => {
    const page = (await program.run(['reference'])).stdout;
    for (const { path, options } of commands) {
      expect(page).toContain(`\n### ringfence ${path}\n`);
      for (const { flags } of options)
        if (!flags.includes('--help')) expect(page).toContain(flags.replaceAll('|', '\\|'));
    }
    const anchors = anchorsOf(page);
    expect([...page.matchAll(/\]\(#([^)]+)\)/g)].filter(([, anchor = '']) => !anchors.has(anchor))).toEqual([]);
  });

  it.each(commands.map(({ path, examples, summary, options }) => ({ path, examples, summary, options })))(
    'of $path has a sentence, examples that begin with the command, and a meaning for every option',
    ({ path, examples, summary, options }) => {
      expect(summary).toMatch(/^[a-z].*[^.]$/);
      expect(examples.length).toBeGreaterThan(0);
      for (const example of examples) expect(example).toContain(`ringfence ${path}`);
      for (const { help } of options) expect(help).not.toBe('');
    },
  );
});

describe('help', () => {
  it('lists every command, and is no failure', async () => {
    const outcome = await program.run(['--help']);
    expect(outcome).toMatchObject({ code: 0, stderr: '' });
    for (const word of ['server', 'login', 'group', 'device', 'apply', 'watch', 'explain', 'completion']) {
      expect(outcome.stdout).toMatch(new RegExp(`^  ${word}\\b`, 'm'));
    }
    expect(outcome.stdout).not.toContain('reference');
    const steps = [...outcome.stdout.matchAll(/^ {2}\$ ringfence (.*)$/gm)].map(([, step = '']) => `${step} `);
    expect(steps).toHaveLength(5);
    expect(steps.filter((step) => !commands.some(({ path }) => step.startsWith(`${path} `)))).toEqual([]);
  });

  it('has the words that fingers know: version, -v, ls and rm', async () => {
    const version = await program.run(['--version']);
    expect(version).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+(\+[0-9a-f]{10})?\n$/) });
    for (const args of [['-v'], ['version']]) expect(await program.run(args)).toEqual(version);
    for (const [habit, word] of [
      [
        ['group', 'ls'],
        ['group', 'list'],
      ],
      [
        ['device', 'rm'],
        ['device', 'delete'],
      ],
      [
        ['member', 'rm'],
        ['member', 'remove'],
      ],
      [
        ['device', 'groups', 'rm'],
        ['device', 'groups', 'remove'],
      ],
    ] as const) {
      const help = await program.run([...word, '--help']);
      expect(help.stdout).toContain('Usage: ');
      expect(await program.run([...habit, '--help'])).toEqual(help);
    }
  });

  it('of a command shows usage, options with their variables, and examples', async () => {
    const { code, stdout } = await program.run(['group', 'allow', '--help']);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^Usage: ringfence group allow \[options\] <group> <direction> <rule\.\.\.>\n/);
    expect(stdout).not.toContain('RINGFENCE_SERVER');
    expect(stdout).toContain('Options of every command: ringfence help options\n');
    const common = await program.run(['help', 'options']);
    expect(common.stdout).toMatch(/^Usage: ringfence <command> \[options\]\n[^]*RINGFENCE_SERVER[^]*--no-color/);
    expect(stdout).toContain('$ ringfence group allow web in tcp 443 from 10.0.0.0/8,fd00::/8');
  });

  it('of a noun that means a command by itself is the help of that command, after its arguments', async () => {
    const help = await program.run(['evidence', 'create', '--help']);
    expect(help.stdout).toContain('Usage: ringfence evidence create');
    expect(await program.run(['evidence', 'db-1', '--help'])).toEqual(help);
    expect(await program.run(['evidence', 'db-1'])).toMatchObject({ code: 2, stderr: expect.stringMatching(/--at/) });
  });

  it('says in plain words that a file is not there', async () => {
    for (const args of [
      ['evidence', 'verify', 'nowhere.json'],
      ['policy', 'fmt', 'nowhere.json'],
    ]) {
      expect(await program.run(args)).toMatchObject({
        code: 2,
        stderr: 'ringfence: cannot read nowhere.json: there is no such file\n',
      });
    }
  });

  it.each([
    [['plan', 'policy/'], /unknown command 'plan' \(Did you mean diff\?\)/],
    [['get', 'devices'], /unknown command 'get' \(Did you mean group show, device show\?\)/],
    [['release', 'web-1'], /unknown command 'release' \(Did you mean device release\?\)/],
    [['acl'], /unknown command 'acl' \(Did you mean policy\?\)/],
    [['grop', 'list'], /unknown command 'grop' \(Did you mean group\?\)/],
    [['group', 'revert', '--help'], /unknown command 'revert' \(Did you mean restore\?\)/],
    [['group', 'alow', '--help'], /unknown command 'alow' \(Did you mean allow\?\)/],
    [['help', 'group', 'alow'], /unknown command 'alow' \(Did you mean allow\?\)/],
    [['grop', '-h'], /unknown command 'grop' \(Did you mean group\?\)/],
    [['group', 'lst'], /unknown command 'lst' \(Did you mean one of list, ls\?\)/],
    [['group', 'list', '--outptu', 'json'], /unknown option '--outptu' \(Did you mean --output\?\)/],
    [['group', 'list', '-o', 'xml'], /Allowed choices are table, wide, json, yaml/],
    [['group', 'show'], /missing required argument 'group'/],
    [['group', 'list', 'extra'], /too many arguments/],
    [['completion', 'tcsh'], /Allowed choices are bash, zsh, fish/],
  ])('of a wrong command line is one line and code 2: %j', async (args, message) => {
    const outcome = await program.run(args);
    expect(outcome).toMatchObject({ code: 2, stdout: '' });
    expect(outcome.stderr).toMatch(/^ringfence: /);
    expect(outcome.stderr).toMatch(message);
    expect(outcome.stderr.trim().split('\n')).toHaveLength(1);
  });
});

describe('completion', () => {
  const run = promisify(execFile);
  const file = async (shell: string): Promise<string> => {
    const { code, stdout } = await program.run(['completion', shell]);
    expect(code).toBe(0);
    return program.file(`completion.${shell}`, stdout);
  };
  /** What a shell offers for a line that is typed up to its end. */
  const offers: Readonly<Record<string, (path: string, line: string) => Promise<string>>> = {
    bash: async (path, line) =>
      (
        await run('bash', [
          '-c',
          `source "$0"; COMP_WORDS=(${words(line)}); COMP_CWORD=$(( \${#COMP_WORDS[@]} - 1 )); _ringfence; printf '%s\\n' "\${COMPREPLY[@]}"`,
          path,
        ])
      ).stdout,
    zsh: async (path, line) => {
      const stubs = '_describe() { [[ $1 == -o ]] && shift; print -l -- "${(@P)2}" }; _files() { }';
      return (
        await run('zsh', ['-fc', `source "$0"; ${stubs}; words=(${words(line)}); CURRENT=\${#words}; _ringfence`, path])
      ).stdout;
    },
    fish: async (path, line) =>
      (
        await run('fish', ['--no-config', '-c', `source ${path}; complete -C '${line}'`], {
          env: { ...process.env, HOME: program.home },
        })
      ).stdout,
  };
  const words = (line: string): string =>
    line
      .split(' ')
      .map((word) => `'${word}'`)
      .join(' ');

  /** With a program of this name first in the path. */
  const offered = async (shell: string, fake: string, line: string): Promise<string> => {
    const bin = await program.as(`bin-${shell}`);
    await chmod(await bin.file('ringfence', `#!/bin/sh\n${fake}\n`), 0o755);
    const [path, found] = [await file(shell), process.env['PATH']];
    process.env['PATH'] = `${bin.home}:${found}`;
    try {
      return (await offers[shell]?.(path, line)) ?? '';
    } finally {
      process.env['PATH'] = found;
    }
  };

  it.each(Object.keys(offers))('of %s knows commands, options and choices', async (shell) => {
    const offer = (line: string) => offered(shell, `exec '${process.execPath}' '${program.bundle}' "$@"`, line);
    expect(await offer('ringfence gr')).toMatch(/^group\b/m);
    const below = await offer('ringfence device groups ');
    for (const word of ['set', 'add', 'remove']) expect(below).toMatch(new RegExp(`^${word}\\b`, 'm'));
    expect(below).not.toMatch(/^create\b/m);
    expect(await offer('ringfence device rm --ye')).toMatch(/^--yes\b/m);
    expect(await offer('ringfence device groups rm --no-c')).toMatch(/^--no-color\b/m);
    expect(await offer('ringfence group delete web --det')).toMatch(/^--detach\b/m);
    expect(await offer('ringfence group list ')).toMatch(/^--expiring\b/m);
    expect(await offer('ringfence group list --output ')).toMatch(/^yaml\b/m);
  });

  it('of bash completes after the colon of label:, and offers file names only for files', async () => {
    const path = await file('bash');
    const bin = await program.as('bin-labels');
    const fake = (...lines: readonly string[]) =>
      bin.file('ringfence', `#!/bin/sh\nprintf %b '${lines.map((line) => `${line}\\n`).join('')}'\n`);
    await chmod(await fake('label:app', 'label:api\tof two devices'), 0o755);
    await program.file('app.yaml', '');
    const complete = async (...line: readonly string[]): Promise<string> => {
      const setUp = `source "$0"; cd ${program.home}; COMP_WORDS=(${line.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=$(( \${#COMP_WORDS[@]} - 1 ))`;
      const script = `COMP_WORDBREAKS=$' \\t:'; ${setUp}; _ringfence; printf '%s\\n' "\${COMPREPLY[@]}"`;
      const env = { ...process.env, PATH: `${bin.home}:${process.env['PATH']}` };
      return (await run('bash', ['-c', script, path], { env })).stdout;
    };
    expect(await complete('ringfence', 'group', 'create', 'db', '--applies-to', 'label', ':', 'ap')).toBe('app\napi\n');
    expect(await complete('ringfence', 'group', 'create', 'db', '--applies-to', 'label:')).toBe('app\napi\n');
    await fake('all-devices');
    expect(await complete('ringfence', 'group', 'allow', 'app', 'in', 'ssh', 'from', 'a')).toBe('all-devices\n');
    await fake();
    expect(await complete('ringfence', 'group', 'show', 'app')).toBe('\n');
    await fake('-files');
    expect(await complete('ringfence', 'apply', 'app')).toBe('app.yaml\n');
  });

  it.each([
    [['apply', ''], ['-files']],
    [['group', 'create', 'x', '--file', 'app'], ['-files']],
    [['group', 'create', ''], []],
    [['group', 'allow', 'web', 'o'], ['out']],
    [['group', 'li'], ['list']],
    [['group', 'ls', '--output', 'w'], ['wide']],
  ])('after %j offers %j', async (typed, lines) => {
    const { stdout } = await program.run(['complete', '--', ...typed]);
    expect(stdout.split('\n').flatMap((line) => (line === '' ? [] : [line.split('\t')[0]]))).toEqual(lines);
  });

  it.each(Object.keys(offers))('of %s asks the program, with the words typed so far', async (shell) => {
    // A fake of the program: it answers with its arguments.
    const offer = (line: string) => offered(shell, 'echo "answer-$*" | tr " " _\necho two words', line);
    const groups = await offer('ringfence group show ');
    expect(groups).toMatch(/^answer-complete_--_group_show_$/m);
    expect(groups).toMatch(/^two(\\)? words$/m);
    expect(await offer('ringfence device list --org ')).toMatch(/^answer-complete_--_device_list_--org_(\t|$)/m);
    expect(await offer('ringfence group show answer')).toMatch(/^answer-complete_--_group_show_answer/m);
  });
});
