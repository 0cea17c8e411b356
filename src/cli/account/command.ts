/** Owns the commands for signing in, the current user and profiles. */
import { Option, type Command } from 'commander';
import { addNoun, commandsOf } from '../command-line/client-command.ts';
import type { LoginOptions } from './run.ts';

const addCommand = commandsOf(() => import('./run.ts'));

export function addAccountCommands(program: Command): void {
  addCommand<LoginOptions>(
    program,
    {
      usage: 'login [server]',
      summary: 'sign in to a server and save the token in a profile',
      about:
        'On a terminal, if the server has an identity provider, you sign in there: with a code, in a browser on any machine ' +
        '(--device), or in a browser on this machine (--browser). The command first shows the provider, client and scopes that the server asks for, and ' +
        'asks whether it may send your token to the server; in a script, use --yes. It never sends a token that is meant for another server. ' +
        'Later commands renew this sign-in for you. Without an identity provider, the command asks for a token, or ' +
        'reads it from stdin, RINGFENCE_TOKEN or --token-file. It checks the token with the server and saves it in ' +
        '$XDG_CONFIG_HOME/ringfence/profiles.json, which only you can read.',
      options: [
        new Option('--device', 'sign in at the identity provider, with a code, in a browser anywhere'),
        new Option('--browser', 'sign in at the identity provider, in a browser on this machine'),
        new Option('--with-token', 'sign in with a token of the server'),
        new Option('--audience <name>', 'the audience of tokens for this server, if it is not its URL'),
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
      summary: 'remove a profile and its token, and end its sign-in at the identity provider',
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
