/** Owns the commands about signing in, oneself and profiles. */
import { Option, type Command } from 'commander';
import { addNoun, commandsOf } from '../command-line/client-command.ts';
import type { LoginOptions } from './run.ts';

const addCommand = commandsOf(() => import('./run.ts'));

export function addAccountCommands(program: Command): void {
  addCommand<LoginOptions>(
    program,
    {
      usage: 'login [server]',
      summary: 'sign in to a server and keep the token in a profile',
      about:
        'On a terminal, where the server has an identity provider, you sign in there: on any machine, with a code that is shown ' +
        '(--device), or by a browser on this one (--browser). Which provider, client and scopes the server asks for is shown first, and ' +
        'you are asked whether your token may go there; in a script, --yes answers. A token that is meant for another server is never sent. ' +
        'Such a sign-in is renewed by itself. Otherwise a token is asked for, or ' +
        'read from stdin, RINGFENCE_TOKEN or --token-file. It is checked with the server, then kept in ' +
        '$XDG_CONFIG_HOME/ringfence/profiles.json, readable by you only.',
      options: [
        new Option('--device', 'sign in at the identity provider, with a code, in a browser anywhere'),
        new Option('--browser', 'sign in at the identity provider, in a browser on this machine'),
        new Option('--with-token', 'sign in with a token of the server'),
        new Option('--audience <name>', 'what tokens for this server name as their audience, if not its URL'),
      ],
      destructive: true,
      examples: [
        'ringfence login https://ringfence.example',
        'ringfence login https://ringfence.example --browser',
        'ringfence login http://127.0.0.1:8080 --token-file /var/lib/ringfence/admin-token',
        'ringfence login https://ringfence.example --profile work --org acme < token',
      ],
    },
    (run, session, { args: [server], options }) => run.login(session, server, options),
  );
  addCommand(
    program,
    {
      usage: 'logout',
      summary: 'remove a profile and its token; a sign-in at an identity provider is ended there too',
      examples: ['ringfence logout', 'ringfence logout --profile work'],
    },
    (run, session) => run.logout(session),
  );
  addCommand(
    program,
    {
      usage: 'whoami',
      summary: 'show which user the token belongs to',
      examples: ['ringfence whoami', 'ringfence whoami -o json'],
    },
    (run, session) => run.whoami(session),
  );

  const profile = addNoun(program, 'profile', 'servers and tokens that `login` has stored');
  addCommand(
    profile,
    { usage: 'list', summary: 'list profiles', examples: ['ringfence profile list'] },
    (run, session) => run.listProfiles(session),
  );
  addCommand(
    profile,
    { usage: 'use <profile>', summary: 'switch to a profile', examples: ['ringfence profile use work'] },
    (run, session, { args: [name = ''] }) => run.useProfile(session, name),
  );
}
