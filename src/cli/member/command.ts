/** Owns the commands about members of an organization. */
import { Option, type Command } from 'commander';
import { addNoun, commandsOf, detachOption } from '../command-line/client-command.ts';
import type { AddOptions, RemoveOptions } from './run.ts';

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
  addCommand<AddOptions>(
    member,
    {
      usage: 'add <user>',
      dryRun: true,
      summary: 'make a user a member, now or at the first sign-in',
      about:
        'An e-mail address invites the person: whoever signs in with this address, verified by the identity provider, becomes a member. To add a user whose name is such an address, use the id. A server without an identity provider knows only names. With --at-sign-in a name at the provider works too; use it only where people cannot choose their names there. Invitations expire, and end when the owner who made them is no longer an owner.',
      options: [
        new Option('--role <role>', 'the role of the new member').choices(['member', 'owner']).default('member'),
        new Option('--at-sign-in', 'invite by the name at the identity provider, also if there is no such user yet'),
        new Option('--issuer <url>', 'the identity provider, if the server has several'),
        new Option('--expires <time>', 'end of an invitation: a time, or 2d, 12h from now (default: 7 days from now)'),
      ],
      examples: [
        'ringfence member add ada',
        'ringfence member add kim@example.org --role owner',
        'ringfence member add kim --at-sign-in --expires 2d',
      ],
    },
    (run, session, { args: [text = ''], options }) => run.add(session, text, options),
  );
  addCommand(
    member,
    {
      usage: 'invitations',
      summary: 'list people who become members when they sign in',
      examples: ['ringfence member invitations'],
    },
    (run, session) => run.listInvitations(session),
  );
  addCommand(
    member,
    {
      usage: 'uninvite <person>',
      dryRun: true,
      summary: 'revoke an invitation, by its e-mail address, name or id',
      examples: ['ringfence member uninvite kim@example.org'],
    },
    (run, session, { args: [text = ''] }) => run.uninvite(session, text),
  );
  addCommand(
    member,
    {
      usage: 'role <user> <role>',
      dryRun: true,
      summary: 'make a member an owner, or an owner a member',
      about:
        'The role is owner or member. A new owner has the rights at once and counts as an owner once it has accepted (`ringfence member accept`). An organization always keeps at least one owner who has accepted.',
      examples: ['ringfence member role ada owner'],
    },
    (run, session, { args: [text = '', role = ''] }) => run.setRole(session, text, role),
  );
  addCommand(
    member,
    {
      usage: 'accept',
      dryRun: true,
      summary: 'accept that somebody else made you an owner',
      about:
        'You have the rights of an owner at once. Until you accept, or make a change that only an owner may make, you do not count as an owner who stays: the others cannot leave the organization to you, and it does not count among the organizations that you may own.',
      examples: ['ringfence member accept --org acme'],
    },
    (run, session) => run.accept(session),
  );
  addCommand<RemoveOptions>(
    member,
    {
      usage: 'remove <user>',
      dryRun: true,
      policy: true,
      summary: 'remove a member, and delete the devices and groups of the member in the organization',
      about:
        "With --keep-devices the member's devices become yours and stay enrolled; their tokens stay valid until you rotate them, also for anyone who copied them. To rotate all of them and show the new ones, use --rotate-tokens; then put the new tokens on the devices. The groups that the member owned are removed from these devices; " +
        'if the default group would then apply to a device, the command stops. To continue anyway, use --detach.',
      destructive: true,
      options: [
        new Option('--keep-devices', 'take over the devices of the member instead of deleting them'),
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
