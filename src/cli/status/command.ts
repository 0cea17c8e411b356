/** Owns the command that shows the state of the fleet. */
import { Option, type Command } from 'commander';
import { commandsOf } from '../command-line/client-command.ts';
import type { StatusOptions } from './run.ts';

const addCommand = commandsOf(() => import('./run.ts'));

export function addStatusCommand(program: Command): void {
  addCommand<StatusOptions>(
    program,
    {
      usage: 'status',
      summary: 'show on which devices the policy is in force, and why not on the others',
      about:
        'It also shows changes that are being tried and policy tests that fail. In force means proven: the device has confirmed the newest change that affects it, with a digest of the rules ' +
        'in its kernel, and the digest is the one that the server expects.',
      options: [
        new Option('--revision <number>', 'a revision other than the newest'),
        new Option(
          '--wait [duration]',
          'wait until it is in force on every device, for up to 2 minutes or the given time: --wait=30s',
        ),
        new Option('--devices <number>', 'with --wait: also wait until this many devices have joined'),
        new Option('--exit-code', 'exit with 1 unless it is in force everywhere'),
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
