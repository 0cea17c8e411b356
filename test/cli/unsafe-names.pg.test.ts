/** Proves that no name speaks to a terminal: whatever prints one shows invisible and reordering characters as escapes. */
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import type { Outcome } from '../lib/program.ts';
import { done, usePeople } from './people.fixture.ts';

const people = usePeople();

/** Right-to-left override, zero width space, next line (C1), isolate, tag letter: all that a server lets into a name. */
const trick = '\u202e\u200b\u0085\u2066\u{e0041}';
const named = (word: string): string => `${word}${trick}x`;
const shown = (word: string): string => `${word}\\u202e\\u200b\\u0085\\u2066\\u{e0041}x`;

/** Beside line ends nothing that is invisible; in a terminal our own colours may stand too. */
function expectVisible({ stdout, stderr }: Pick<Outcome, 'stdout' | 'stderr'>): void {
  // oxlint-disable-next-line no-control-regex -- the escape sequences of colours
  const text = `${stdout}${stderr}`.replaceAll(/\u001b\[(?:1|2|22|31|32|33|39)m/g, '');
  expect(text).not.toMatch(/[^\P{C}\n]|[\u2028\u2029]/u);
}

it('tables, records, questions, sentences and errors show the characters of a name as escapes', async () => {
  const { owner } = people;
  const env = { NO_COLOR: '1' };
  await done(owner.run(['group', 'create', named('web'), '--in', 'tcp 22', '--description', named('text')]));
  await done(owner.run(['device', 'create', named('edge'), '--public-key', 'k', '--tunnel-ip', '100.64.0.1']));
  await done(owner.run(['token', 'create', named('token')]));
  await done(owner.run(['key', 'create', named('key')]));
  const policy = await owner.file(
    'policy.yaml',
    `groups: [{name: ${JSON.stringify(named('file'))}, inbound: [tcp 1]}]`,
  );
  const commands: readonly (readonly [word: string, args: readonly string[]])[] = [
    ['web', ['group', 'list']],
    ['web', ['group', 'show', named('web')]],
    ['text', ['group', 'show', named('web')]],
    ['web', ['group', 'allow', named('web'), 'in', 'tcp', '80']],
    ['web', ['group', 'revoke', named('web'), 'in', 'tcp', '81']],
    ['web', ['group', 'edit', named('web'), '--description', 'other']],
    ['edge', ['device', 'list']],
    ['edge', ['device', 'show', named('edge')]],
    ['edge', ['device', 'edit', named('edge'), '--relay', 'yes']],
    ['edge', ['device', 'groups', 'set', named('edge'), named('web')]],
    ['edge', ['device', 'delete', named('edge')]],
    ['web', ['group', 'delete', named('web')]],
    ['token', ['token', 'list']],
    ['token', ['token', 'delete', named('token')]],
    ['key', ['key', 'list']],
    ['key', ['key', 'delete', named('key')]],
    ['edge', ['explain', '--from', '10.0.0.1', '--to', named('edge'), '--port', '22']],
    ['web', ['nft', named('edge')]],
    ['file', ['apply', '-f', policy, '--dry-run']],
    ['nobody', ['group', 'show', named('nobody')]],
    ['nobody', ['whoami', '--profile', named('nobody')]],
    ['nobody', [named('nobody')]],
    ['nobody', ['group', 'list', `--${named('nobody')}`]],
  ];
  for (const [word, args] of commands) {
    const outcome = await owner.run(args, { env });
    expectVisible(outcome);
    expect([args, outcome.stdout + outcome.stderr]).toEqual([args, expect.stringContaining(shown(word))]);
  }
});

it('a question in a terminal shows them too, beside the colours of the program', async () => {
  const { owner } = people;
  await done(owner.run(['group', 'create', named('web')]));
  const listed = await owner.inTerminal(['group', 'list']);
  expectVisible(listed);
  expect(listed.stdout).toContain('\u001b[1m');
  const asked = await owner.inTerminal(['group', 'delete', named('web')], { typed: [[/\[y\/N\]/, 'n\n']] });
  expect(asked.stdout).toContain(`Delete group ${shown('web')}?`);
  expect(asked.stdout).not.toContain(trick);
});

it('JSON and YAML show them as escapes that a program reads back as the name', async () => {
  const { owner } = people;
  await done(owner.run(['group', 'create', named('web')]));
  const json = await owner.run(['group', 'show', named('web'), '-o', 'json']);
  const yaml = await owner.run(['group', 'show', named('web'), '-o', 'yaml']);
  const exported = await owner.run(['export']);
  for (const outcome of [json, yaml, exported]) expectVisible(outcome);
  expect(JSON.parse(json.stdout).group_name).toBe(named('web'));
  expect(parse(yaml.stdout).group_name).toBe(named('web'));
  expect(parse(exported.stdout).groups).toContainEqual(expect.objectContaining({ name: named('web') }));
});

it('the live view shows them as escapes', async () => {
  const { owner } = people;
  await done(owner.run(['group', 'create', named('web')]));
  for (const form of ['table', 'json', 'yaml']) {
    const until = { pattern: /Waiting|web/, signal: 'SIGINT' as const };
    const outcome = await owner.run(['watch', 'groups', '-o', form], { until });
    expectVisible(outcome);
    expect(outcome.stdout).toContain('\\u202e');
  }
});

it('a shell is offered no name that cannot be typed', async () => {
  const { owner } = people;
  await done(owner.run(['group', 'create', named('web')]));
  await done(owner.run(['group', 'create', 'turned\u202e']));
  await done(owner.run(['group', 'create', 'plain']));
  const offered = await done(owner.run(['complete', '--', 'group', 'show', '']));
  expect(offered.split('\n')).toContain('plain');
  expectVisible({ stdout: offered, stderr: '' });
});

it('completion offers no name that a command would take for an option, and its id in its place', async () => {
  const { owner } = people;
  const { id } = JSON.parse(await done(owner.run(['group', 'create', '-o', 'json', '--', '--yes']))) as { id: string };
  await done(owner.run(['device', 'create', '--public-key', 'q', '--tunnel-ip', '100.64.0.9', '--', '--all']));
  for (const command of [
    ['group', 'show'],
    ['group', 'delete'],
    ['device', 'show'],
    ['device', 'groups', 'set', 'x'],
  ]) {
    const offered = (await done(owner.run(['complete', '--', ...command, '']))).trim().split('\n');
    expect(offered.filter((word) => word.startsWith('-'))).toEqual([]);
    expect(offered.length).toBeGreaterThan(0);
    if (command[0] === 'group') expect(offered).toContain(id);
  }
});
