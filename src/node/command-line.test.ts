/** Proves how a command line and its variables are read by a table of options, and what a wrong one is answered. */
import { describe, expect, test } from 'vitest';
import { outline, readCommandLine, WrongCommandLine, type OptionTable } from './command-line.ts';

const table: OptionTable = {
  server: { flags: '--server <url>', env: 'RF_SERVER', help: 'h', read: (text) => text.replace(/\/$/, '') },
  logLevel: {
    flags: '--log-level <level>',
    env: 'RF_LOG_LEVEL',
    help: 'h',
    read: (text) => {
      if (text !== 'info' && text !== 'debug') throw new Error('It must be one of info, debug.');
      return text;
    },
  },
  key: {
    flags: '--key <key>',
    env: 'RF_KEY',
    help: 'h',
    secret: true,
    read: () => {
      throw new Error('It must be shorter.');
    },
  },
  colour: { flags: '--no-colour', env: 'RF_NO_COLOUR', help: 'h' },
  remove: { flags: '--remove', env: 'RF_REMOVE', help: 'h', fallback: false },
};
const read = (args: readonly string[], env: NodeJS.ProcessEnv = {}) => readCommandLine(table, args, env);

describe('a command line', () => {
  test.each<[string, readonly string[], NodeJS.ProcessEnv, object]>([
    ['nothing', [], {}, {}],
    ['options', ['--server', 'http://a/', '--remove'], {}, { server: 'http://a', remove: true }],
    ['options with =', ['--server=-x', '--log-level=debug'], {}, { server: '-x', logLevel: 'debug' }],
    ['variables', [], { RF_SERVER: 'http://a', RF_REMOVE: '1' }, { server: 'http://a', remove: true }],
    ['a flag that says no', ['--no-colour'], {}, { colour: false }],
    ['a variable that says no', [], { RF_NO_COLOUR: 'yes' }, { colour: false }],
    ['both, and the option wins', ['--server', 'b'], { RF_SERVER: 'a' }, { server: 'b' }],
    ['an option twice, and the last wins', ['--server', 'a', '--server', 'b'], {}, { server: 'b' }],
    ['an empty variable as absent', [], { RF_SERVER: '', RF_LOG_LEVEL: '' }, {}],
  ])('with %s is read', (_, args, env, values) => {
    expect(read(args, env)).toEqual(values);
  });

  test.each(['0', 'false', 'No', ' off '])('with a flag whose variable says %j leaves the flag out', (no) => {
    expect(read([], { RF_REMOVE: no })).toEqual({});
  });

  test.each<[readonly string[], NodeJS.ProcessEnv, string]>([
    [['--sever', 'x'], {}, "unknown option '--sever' (Did you mean --server?)"],
    [['--quiet', 'x'], {}, "unknown option '--quiet'"],
    [['-x'], {}, "unknown option '-x'"],
    [['--server'], {}, "option '--server <url>' argument missing"],
    [['--server', '--remove'], {}, "option '--server <url>' argument missing"],
    [['--remove=yes'], {}, "option '--remove' takes no value"],
    [['extra'], {}, "unexpected argument 'extra'"],
    [['--', '--remove'], {}, "unexpected argument '--remove'"],
    [
      ['--log-level', 'loud'],
      {},
      "option '--log-level <level>' argument 'loud' is invalid. It must be one of info, debug.",
    ],
    [
      [],
      { RF_LOG_LEVEL: 'loud' },
      "option '--log-level <level>' argument 'loud' from env 'RF_LOG_LEVEL' is invalid. It must be one of info, debug.",
    ],
    [['--key', 'rf_enroll_x'], {}, "option '--key <key>' argument is invalid. It must be shorter."],
  ])('like %j is refused in one line', (args, env, message) => {
    const answer = (): unknown => read(args, env);
    expect(answer).toThrow(WrongCommandLine);
    expect(answer).toThrow(new WrongCommandLine(message));
  });

  test.each<[readonly string[], object]>([
    [[], { help: false }],
    [['--server', 'status'], { help: false }],
    [['--server', 'x', 'status', '--output', 'json'], { word: 'status', help: false }],
    [['status', '--help'], { word: 'status', help: true }],
    [['-h'], { help: true }],
    [['--', '--help'], { word: '--help', help: false }],
  ])('has an outline: %j', (args, expected) => {
    expect(outline(table, args)).toEqual(expected);
  });
});
