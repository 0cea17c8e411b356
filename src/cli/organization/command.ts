/** Owns the commands about organizations, their members and enrollment keys. */
import { Option, type Command } from 'commander';
import type { AuditOptions } from '../audit/run.ts';
import { addCommand, addNoun, repeated } from '../command-line/client-command.ts';

interface Described {
  readonly name?: string;
  readonly description?: string;
}

export function addOrganizationCommands(program: Command): void {
  const org = addNoun(program, 'org', 'organizations');
  addCommand(
    org,
    { usage: 'list', summary: 'list the organizations I am in', examples: ['ringfence org list'] },
    (session, _, work) => work.organization.list(session),
  );
  addCommand(
    org,
    {
      usage: 'show [org]',
      summary: 'show an organization',
      examples: ['ringfence org show', 'ringfence org show acme'],
    },
    (session, { args: [text] }, work) => work.organization.show(session, text),
  );
  addCommand<Described>(
    org,
    {
      usage: 'create <name>',
      summary: 'create an organization, with its default group',
      options: [new Option('--description <text>', 'free text')],
      examples: ['ringfence org create acme', 'ringfence org create acme --description "Acme, all sites"'],
    },
    (session, { args: [name = ''], options }, work) => work.organization.create(session, name, options),
  );
  addCommand<Described>(
    org,
    {
      usage: 'edit <org>',
      summary: 'rename or describe an organization',
      options: [new Option('--name <name>', 'a new name'), new Option('--description <text>', 'free text')],
      examples: ['ringfence org edit acme --name "Acme Inc."'],
    },
    (session, { args: [text = ''], options }, work) => work.organization.edit(session, text, options),
  );
  addCommand(
    org,
    {
      usage: 'delete <org>',
      summary: 'delete an organization with everything in it',
      destructive: true,
      examples: ['ringfence org delete acme'],
    },
    (session, { args: [text = ''] }, work) => work.organization.remove(session, text),
  );
  addCommand(
    org,
    { usage: 'use <org>', summary: 'keep an organization in the profile', examples: ['ringfence org use acme'] },
    (session, { args: [text = ''] }, work) => work.organization.use(session, text),
  );
  addMemberCommands(program);
  addKeyCommands(program);
  addCommand<AuditOptions>(
    program,
    {
      usage: 'audit',
      summary: 'show who changed what, newest first (for the owner)',
      options: [
        new Option('--limit <number>', 'at most so many entries').default('50'),
        new Option('--all-organizations', 'of the whole server (for its administrator)'),
      ],
      examples: ['ringfence audit', 'ringfence audit --limit 500 -o json'],
    },
    (session, { options }, work) => work.audit.list(session, options),
  );
}

function addMemberCommands(program: Command): void {
  const member = addNoun(program, 'member', 'members of the organization');
  addCommand(
    member,
    { usage: 'list', summary: 'list members', examples: ['ringfence member list --org acme'] },
    (session, _, work) => work.member.list(session),
  );
  addCommand(
    member,
    { usage: 'show <user>', summary: 'show a member', examples: ['ringfence member show ada'] },
    (session, { args: [text = ''] }, work) => work.member.show(session, text),
  );
  addCommand(
    member,
    { usage: 'add <user>', summary: 'make a user a member', examples: ['ringfence member add ada'] },
    (session, { args: [text = ''] }, work) => work.member.add(session, text),
  );
  addCommand(
    member,
    {
      usage: 'remove <user>',
      summary: "remove a member, with that member's devices and groups in the organization",
      destructive: true,
      examples: ['ringfence member remove ada'],
    },
    (session, { args: [text = ''] }, work) => work.member.remove(session, text),
  );
}

interface NewKey {
  readonly uses?: string;
  readonly expires?: string;
  readonly group?: readonly string[];
}

function addKeyCommands(program: Command): void {
  const key = addNoun(program, 'key', 'enrollment keys, with which agents register their devices');
  addCommand(
    key,
    { usage: 'list', summary: 'list my enrollment keys (never their secrets)', examples: ['ringfence key list'] },
    (session, _, work) => work.key.list(session),
  );
  addCommand(
    key,
    {
      usage: 'show <key>',
      summary: 'show an enrollment key, without its secret',
      examples: ['ringfence key show lab'],
    },
    (session, { args: [text = ''] }, work) => work.key.show(session, text),
  );
  addCommand<NewKey>(
    key,
    {
      usage: 'create [name]',
      summary: 'issue an enrollment key; its secret is shown this once',
      options: [
        new Option('--uses <number>', 'how many devices it admits').default('1'),
        new Option('--expires <time>', 'when it ends: a time like 2030-01-31T00:00:00Z, or 7d, 12h, 30m from now'),
        repeated('--group <name|id>', 'a group that every device it admits starts with'),
      ],
      examples: ['ringfence key create lab --uses 10 --expires 7d', 'KEY=$(ringfence key create lab -q)'],
    },
    (session, { args: [name], options }, work) => work.key.create(session, name, options),
  );
  addCommand(
    key,
    {
      usage: 'delete <key>',
      summary: 'revoke an enrollment key',
      destructive: true,
      examples: ['ringfence key delete lab'],
    },
    (session, { args: [text = ''] }, work) => work.key.remove(session, text),
  );
}
