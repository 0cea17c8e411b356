/** Owns the commands about organizations. */
import { Option, type Command } from 'commander';
import { addNoun, commandsOf } from '../command-line/client-command.ts';

const addCommand = commandsOf(() => import('./run.ts'));

interface Edited extends Described {
  readonly observe?: 'off' | 'counters' | 'refused' | 'all';
  readonly refuseWith?: 'drop' | 'reject';
}

interface Described {
  readonly name?: string;
  readonly description?: string;
}

export function addOrganizationCommands(program: Command): void {
  const org = addNoun(program, 'org', 'organizations');
  addCommand(
    org,
    { usage: 'list', summary: 'list your organizations', examples: ['ringfence org list'] },
    (run, session) => run.list(session),
  );
  addCommand(
    org,
    {
      usage: 'show [org]',
      summary: 'show an organization',
      examples: ['ringfence org show', 'ringfence org show acme'],
    },
    (run, session, { args: [text] }) => run.show(session, text),
  );
  addCommand<Described>(
    org,
    {
      usage: 'create <name>',
      dryRun: true,
      summary: 'create an organization, with its default group',
      options: [new Option('--description <text>', 'free text')],
      examples: ['ringfence org create acme', 'ringfence org create acme --description "Acme, all sites"'],
    },
    (run, session, { args: [name = ''], options }) => run.create(session, name, options),
  );
  addCommand<Edited>(
    org,
    {
      usage: 'edit [org]',
      dryRun: true,
      summary: 'rename or describe an organization, or set what its agents record',
      about: '`observe` is what agents record of the traffic; only owners set it, and the audit shows it.',
      options: [
        new Option('--name <name>', 'a new name'),
        new Option('--description <text>', 'free text'),
        new Option('--observe <what>', 'what agents record').choices(['off', 'counters', 'refused', 'all']),
        new Option('--refuse-with <how>', 'whether refused packets are answered').choices(['drop', 'reject']),
      ],
      examples: ['ringfence org edit acme --name "Acme Inc."', 'ringfence org edit --observe refused'],
    },
    (run, session, { args: [text], options }) => run.edit(session, text, options),
  );
  addCommand(
    org,
    {
      usage: 'delete <org>',
      dryRun: true,
      summary: 'delete an organization with everything in it',
      destructive: true,
      examples: ['ringfence org delete acme'],
    },
    (run, session, { args: [text = ''] }) => run.remove(session, text),
  );
  addCommand(
    org,
    { usage: 'use <org>', summary: 'set the organization that commands use', examples: ['ringfence org use acme'] },
    (run, session, { args: [text = ''] }) => run.use(session, text),
  );
}
