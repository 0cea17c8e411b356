/** Owns the command that follows changes as they happen. */
import { Option, type Command } from 'commander';
import { commandsOf } from '../command-line/client-command.ts';
import type { FollowOptions } from './run.ts';

const addCommand = commandsOf(() => import('./run.ts'));

export function addWatchCommand(program: Command): void {
  addCommand<FollowOptions>(
    program,
    {
      usage: 'watch [kinds...]',
      summary: 'follow changes as they happen',
      about:
        'Kinds are `device` and `security-groups`; the default is both. The command reconnects if it loses the connection.',
      options: [new Option('--no-initial', 'leave out the current state')],
      examples: [
        'ringfence watch',
        'ringfence watch device --no-initial',
        'ringfence watch -o json | jq .value.hostname',
      ],
    },
    (run, session, { args, options }) => run.follow(session, args, options),
  );
}
