/** Owns the command about the fleet at a glance. */
import { Option, type Command } from 'commander';
import { commandsOf } from '../command-line/client-command.ts';
import type { StatusOptions } from './run.ts';

const addCommand = commandsOf(() => import('./run.ts'));

export function addStatusCommand(program: Command): void {
  addCommand<StatusOptions>(
    program,
    {
      usage: 'status',
      summary: 'tell on which devices the policy is in force, and why not on the others',
      about:
        'In force means proven: the device has said that its rules reflect the newest change that touches it, with a digest of the rules ' +
        'that its kernel holds, and it is the digest that the server expects.',
      options: [
        new Option('--revision <number>', 'a revision other than the newest'),
        new Option(
          '--wait [duration]',
          'wait until it is in force on every device, 2 minutes unless given: --wait=30s',
        ),
        new Option('--devices <number>', 'with --wait: also until so many devices have joined'),
        new Option('--exit-code', 'end with 1 unless it is in force everywhere'),
      ],
      examples: [
        'ringfence status',
        'ringfence status --wait=30s',
        'ringfence status --wait --devices 12',
        'ringfence status --exit-code',
        'ringfence status -o json',
      ],
    },
    (run, session, { options }) => run.status(session, options),
  );
}
