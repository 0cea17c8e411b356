/** Owns the commands about members of an organization. */
import type { Command } from 'commander';
import { addNoun, commandsOf } from '../command-line/client-command.ts';

const addCommand = commandsOf(() => import('./run.ts'));

export function addMemberCommands(program: Command): void {
  const member = addNoun(program, 'member', 'members of the organization');
  addCommand(
    member,
    { usage: 'list', summary: 'list members', examples: ['ringfence member list --org acme'] },
    (run, session) => run.list(session),
  );
  addCommand(
    member,
    { usage: 'show <user>', summary: 'show a member', examples: ['ringfence member show ada'] },
    (run, session, { args: [text = ''] }) => run.show(session, text),
  );
  addCommand(
    member,
    { usage: 'add <user>', summary: 'make a user a member', examples: ['ringfence member add ada'] },
    (run, session, { args: [text = ''] }) => run.add(session, text),
  );
  addCommand(
    member,
    {
      usage: 'remove <user>',
      summary: "remove a member, with that member's devices and groups in the organization",
      destructive: true,
      examples: ['ringfence member remove ada'],
    },
    (run, session, { args: [text = ''] }) => run.remove(session, text),
  );
}
