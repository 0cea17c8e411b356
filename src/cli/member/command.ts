/** Owns the commands about members of an organization. */
import { Option, type Command } from 'commander';
import { addNoun, commandsOf, detachOption } from '../command-line/client-command.ts';
import type { RemoveOptions } from './run.ts';

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
      usage: 'role <user> <role>',
      summary: 'make a member an owner, or an owner a member',
      about: 'The role is owner or member. An organization has one owner or several; the last one stays.',
      examples: ['ringfence member role ada owner'],
    },
    (run, session, { args: [text = '', role = ''] }) => run.setRole(session, text, role),
  );
  addCommand<RemoveOptions>(
    member,
    {
      usage: 'remove <user>',
      policy: true,
      summary: "remove a member, with that member's devices and groups in the organization",
      about:
        "With --keep-devices the member's devices become yours and stay enrolled; their tokens stay valid until you rotate them, also for whoever copied them. --rotate-tokens rotates all of them and shows the new ones, which you put on the devices. Groups that the member owned leave their lists; " +
        'a device that would be left with the default group stops the removal, unless --detach says that this is meant.',
      destructive: true,
      options: [
        new Option('--keep-devices', "take the member's devices over instead of deleting them"),
        new Option('--rotate-tokens', 'with --keep-devices: end the old tokens of these devices and show new ones'),
        detachOption(),
      ],
      examples: [
        'ringfence member remove ada',
        'ringfence member remove ada --keep-devices',
        'ringfence member remove ada --keep-devices --rotate-tokens -o json',
        'ringfence member remove ada --yes --wait',
      ],
    },
    (run, session, { args: [text = ''], options }) => run.remove(session, text, options),
  );
}
