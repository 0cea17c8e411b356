/** Owns the command that looks for problems between this machine and its server. */
import type { Command } from 'commander';
import { toOption } from '../command-line/options.ts';
import { commandsOf } from '../command-line/client-command.ts';
import { agentOptions } from '../../agent/options.ts';
import type { DoctorOptions } from './run.ts';

const addCommand = commandsOf(() => import('./run.ts'));

export function addDoctorCommand(program: Command): void {
  addCommand<DoctorOptions>(
    program,
    {
      usage: 'doctor',
      summary: 'check server, sign-in, clock and versions; on a device also the agent and its rules',
      about:
        'Each check prints what it found, and how to fix a problem. Exits with 1 if a check fails. ' +
        'On a device, run it as root: the agent answers only root and its own user.',
      options: [toOption(agentOptions.state)],
      examples: ['ringfence doctor', 'sudo ringfence doctor --server https://ringfence.example'],
    },
    (run, session, { options }) => run.examine(session, options),
  );
}
