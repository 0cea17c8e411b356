/** Proves that the lean start reads a right command line as the whole program does, and leaves every other to it. */
import { Command } from 'commander';
import { describe, expect, test } from 'vitest';
import { toOption } from '../cli/command-line/options.ts';
import { agentOptions } from './options.ts';
import { readPlainly } from './start.ts';

const organization = '01a1ddc0-9c97-738b-af8b-619f0abce38f';

/** As commander reads it, without what was not said. */
function whole(args: readonly string[], env: NodeJS.ProcessEnv): unknown {
  const command = new Command('agent').exitOverride().configureOutput({ writeErr: () => {}, writeOut: () => {} });
  for (const spec of Object.values(agentOptions)) command.addOption(toOption(spec));
  const before = { ...process.env };
  Object.assign(process.env, env);
  try {
    command.parse([...args], { from: 'user' });
    return Object.fromEntries(
      Object.entries(command.opts()).filter(([name]) => command.getOptionValueSource(name) !== 'default'),
    );
  } finally {
    for (const name of Object.keys(env)) if (!(name in before)) delete process.env[name];
  }
}

describe('the lean start', () => {
  test.each<[string, readonly string[], NodeJS.ProcessEnv]>([
    ['nothing', [], {}],
    ['options', ['--server', 'http://a/', '--organization', organization.toUpperCase(), '--interface', 'wg*'], {}],
    ['options with =', ['--server=http://a', '--enroll=rf_enroll_-x', '--state=relative'], {}],
    ['flags', ['--keep-established', '--remove', '--interface', 'wg0'], {}],
    ['flags that say no', ['--no-server-access', '--containers', 'ignore'], {}],
    ['a variable that says no', [], { RINGFENCE_NO_SERVER_ACCESS: 'yes', RINGFENCE_CONTAINERS: 'guard' }],
    ['variables', [], { RINGFENCE_INTERFACE: 'wg0', RINGFENCE_KEEP_ESTABLISHED: '1', RINGFENCE_LOG_LEVEL: 'debug' }],
    ['both, and the option wins', ['--interface', 'wg1'], { RINGFENCE_INTERFACE: 'wg0' }],
    ['an option twice, and the last wins', ['--interface', 'wg1', '--interface', 'wg2'], {}],
  ])('reads %s', (_, args, env) => {
    expect(readPlainly(args, env)).toEqual(whole(args, env));
  });

  test.each([
    ['status'],
    ['--help'],
    ['-h'],
    ['--interfcae', 'wg0'],
    ['--interface'],
    ['--interface', '--remove'],
    ['--interface', 'a name'],
    ['--remove=yes'],
    ['--until-first-policy', 'ajar'],
    ['--organization', 'acme'],
    ['--', '--remove'],
    ['extra'],
  ])('leaves `%s %s` to the whole program', (...args) => {
    expect(readPlainly(args, {})).toBeUndefined();
  });

  test('leaves a wrong variable to it too, and takes an empty one for absent', () => {
    expect(readPlainly([], { RINGFENCE_LOG_LEVEL: 'loud' })).toBeUndefined();
    expect(readPlainly([], { RINGFENCE_LOG_LEVEL: '' })).toEqual({});
    for (const no of ['0', 'false', 'No']) expect(readPlainly([], { RINGFENCE_REMOVE: no })).toEqual({});
  });
});
