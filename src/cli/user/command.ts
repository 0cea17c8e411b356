/** Owns the commands about the users of a server. */
import type { Command } from 'commander';
import { addNoun, commandsOf } from '../command-line/client-command.ts';

const addCommand = commandsOf(() => import('./run.ts'));

export function addUserCommands(program: Command): void {
  const user = addNoun(program, 'user', 'users of the server (administrators only)');
  addCommand(user, { usage: 'list', summary: 'list users', examples: ['ringfence user list'] }, (run, session) =>
    run.list(session),
  );
  addCommand(
    user,
    { usage: 'create <username>', dryRun: true, summary: 'create a user', examples: ['ringfence user create ada'] },
    (run, session, { args: [name = ''] }) => run.create(session, name),
  );

  addCommand(
    user,
    {
      usage: 'delete <user>',
      dryRun: true,
      summary: 'delete a user, and its tokens, devices and groups in all organizations',
      policy: 'untested',
      about:
        'With --wait, the command waits for the organizations that you are a member of. If the change affects other organizations, only their owners can see whether it is in force, ' +
        'and the command exits with 4.',
      destructive: true,
      examples: ['ringfence user delete ada', 'ringfence user delete ada --yes --wait'],
    },
    (run, session, { args: [text = ''] }) => run.remove(session, text),
  );
}
