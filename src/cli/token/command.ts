/** Owns the commands about tokens. */
import { Option, type Command } from 'commander';
import { addNoun, commandsOf } from '../command-line/client-command.ts';
import type { NewToken } from './run.ts';

const addCommand = commandsOf(() => import('./run.ts'));

export function addTokenCommands(program: Command): void {
  const token = addNoun(program, 'token', 'tokens that act for a user');
  addCommand(
    token,
    { usage: 'list', summary: 'list your tokens, without their secrets', examples: ['ringfence token list'] },
    (run, session) => run.list(session),
  );
  addCommand(
    token,
    { usage: 'show <token>', summary: 'show a token, without its secret', examples: ['ringfence token show ci'] },
    (run, session, { args: [text = ''] }) => run.show(session, text),
  );
  addCommand<NewToken>(
    token,
    {
      usage: 'create [name]',
      dryRun: true,
      summary: 'create a token; its secret is shown only once',
      options: [
        new Option('--user <name|id>', 'for another user (administrators only)'),
        new Option('--expires <time>', 'expiry time: a time like 2030-01-31T00:00:00Z, or 90d, 12h, 30m from now'),
        new Option('--read-only', 'the token cannot write'),
      ],
      examples: ['ringfence token create ci --expires 90d', 'ringfence token create dashboard --read-only -q > token'],
    },
    (run, session, { args: [name], options }) => run.create(session, name, options),
  );
  addCommand<{ readonly byDevice?: boolean }>(
    token,
    {
      usage: 'rotate <token>',
      dryRun: true,
      summary: 'replace the secret of a token; the old secret stops working immediately',
      destructive: true,
      options: [
        new Option(
          '--by-device',
          "of an enrolled device's token: its agent makes the new secret, at once if it is connected; the old secret stops when the new one is first used",
        ),
      ],
      examples: [
        'ringfence token rotate ci',
        'ringfence token rotate ci --yes -q > token',
        'ringfence token rotate web-1 --by-device',
      ],
    },
    (run, session, { args: [text = ''], options }) => run.rotate(session, text, options),
  );
  addCommand(
    token,
    {
      usage: 'delete <token>',
      dryRun: true,
      summary: 'revoke a token and close its open streams',
      destructive: true,
      examples: ['ringfence token delete ci --yes'],
    },
    (run, session, { args: [text = ''] }) => run.remove(session, text),
  );
}
