/**
 * Owns the commands about history: earlier states of groups and devices, who changed what, and how to restore a state.
 */
import { Option, type Command } from 'commander';
import { commandsOf, forceOption } from '../command-line/client-command.ts';
import type { LogOptions } from './log.ts';
import type { HistoryOptions } from './run.ts';

const addCommand = commandsOf(() => import('./run.ts'));
const addRestoreDevice = commandsOf(() => import('./restore-device.ts'));
const addLog = commandsOf(() => import('./log.ts'));

/** The word that these commands come under, which its own room has declared. */
function nounOf(program: Command, name: string): Command {
  const noun = program.commands.find((command) => command.name() === name);
  if (noun === undefined) throw new Error(`command ${name} does not exist`);
  return noun;
}

const limit = (): Option => new Option('--limit <number>', 'maximum number of states').default('20');

export function addGroupHistoryCommands(program: Command): void {
  const group = nounOf(program, 'group');
  addCommand<HistoryOptions>(
    group,
    {
      usage: 'history <group>',
      summary: 'show what changed in a group, by whom and when, newest first',
      about: 'For a deleted group, use its id. `ringfence log` shows it.',
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
        'Without revisions, it shows the last change. With one revision, it shows all changes since then. With two, it shows the changes between them. ' +
        'You can use any revision of the organization: it means the state of the group at that revision.',
      examples: ['ringfence group diff web', 'ringfence group diff web 120', 'ringfence group diff web 120 131'],
    },
    (run, session, { args: [text = '', from, to] }) => run.groupDiff(session, text, from, to),
  );
  addCommand(
    group,
    {
      usage: 'restore <group> <revision>',
      summary: 'restore a group to its state at a revision, also after it was deleted',
      about: 'Restoring creates a new revision and keeps the history. To undo it, restore again.',
      destructive: true,
      policy: true,
      trial: true,
      options: [forceOption()],
      detach: true,
      dryRun: true,
      examples: ['ringfence group restore web 120', 'ringfence group restore web 120 --yes --wait'],
    },
    (run, session, { args: [text = '', revision = ''] }) => run.restore(session, text, revision),
  );
}

export function addDeviceHistoryCommands(program: Command): void {
  addCommand<HistoryOptions>(
    nounOf(program, 'device'),
    {
      usage: 'history <device>',
      summary: "show what changed in a device's groups and address, by whom and when, newest first",
      about: 'For a deleted device, use its id. `ringfence log` shows it.',
      options: [limit()],
      examples: ['ringfence device history edge-1'],
    },
    (run, session, { args: [text = ''], options }) => run.deviceHistory(session, text, options),
  );
  addRestoreDevice(
    nounOf(program, 'device'),
    {
      usage: 'restore <device> <revision>',
      summary: 'restore the groups, labels and addresses of a device to their state at a revision',
      about:
        'The host name, the user and the tunnel address stay. A deleted device cannot be restored: enroll it again.',
      destructive: true,
      policy: true,
      detach: true,
      dryRun: true,
      examples: ['ringfence device restore edge-1 120', 'ringfence device restore edge-1 120 --yes --wait'],
    },
    (run, session, { args: [text = '', revision = ''] }) => run.restoreDevice(session, text, revision),
  );
}

export function addLogCommand(program: Command): void {
  addLog<LogOptions>(
    program,
    {
      usage: 'log',
      summary: 'show who changed what and when, newest last (owners only)',
      about:
        'Devices and groups are found by the names that they had at the time, too. `-o wide` also shows with which credential and from where. A time is like 2026-11-09, 2026-11-09T10:00 (local time), or 90d, 12h, 30m for that long ago.',
      options: [
        new Option('--limit <number>', 'maximum number of changes').default('20'),
        new Option('--since <time>', 'only changes from this time on'),
        new Option('--until <time>', 'only changes up to this time'),
        new Option('--by <user>', 'only changes by this user'),
        new Option('--device <device>', 'only changes of this device'),
        new Option('--group <name|id>', 'only changes of this group'),
        new Option('--label <label>', 'only changes of devices and groups that name this label'),
        new Option(
          '--all',
          'show each entry by itself, also writes that changed nothing and addresses that agents reported',
        ),
        new Option(
          '--all-organizations',
          'show instead what changed on the server outside of all organizations: users and their tokens (administrators only)',
        ),
      ],
      examples: [
        'ringfence log',
        'ringfence log --since 7d --by ada --limit 200',
        'ringfence log --device db-1 --since 2026-11-09 --until 2026-11-10',
      ],
    },
    (run, session, { options }) => run.log(session, options),
  ).alias('audit');
}
