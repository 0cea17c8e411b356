/** Owns the commands about the users of a server. */
import type { Command } from 'commander';
import { addNoun, commandsOf } from '../command-line/client-command.ts';

const addCommand = commandsOf(() => import('./run.ts'));

export function addUserCommands(program: Command): void {
  const user = addNoun(program, 'user', 'users of the server (for its administrator)');
  addCommand(user, { usage: 'list', summary: 'list users', examples: ['ringfence user list'] }, (run, session) =>
    run.list(session),
  );
  addCommand(
    user,
    { usage: 'create <username>', summary: 'create a user', examples: ['ringfence user create ada'] },
    (run, session, { args: [name = ''] }) => run.create(session, name),
  );

  addCommand(
    user,
    {
      usage: 'delete <user>',
      summary: 'delete a user, with its tokens, devices and groups everywhere',
      policy: true,
      about:
        'With --wait the organizations are waited for that you are a member of; whether the change is in force elsewhere is for the owners there to see, ' +
        'and the command ends with 4 where there is such an organization.',
      destructive: true,
      examples: ['ringfence user delete ada', 'ringfence user delete ada --yes --wait'],
    },
    (run, session, { args: [text = ''] }) => run.remove(session, text),
  );
}
