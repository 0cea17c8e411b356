/** Owns the commands about trials: changes that are taken back unless somebody confirms them. */
import type { Command } from 'commander';
import { addNoun, commandsOf, onOption, repeated } from '../command-line/client-command.ts';
import type { RevertOptions, WidenOptions } from './run.ts';

const addCommand = commandsOf(() => import('./run.ts'));

export function addTrialCommands(program: Command): void {
  const trial = addNoun(program, 'trial', 'changes that are taken back unless you confirm them in time');
  addCommand(
    trial,
    {
      usage: 'list',
      summary: 'list the changes that are being tried',
      about:
        'A command with --confirm-within starts a trial, such as `ringfence group allow web in tcp 443 --confirm-within 2m`.',
      examples: ['ringfence trial list', 'ringfence trial list -o json'],
    },
    (run, session) => run.list(session),
  );
  addCommand(
    trial,
    {
      usage: 'show <trial>',
      summary: 'show a trial: where it is in force, devices with trouble, and policy tests that fail',
      about: 'A trial that is over is shown by its full id, as long as the server keeps the history.',
      examples: ['ringfence trial show 01a1ed36-1a7f-70b0-8644-77cdd2d59aa6'],
    },
    (run, session, { args: [text = ''] }) => run.show(session, text),
  );
  addCommand(
    trial,
    {
      usage: 'confirm <trial>',
      dryRun: true,
      summary: 'keep the change',
      about:
        'If devices failed, reverted or went offline since the start, or if policy tests fail, the command shows them and asks; in a script, it then needs --yes. Where it would leave devices outside the scope with the default group, it asks, too; in a script, it then needs --detach.',
      policy: true,
      destructive: true,
      detach: true,
      examples: ['ringfence trial confirm 01a1ed36-1a7f-70b0-8644-77cdd2d59aa6'],
    },
    (run, session, { args: [text = ''] }) => run.confirm(session, text),
  );
  addCommand<RevertOptions>(
    trial,
    {
      usage: 'revert <trial>',
      dryRun: true,
      summary: 'take the change back now',
      about:
        'An owner may revert every trial of the organization. With --only, groups and devices leave the trial and are what they were before; the rest stays on trial. Whoever may change a group, or the list of a device, may take it out. A group that the trial created is deleted, and the lists of the trial that name it go back with it.',
      policy: 'untested',
      options: [repeated('--only <name>', 'take only this group or device out of the trial')],
      examples: [
        'ringfence trial revert 01a1ed36-1a7f-70b0-8644-77cdd2d59aa6 --wait',
        'ringfence trial revert 01a1ed36-1a7f-70b0-8644-77cdd2d59aa6 --only web-1 --only web-2',
      ],
    },
    (run, session, { args: [text = ''], options }) => run.revert(session, text, options),
  );
  addCommand<WidenOptions>(
    trial,
    {
      usage: 'widen <trial>',
      dryRun: true,
      summary: 'let more devices try the change; its end stays the same',
      policy: true,
      options: [
        onOption(
          'the devices that try it from now on, those that do already among them: label:edge, all-devices',
        ).makeOptionMandatory(),
      ],
      detach: true,
      examples: [
        'ringfence trial widen 01a1ed36-1a7f-70b0-8644-77cdd2d59aa6 --on label:canary --on label:edge',
        'ringfence trial widen 01a1ed36-1a7f-70b0-8644-77cdd2d59aa6 --on all-devices --wait',
      ],
    },
    (run, session, { args: [text = ''], options }) => run.widen(session, text, options),
  );
}
