/** Owns the commands about the users of a server. */
import { Option, type Command } from 'commander';
import { addNoun, commandsOf, detachOption } from '../command-line/client-command.ts';
import type { RemoveOptions } from './run.ts';

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

  addCommand<RemoveOptions>(
    user,
    {
      usage: 'delete <user>',
      dryRun: true,
      summary: 'delete a user, and its tokens, devices and groups in all organizations',
      policy: 'untested',
      about:
        'Its tokens, sessions and sign-in end first. If it is the last owner of organizations, the command names them and needs --organizations.\n\n' +
        'With --wait, the command waits for the organizations that you are a member of. If the change affects other organizations, only their owners can see whether it is in force, ' +
        'and the command exits with 4.',
      destructive: true,
      options: [
        new Option(
          '--organizations <delete|to:USER>',
          'delete the organizations that the user owns alone, or make another user their owner, who also gets the devices of the user there',
        ),
        detachOption(),
      ],
      examples: [
        'ringfence user delete ada',
        'ringfence user delete ada --yes --wait',
        'ringfence user delete ada --organizations to:grace',
      ],
    },
    (run, session, { args: [text = ''], options }) => run.remove(session, text, options),
  );
}
