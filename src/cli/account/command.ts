/** Owns the commands about oneself and other users: sign-in, profiles, users, tokens. */
import { Option, type Command } from 'commander';
import { addCommand, addNoun } from '../command-line/client-command.ts';

interface LoginOptions {
  readonly device?: boolean;
  readonly browser?: boolean;
  readonly withToken?: boolean;
}

export function addAccountCommands(program: Command): void {
  addCommand<LoginOptions>(
    program,
    {
      usage: 'login [server]',
      summary: 'sign in to a server and keep the token in a profile',
      about:
        'On a terminal, where the server has an identity provider, you sign in there: on any machine, with a code that is shown ' +
        '(--device), or by a browser on this one (--browser). Such a sign-in is renewed by itself. Otherwise a token is asked for, or ' +
        'read from stdin, RINGFENCE_TOKEN or --token-file. It is checked with the server, then kept in ' +
        '$XDG_CONFIG_HOME/ringfence/profiles.json, readable by you only.',
      options: [
        new Option('--device', 'sign in at the identity provider, with a code, in a browser anywhere'),
        new Option('--browser', 'sign in at the identity provider, in a browser on this machine'),
        new Option('--with-token', 'sign in with a token of the server'),
      ],
      examples: [
        'ringfence login https://ringfence.example',
        'ringfence login https://ringfence.example --browser',
        'ringfence login http://127.0.0.1:8080 --token-file /var/lib/ringfence/admin-token',
        'ringfence login https://ringfence.example --profile work --org acme < token',
      ],
    },
    (session, { args: [server], options }, work) => work.account.login(session, server, options),
  );
  addCommand(
    program,
    {
      usage: 'logout',
      summary: 'forget a profile and its token; a sign-in at an identity provider is ended there too',
      examples: ['ringfence logout', 'ringfence logout --profile work'],
    },
    (session, _, work) => work.account.logout(session),
  );
  addCommand(
    program,
    {
      usage: 'whoami',
      summary: 'show whom the token speaks for',
      examples: ['ringfence whoami', 'ringfence whoami -o json'],
    },
    (session, _, work) => work.account.whoami(session),
  );

  const profile = addNoun(program, 'profile', 'servers and tokens that `login` has stored');
  addCommand(
    profile,
    { usage: 'list', summary: 'list profiles', examples: ['ringfence profile list'] },
    (session, _, work) => work.account.listProfiles(session),
  );
  addCommand(
    profile,
    { usage: 'use <profile>', summary: 'make a profile the one in force', examples: ['ringfence profile use work'] },
    (session, { args: [name = ''] }, work) => work.account.useProfile(session, name),
  );

  const user = addNoun(program, 'user', 'users of the server (for its administrator)');
  addCommand(user, { usage: 'list', summary: 'list users', examples: ['ringfence user list'] }, (session, _, work) =>
    work.account.listUsers(session),
  );
  addCommand(
    user,
    { usage: 'create <username>', summary: 'create a user', examples: ['ringfence user create ada'] },
    (session, { args: [name = ''] }, work) => work.account.createUser(session, name),
  );

  addCommand(
    user,
    {
      usage: 'delete <user>',
      summary: 'delete a user, with its tokens, devices and groups everywhere',
      destructive: true,
      examples: ['ringfence user delete ada'],
    },
    (session, { args: [text = ''] }, work) => work.account.removeUser(session, text),
  );

  addTokenCommands(program);
}

interface NewToken {
  readonly user?: string;
  readonly expires?: string;
  readonly readOnly?: boolean;
}

function addTokenCommands(program: Command): void {
  const token = addNoun(program, 'token', 'tokens that speak for a user');
  addCommand(
    token,
    { usage: 'list', summary: 'list my tokens (never their secrets)', examples: ['ringfence token list'] },
    (session, _, work) => work.token.list(session),
  );
  addCommand(
    token,
    { usage: 'show <token>', summary: 'show a token, without its secret', examples: ['ringfence token show ci'] },
    (session, { args: [text = ''] }, work) => work.token.show(session, text),
  );
  addCommand<NewToken>(
    token,
    {
      usage: 'create [name]',
      summary: 'issue a token; its secret is shown this once',
      options: [
        new Option('--user <name|id>', 'for another user (administrators only)'),
        new Option('--expires <time>', 'when it ends: a time like 2030-01-31T00:00:00Z, or 90d, 12h, 30m from now'),
        new Option('--read-only', 'refused on every write'),
      ],
      examples: ['ringfence token create ci --expires 90d', 'ringfence token create dashboard --read-only -q > token'],
    },
    (session, { args: [name], options }, work) => work.token.create(session, name, options),
  );
  addCommand(
    token,
    {
      usage: 'rotate <token>',
      summary: 'give a token another secret, shown this once; the old one stops at once',
      destructive: true,
      examples: ['ringfence token rotate ci', 'ringfence token rotate ci --yes -q > token'],
    },
    (session, { args: [text = ''] }, work) => work.token.rotate(session, text),
  );
  addCommand(
    token,
    {
      usage: 'delete <token>',
      summary: 'revoke a token; its open streams end',
      destructive: true,
      examples: ['ringfence token delete ci --yes'],
    },
    (session, { args: [text = ''] }, work) => work.token.remove(session, text),
  );
}
