/** Proves that a command has the options that errors of its writes name: one to continue all the same for each refusal that has one. */
import { Command } from 'commander';
import { expect, it } from 'vitest';
import type { Rows } from '../../src/api/operations.ts';
import { addClientCommands } from '../../src/cli/client-commands.ts';
import { readTree } from '../../src/cli/command-line/read-tree.ts';
import { flatten } from '../../src/cli/command-line/tree.ts';

const program = new Command('ringfence');
await addClientCommands(program);
const nodes = flatten(readTree(program));
const has = (path: string, option: string): boolean =>
  nodes.find((node) => node.path === path)?.options.some(({ long }) => long === option) ??
  expect.fail(`there is no command ${path}`);

/** The operations that may fail by this. */
type Failing<Code> = {
  [Id in keyof Rows]: Rows[Id] extends { readonly fails: readonly (infer Fails)[] }
    ? Code extends Fails
      ? Id
      : never
    : never;
}[keyof Rows];

const list = ['device groups set', 'device groups add', 'device groups remove'];
const labels = ['device label set', 'device label add', 'device label remove'];
const rules = ['group allow', 'group revoke'];
const rest = ['group edit', 'group rename', 'group observe', 'group enforce'];

/** For each operation that may be refused so, the commands that may meet it. */
const commands: {
  readonly [Code in 'would_open' | 'group_in_use' | 'policy_test_failed']: {
    readonly [Id in Failing<Code>]: readonly string[];
  };
} = {
  would_open: {
    updateSecurityGroup: ['group edit', 'group observe'],
    updateUserSecurityGroup: ['group edit', 'group observe'],
    restoreSecurityGroup: ['group restore'],
    updateDevice: ['device edit'],
    moveDevice: ['device move'],
    removeMember: ['member remove'],
    removeUser: ['user delete'],
    applyChanges: ['apply', 'device restore', 'label rename', ...list, ...labels],
    revertChangeSet: ['undo'],
    confirmTrial: ['trial confirm'],
    widenTrial: ['trial widen'],
  },
  group_in_use: {
    updateSecurityGroup: ['group edit', 'group observe'],
    updateUserSecurityGroup: ['group edit', 'group observe'],
    deleteSecurityGroup: ['group delete'],
    deleteUserSecurityGroup: ['group delete'],
    restoreSecurityGroup: ['group restore'],
    applyChanges: ['apply'],
    revertChangeSet: ['undo'],
  },
  policy_test_failed: {
    createSecurityGroup: ['group create', 'group copy'],
    createUserSecurityGroup: ['group create', 'group copy'],
    updateSecurityGroup: [...rules, ...rest],
    updateUserSecurityGroup: [...rules, ...rest],
    deleteSecurityGroup: ['group delete'],
    deleteUserSecurityGroup: ['group delete'],
    restoreSecurityGroup: ['group restore'],
    createDevice: ['device create'],
    updateDevice: ['device edit', 'device rename'],
    deleteDevice: ['device delete'],
    moveDevice: ['device move'],
    removeMember: ['member remove'],
    applyChanges: ['apply', 'device delete', 'device restore', 'label rename', ...list, ...labels],
    revertChangeSet: ['undo'],
    replacePolicyTests: ['test add', 'explain'],
    confirmTrial: ['trial confirm'],
    widenTrial: ['trial widen'],
  },
};
const optionOf = { would_open: '--detach', group_in_use: '--detach', policy_test_failed: '--skip-tests' } as const;

it.each(Object.entries(optionOf))('a command that may be refused by %s has %s', (code, option) => {
  const all = new Set(Object.values(commands[code as keyof typeof commands]).flat());
  expect([...all].filter((path) => !has(path, option))).toEqual([]);
});

it('a command that may write a guardrail that forbids everything has --force', () => {
  const all = ['group create', 'group copy', 'group restore', 'apply', 'label rename', ...rules, ...rest];
  expect(all.filter((path) => !has(path, '--force'))).toEqual([]);
});

it('a command that writes policy has --skip-tests, unless policy tests refuse nothing that it writes (reference 4.14 (9), 4.15 (4))', () => {
  const policy = nodes.filter(({ options }) => options.some(({ long }) => long === '--wait')).map(({ path }) => path);
  const known = new Set(Object.values(commands.policy_test_failed).flat());
  expect(policy.filter((path) => !has(path, '--skip-tests')).toSorted()).toEqual([
    'device isolate',
    'device release',
    'status',
    'trial revert',
    'user delete',
  ]);
  expect(policy.filter((path) => has(path, '--skip-tests') && !known.has(path))).toEqual([]);
});
