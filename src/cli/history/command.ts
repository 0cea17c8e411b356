/** Owns the commands about the past: what groups and devices were, who changed what, and the way back. */
import { Option, type Command } from 'commander';
import { commandsOf, detachOption } from '../command-line/client-command.ts';
import { forceOption } from '../group/command.ts';
import type { LogOptions } from './log.ts';
import type { HistoryOptions, RestoreOptions } from './run.ts';

const addCommand = commandsOf(() => import('./run.ts'));
const addLog = commandsOf(() => import('./log.ts'));

/** The word that these commands come under, which its own room has declared. */
function nounOf(program: Command, name: string): Command {
  const noun = program.commands.find((command) => command.name() === name);
  if (noun === undefined) throw new Error(`there is no command ${name}`);
  return noun;
}

const limit = (): Option => new Option('--limit <number>', 'at most so many states').default('20');

export function addGroupHistoryCommands(program: Command): void {
  const group = nounOf(program, 'group');
  addCommand<HistoryOptions>(
    group,
    {
      usage: 'history <group>',
      summary: 'show what changed in a group, by whom and when, newest first',
      about: 'A deleted group is named by its id, which `ringfence log` shows.',
      options: [limit()],
      examples: ['ringfence group history web', 'ringfence group history web --limit 100 -o json'],
    },
    (run, session, { args: [text = ''], options }) => run.groupHistory(session, text, options),
  );
  addCommand(
    group,
    {
      usage: 'diff <group> [from] [to]',
      summary: 'show the difference between two states of a group',
      about:
        'Without revisions: what the last change did. With one: what changed since. With two: what changed from the first to the second. ' +
        'A revision is any of the organization: it means the group as it was then.',
      examples: ['ringfence group diff web', 'ringfence group diff web 120', 'ringfence group diff web 120 131'],
    },
    (run, session, { args: [text = '', from, to] }) => run.groupDiff(session, text, from, to),
  );
  addCommand<RestoreOptions>(
    group,
    {
      usage: 'restore <group> <revision>',
      summary: 'make a group what it was at a revision; a deleted one comes back',
      about: 'The old state becomes a new one: nothing is lost, and the way forward is another restore.',
      destructive: true,
      policy: true,
      options: [forceOption(), detachOption()],
      dryRun: true,
      examples: ['ringfence group restore web 120', 'ringfence group restore web 120 --yes --wait'],
    },
    (run, session, { args: [text = '', revision = ''], options }) => run.restore(session, text, revision, options),
  );
}

export function addDeviceHistoryCommands(program: Command): void {
  addCommand<HistoryOptions>(
    nounOf(program, 'device'),
    {
      usage: 'history <device>',
      summary: "show what changed in a device's groups and address, by whom and when, newest first",
      about: 'A deleted device is named by its id, which `ringfence log` shows.',
      options: [limit()],
      examples: ['ringfence device history edge-1'],
    },
    (run, session, { args: [text = ''], options }) => run.deviceHistory(session, text, options),
  );
}

export function addLogCommand(program: Command): void {
  addLog<LogOptions>(
    program,
    {
      usage: 'log',
      summary: 'tell what changed in the organization, by whom and when, newest last (for owners)',
      options: [
        new Option('--limit <number>', 'at most so many changes').default('20'),
        new Option('--all', 'also what changed nothing, and what agents said of where their devices are reached'),
      ],
      examples: ['ringfence log', 'ringfence log --limit 200'],
    },
    (run, session, { options }) => run.log(session, options),
  );
}
