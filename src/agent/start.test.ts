/** Proves which command lines run the agent, and how their options and variables are read. */
import { describe, expect, test } from 'vitest';
import { WrongCommandLine } from '../node/command-line.ts';
import { runsAgent } from './options.ts';
import { readAgentValues } from './start.ts';

const organization = '01a1ddc0-9c97-738b-af8b-619f0abce38f';

describe('the start of the agent', () => {
  test.each<[string, readonly string[], NodeJS.ProcessEnv, object]>([
    ['nothing', [], {}, {}],
    [
      'options',
      ['--server', 'http://a/', '--organization', organization.toUpperCase(), '--interface', 'wg*'],
      {},
      { server: ['http://a'], organization, interface: { kind: 'pattern', pattern: 'wg*' } },
    ],
    ['a server twice', ['--server', 'http://a', '--server=http://b'], {}, { server: ['http://a', 'http://b'] }],
    ['servers in a variable', [], { RINGFENCE_SERVER: 'http://a,http://b' }, { server: ['http://a', 'http://b'] }],
    ['options with =', ['--enroll=rf_enroll_-x', '--state=/s'], {}, { enroll: 'rf_enroll_-x', state: '/s' }],
    ['flags', ['--keep-established', '--remove', '--adopt'], {}, { keepEstablished: true, remove: true, adopt: true }],
    [
      'flags that say no',
      ['--no-server-access', '--containers', 'ignore'],
      {},
      { serverAccess: false, containers: 'ignore' },
    ],
    ['a variable that says no', [], { RINGFENCE_NO_SERVER_ACCESS: 'yes' }, { serverAccess: false }],
    [
      'variables',
      [],
      { RINGFENCE_INTERFACE: 'wg0', RINGFENCE_KEEP_ESTABLISHED: '1', RINGFENCE_LOG_LEVEL: 'debug' },
      { interface: { kind: 'name', name: 'wg0' }, keepEstablished: true, logLevel: 'debug' },
    ],
  ])('reads %s', (_, args, env, values) => {
    expect(runsAgent(args)).toBe(true);
    expect(readAgentValues(args, env)).toEqual(values);
  });

  test.each([
    ['--interfcae', 'wg0'],
    ['--interface'],
    ['--interface', '--remove'],
    ['--interface', 'a name'],
    ['--remove=yes'],
    ['--until-first-policy', 'ajar'],
    ['--organization', 'acme'],
    ['--', '--remove'],
    ['extra'],
  ])('refuses `%s %s` itself', (...args) => {
    expect(runsAgent(args)).toBe(true);
    expect(() => readAgentValues(args, {})).toThrow(WrongCommandLine);
  });

  test('refuses a wrong variable, takes an empty one for absent, and one that says no for a no', () => {
    expect(() => readAgentValues([], { RINGFENCE_LOG_LEVEL: 'loud' })).toThrow(/from env 'RINGFENCE_LOG_LEVEL'/);
    expect(readAgentValues([], { RINGFENCE_LOG_LEVEL: '' })).toEqual({});
    for (const no of ['0', 'false', 'No']) expect(readAgentValues([], { RINGFENCE_REMOVE: no })).toEqual({});
  });

  test('never shows an enrollment key, though it is wrong', () => {
    expect(() => readAgentValues(['--enroll', 'rf_enroll key'], {})).toThrow(/^(?!.*rf_enroll key)/);
  });

  test.each([['status'], ['--help'], ['-h'], ['status', '--output', 'json'], ['--state', '/s', 'status'], ['help']])(
    'leaves `%s %s` to the whole program',
    (...args) => {
      expect(runsAgent(args)).toBe(false);
    },
  );
});
