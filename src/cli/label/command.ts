/** Owns the commands about labels: where each is used, and renaming one everywhere. */
import { Option, type Command } from 'commander';
import { addNoun, commandsOf, forceOption } from '../command-line/client-command.ts';

const addCommand = commandsOf(() => import('./run.ts'));
const addRename = commandsOf(() => import('./rename.ts'));

export function addLabelCommands(program: Command): void {
  const label = addNoun(program, 'label', 'labels of devices, and where groups use them');
  addCommand(
    label,
    {
      usage: 'list',
      summary: 'list labels with the devices, groups, rules, enrollment keys and policy tests that use them',
      examples: ['ringfence label list'],
    },
    (run, session) => run.list(session),
  );
  addRename(
    label,
    {
      usage: 'rename <label> <new>',
      summary: 'rename a label on devices and in groups, rules and policy tests, in one change (owners only)',
      about:
        'Every device switches at once, and no connection that is allowed before and after is reset. ' +
        'If the new label is already in use, the two become one: the command says so and shows the effect before it asks. ' +
        'A label that more than 1,000 records use is not renamed. Groups of other members keep the old label, because only these members may change them, and an enrollment key cannot be changed: ' +
        'the command names the groups, and prints the commands that replace the keys.',
      options: [forceOption()],
      detach: true,
      destructive: true,
      dryRun: true,
      policy: true,
      examples: ['ringfence label rename db database', 'ringfence label rename db database --yes --wait'],
    },
    (run, session, { args: [from = '', to = ''] }) => run.rename(session, from, to),
  );
}

export function addUndoCommand(program: Command): void {
  addCommand(
    program,
    {
      usage: 'undo [change]',
      dryRun: true,
      summary: 'undo a change of several records as one, by its change id',
      about:
        'The id is the one that `ringfence log` shows. Without an id, it offers to undo the last change; in a script, it names that change and the command, and exits with 2. If a record has changed since, the command names it and changes nothing, unless you use --force.',
      destructive: true,
      policy: true,
      options: [
        new Option(
          '--force',
          'also overwrite later changes of the same fields, leave out what cannot come back, and bring back a guardrail that forbids everything',
        ),
      ],
      detach: true,
      examples: ['ringfence undo b477a832', 'ringfence undo 01a1ed36-1a7f-70b0-8644-77cdd2d59aa6'],
    },
    (run, session, { args: [change = ''] }) => run.undo(session, change),
  );
}
